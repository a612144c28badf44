package pieces

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/translator/vocab"
)

// A Result is what training gives.
type Result struct {
	Model *vocab.Model
	// Sentences that the vocabulary was made from, and those left out since they are too long.
	Sentences, TooLong int64
	// Characters in them, and the distinct ones that are pieces.
	Characters int64
	Alphabet   int
	// Words are the distinct ones that were kept, and Forgotten the occurrences of others.
	Words     int
	Forgotten int64
}

// Train makes a vocabulary from a corpus. Errors of the corpus and of ctx are returned as they are.
func Train(ctx context.Context, corpus Corpus, options Options, logger *slog.Logger) (*Result, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	special, err := specialPieces(&options.Spec)
	if err != nil {
		return nil, err
	}
	model := &vocab.Model{Trainer: options.Spec, Normalizer: options.Normalizer}
	if model.Normalizer.CharacterMap, err = options.characterMap(); err != nil {
		return nil, err
	}
	t := &trainer{options: &options, special: special, logger: logger, result: &Result{Model: model}}
	if err := t.readWords(ctx, corpus); err != nil {
		return nil, err
	}
	found, err := t.learn(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.assemble(found); err != nil {
		return nil, err
	}
	return t.result, nil
}

// characterMap returns the compiled normalisation rules.
func (o *Options) characterMap() ([]byte, error) {
	rules := o.Rules
	if rules == nil {
		if len(o.Normalizer.CharacterMap) > 0 {
			return o.Normalizer.CharacterMap, nil
		}
		var err error
		if rules, err = NamedRules(o.Normalizer.Name); err != nil {
			return nil, err
		}
	}
	blob, err := vocab.CompileRules(rules)
	if err != nil {
		return nil, fmt.Errorf("pieces: %w: %w", ErrOptions, err)
	}
	return blob, nil
}

// A trainer is one run of Train.
type trainer struct {
	options *Options
	special map[int]vocab.ModelPiece
	logger  *slog.Logger
	result  *Result
	divider *divider
	words   *words
}

// room returns the number of pieces that come from the text.
func (t *trainer) room() int { return t.options.Spec.VocabSize - len(t.special) }

// readWords counts the words of the corpus.
func (t *trainer) readWords(ctx context.Context, corpus Corpus) error {
	normalizer, err := t.result.Model.NewNormalizer()
	if err != nil {
		return fmt.Errorf("pieces: %w: %w", ErrOptions, err)
	}
	spec := &t.options.Spec
	t.divider = newDivider(spec, normalizer, t.special)
	tally, err := count(ctx, corpus, t.options, t.divider, t.logger)
	if err != nil {
		return err
	}
	if tally.total == 0 {
		return fmt.Errorf("pieces: %w: it holds no characters", ErrCorpus)
	}
	alphabet := tally.alphabet(t.requiredCharacters(), spec.CharacterCoverage)
	if len(alphabet) > t.room() {
		return fmt.Errorf("pieces: %w: a vocabulary of %d has no room for %d characters and %d special symbols: make it larger, or cover fewer characters",
			ErrCorpus, spec.VocabSize, len(alphabet), len(t.special))
	}
	if t.words, err = newWords(tally, alphabet); err != nil {
		return err
	}
	r := t.result
	r.Sentences, r.TooLong, r.Characters = tally.sentences, tally.tooLong, tally.total
	r.Alphabet, r.Words, r.Forgotten = len(alphabet), t.words.len(), tally.forgotten
	if r.TooLong > 0 {
		t.logger.Warn("sentences longer than --max-sentence-length bytes are left out", "sentences", r.TooLong)
	}
	if r.Forgotten > 0 {
		t.logger.Warn("there are more distinct words than are kept: the rarest were left out", "occurrences", r.Forgotten)
	}
	t.logger.Info("counted words", "sentences", r.Sentences, "characters", r.Characters, "alphabet", r.Alphabet, "words", r.Words)
	return nil
}

// requiredCharacters returns the characters that have to be pieces, but for those that are symbols.
func (t *trainer) requiredCharacters() string {
	symbols := map[string]bool{}
	for _, symbol := range t.special {
		symbols[symbol.Text] = true
	}
	return strings.Map(func(r rune) rune {
		if symbols[string(r)] {
			return -1
		}
		return r
	}, t.options.Spec.RequiredChars)
}

// A scored piece is one of the vocabulary.
type scored struct {
	text  string
	score float64
}

// learn finds the pieces of the vocabulary in the text, at most as many as there is room for, the first ones first.
func (t *trainer) learn(ctx context.Context) ([]scored, error) {
	if t.options.Spec.Type == vocab.BPEModel {
		return t.learnBPE(ctx)
	}
	return t.learnUnigram(ctx)
}

// learnUnigram learns the pieces of a unigram model.
func (t *trainer) learnUnigram(ctx context.Context) ([]scored, error) {
	spec := &t.options.Spec
	seed, err := t.seed(ctx)
	if err != nil {
		return nil, err
	}
	estimator := newEstimator(t.words, t.options.Workers)
	lexicon := newLexicon(seed, len(t.words.alphabet))
	enough := int(1.1 * float64(spec.VocabSize))
	for round := 1; ; round++ {
		likelihood := 0.0
		for range spec.SubIterations {
			expected, err := estimator.expect(ctx, lexicon)
			if err != nil {
				return nil, err
			}
			likelihood = expected.likelihood
			lexicon = newLexicon(maximise(lexicon, expected.counts), len(t.words.alphabet))
		}
		t.logger.Info("estimated", "round", round, "pieces", len(lexicon.pieces), "word log-likelihood", math.Round(1e4*likelihood)/1e4)
		if len(lexicon.pieces) <= enough {
			break
		}
		keep := max(enough, int(spec.ShrinkingFactor*float64(len(lexicon.pieces))))
		kept, err := estimator.prune(ctx, lexicon, keep)
		if err != nil {
			return nil, err
		}
		lexicon = newLexicon(kept, len(t.words.alphabet))
	}
	return t.choose(lexicon.pieces), nil
}

// seed returns the pieces to begin with: all characters, and the substrings that cover most of the text.
func (t *trainer) seed(ctx context.Context) ([]piece, error) {
	w := t.words
	substrings, err := frequentSubstrings(ctx, w, t.divider, t.options.Spec.SeedSize, t.options.Workers)
	if err != nil {
		return nil, err
	}
	counts := w.symbolCounts()
	seed := make([]piece, 0, len(counts)+len(substrings))
	total := 0.0
	add := func(text []symbol, weight int64) {
		weight = max(weight, 1) // required characters need not occur
		total += float64(weight)
		seed = append(seed, piece{text, math.Log(float64(weight))})
	}
	for i, n := range counts {
		add([]symbol{symbol(i + 1)}, n)
	}
	for _, s := range substrings {
		add(w.text[s.start:s.start+s.length], s.score())
	}
	for i := range seed {
		seed[i].score -= math.Log(total)
	}
	t.logger.Info("found frequent substrings", "pieces", len(seed))
	return seed, nil
}

// choose returns all characters and of the other pieces the most probable ones, the most probable first.
func (t *trainer) choose(pieces []piece) []scored {
	all := make([]scored, 0, len(pieces))
	var runes []rune
	for _, p := range pieces {
		runes = t.words.runes(runes[:0], p.text)
		all = append(all, scored{string(runes), p.score})
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.text, b.text)) })
	others := t.room() - len(t.words.alphabet)
	return slices.DeleteFunc(all, func(s scored) bool {
		if len([]rune(s.text)) == 1 {
			return false
		}
		others--
		return others < 0
	})
}

// assemble gives the pieces their ids.
func (t *trainer) assemble(found []scored) error {
	model := t.result.Model
	size := min(t.options.Spec.VocabSize, len(found)+len(t.special))
	if size < t.options.Spec.VocabSize {
		if !t.options.Spec.SoftVocabLimit {
			return fmt.Errorf("pieces: %w: only %d pieces can be found in it, not %d: make the vocabulary smaller or the text larger, or allow fewer pieces",
				ErrCorpus, size, t.options.Spec.VocabSize)
		}
		model.Trainer.VocabSize = size
	}
	for id := range size {
		if symbol, ok := t.special[id]; ok {
			model.Pieces = append(model.Pieces, symbol)
			continue
		}
		if len(found) == 0 {
			return fmt.Errorf("pieces: %w: with only %d pieces, there is none for id %d", ErrCorpus, size, id)
		}
		model.Pieces = append(model.Pieces, vocab.ModelPiece{Text: found[0].text, Score: float32(found[0].score), Kind: vocab.NormalPiece})
		found = found[1:]
	}
	return nil
}
