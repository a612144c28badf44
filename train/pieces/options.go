package pieces

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/translator/vocab"
)

// The errors of training that a caller may want to tell apart.
var (
	// ErrOptions is wrapped by errors about options that cannot be, or not together.
	ErrOptions = errors.New("options that cannot be used")
	// ErrCorpus is wrapped by errors about texts from which the vocabulary cannot be made.
	ErrCorpus = errors.New("unusable text")
)

// Options say how a vocabulary is trained.
type Options struct {
	// Spec has those options of the original that end up in the file.
	Spec vocab.TrainerSpec
	// Normalizer says how texts are rewritten. Rules overrules its CharacterMap.
	Normalizer vocab.NormalizerSpec
	Rules      Rules

	// MaxWords bounds the distinct words that are kept in memory, with about 100 bytes each. When there are more, those that
	// have been rarest so far are forgotten until half as many are left.
	MaxWords int
	// Seed chooses the sample that Spec.InputSentenceSize asks for: each sentence is taken with the probability (still
	// wanted) / (still to come), so that all samples of that size are equally probable.
	Seed uint64
	// Workers is the number of threads. The result does not depend on it.
	Workers int
}

// Defaults are the options of the original, but for the ids of the special symbols, which are those that Marian asks it for,
// the size, and that it falls back on bytes: what is unknown cannot be translated otherwise.
func Defaults() Options {
	return Options{
		Spec: vocab.TrainerSpec{
			Type: vocab.UnigramModel, VocabSize: 32000,
			CharacterCoverage: 0.9995, SeedSize: 1_000_000, ShrinkingFactor: 0.75, SubIterations: 2,
			MaxPieceLength: 16, MaxSentenceLength: 4192,
			SplitByScript: true, SplitByNumber: true, SplitByWhitespace: true, ByteFallback: true,
			EOSID: 0, UnkID: 1, BOSID: -1, PadID: -1,
			UnkPiece: "<unk>", BOSPiece: "<s>", EOSPiece: "</s>", PadPiece: "<pad>", UnkSurface: " \u2047 ",
		},
		Normalizer: vocab.NormalizerSpec{Name: "nmt_nfkc", AddDummyPrefix: true, RemoveExtraWhitespaces: true},
		MaxWords:   1 << 23,
		Seed:       1,
		Workers:    runtime.GOMAXPROCS(0),
	}
}

// maxVocabulary is the largest number of pieces: the file must not become larger than what is read.
const maxVocabulary = 1_000_000

func (o *Options) check() error {
	s := &o.Spec
	problem := func(format string, arguments ...any) error {
		return fmt.Errorf("pieces: %w: "+format, append([]any{ErrOptions}, arguments...)...)
	}
	switch {
	case s.Type != vocab.UnigramModel && s.Type != vocab.BPEModel:
		return problem("model type %d is neither unigram nor BPE", s.Type)
	case s.VocabSize < 1 || s.VocabSize > maxVocabulary:
		return problem("vocabulary size %d is not between 1 and %d", s.VocabSize, maxVocabulary)
	case !(s.CharacterCoverage >= 0.98 && s.CharacterCoverage <= 1):
		return problem("character coverage %v is not between 0.98 and 1", s.CharacterCoverage)
	case s.MaxPieceLength < 1 || s.MaxPieceLength > 512:
		return problem("maximal length of pieces %d is not between 1 and 512", s.MaxPieceLength)
	case s.MaxSentenceLength < 10 || s.MaxSentenceLength > 1<<20:
		return problem("maximal length of sentences %d is not between 10 and %d", s.MaxSentenceLength, 1<<20)
	case s.SubIterations < 1 || s.SubIterations > 10:
		return problem("%d sub-iterations are not between 1 and 10", s.SubIterations)
	case !(s.ShrinkingFactor >= 0.5 && s.ShrinkingFactor <= 0.95):
		return problem("shrinking factor %v is not between 0.5 and 0.95", s.ShrinkingFactor)
	case s.SeedSize < 1 || s.SeedSize > math.MaxInt32/4:
		return problem("seed size %d is not between 1 and %d", s.SeedSize, math.MaxInt32/4)
	case s.InputSentenceSize < 0:
		return problem("a sample of %d sentences cannot be taken", s.InputSentenceSize)
	case o.MaxWords < 2:
		return problem("%d words are too few to keep", o.MaxWords)
	case o.Workers < 1:
		return problem("%d workers do no work", o.Workers)
	case !utf8.ValidString(s.RequiredChars):
		return problem("the required characters are not valid UTF-8")
	case strings.ContainsAny(s.RequiredChars, " \x00\n\t"):
		return problem("a space, a tab, a line feed or a zero byte cannot be a required character")
	}
	return nil
}
