package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/train/pieces"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// vocabTraining is one run of "sluice vocab train".
type vocabTraining struct {
	texts, tables []string
	output        string
	overwrite     bool
	modelType     string
	rulesTable    string
	hardLimit     bool
	quiet         bool
	options       pieces.Options
	logger        *slog.Logger
}

func newTrainVocabCommand() *cobra.Command {
	v := &vocabTraining{options: pieces.Defaults()}
	command := &cobra.Command{
		Use:   "train -o OUTPUT [FILE]...",
		Short: "Train a vocabulary on texts",
		Long: `Train a SentencePiece vocabulary on texts with one sentence on each line, compressed or not; with the sentences of
both languages it is one that source and target share. spm_train's options have the same names, with dashes or
underscores, and the same effects; what it writes, Marian and SentencePiece read. Unlike there, ids are Marian's
(</s> is 0, <unk> 1, no other special symbols), and what has no piece is written as bytes unless --byte-fallback=false.

The result depends on the texts, their order, and the options, not on --cpu-threads. Memory grows with the number of
distinct words (about 100 bytes each, at most --max-words), not with the length of the texts.`,
		Example: `  sluice vocab train -o vocab.spm train.en.gz train.de.gz
  sluice vocab train -o vocab.spm --vocab-size 16000 --character-coverage 1 --input-sentence-size 2000000 --tsv train.tsv.zst`,
		RunE: func(command *cobra.Command, arguments []string) error {
			v.texts = append(v.texts, arguments...)
			if err := v.check(command.ErrOrStderr()); err != nil {
				return err
			}
			return v.run(command.Context(), command.OutOrStdout())
		},
	}
	addGroups(command, v.groups()...)
	command.Flags().SetNormalizeFunc(dashesForUnderscores)
	return command
}

// dashesForUnderscores lets options of spm_train be written as there.
func dashesForUnderscores(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "num_threads" || name == "num-threads" {
		name = "cpu-threads"
	}
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

func (v *vocabTraining) groups() []flagGroup {
	files, size, cutting, symbols, normalization, learning, resources := newGroup("Files"), newGroup("Size"), newGroup("Where text is cut"),
		newGroup("Special symbols"), newGroup("Normalisation"), newGroup("Learning"), newGroup("Resources")
	spec, normalizer := &v.options.Spec, &v.options.Normalizer
	files.flags.StringSliceVar(&v.texts, "input", nil, "`FILES` of sentences, separated by commas, beside those given as arguments; - is standard input")
	files.flags.StringSliceVar(&v.tables, "tsv", nil, "`FILES` of sentence pairs, source and target separated by a tab; both are taken")
	files.flags.StringVarP(&v.output, "output", "o", "", "`FILE` to write; - is standard output")
	files.flags.BoolVar(&v.overwrite, "overwrite", false, "replace the output if it exists")

	size.flags.StringVar(&v.modelType, "model-type", "unigram", "unigram or bpe")
	size.flags.IntVar(&spec.VocabSize, "vocab-size", spec.VocabSize, "pieces, special symbols and bytes included")
	size.flags.BoolVar(&v.hardLimit, "hard-vocab-limit", true, "fail if there are not that many pieces, instead of taking fewer")
	size.flags.Float64Var(&spec.CharacterCoverage, "character-coverage", spec.CharacterCoverage, "share of the text whose characters become pieces, the most frequent ones")
	size.flags.StringVar(&spec.RequiredChars, "required-chars", "", "characters that become pieces however rare they are")

	cutting.flags.IntVar(&spec.MaxPieceLength, "max-sentencepiece-length", spec.MaxPieceLength, "characters of a piece at most")
	cutting.flags.BoolVar(&spec.SplitByWhitespace, "split-by-whitespace", spec.SplitByWhitespace, "no piece reaches across a space")
	cutting.flags.BoolVar(&spec.SplitByScript, "split-by-unicode-script", spec.SplitByScript, "no piece holds characters of two scripts")
	cutting.flags.BoolVar(&spec.SplitByNumber, "split-by-number", spec.SplitByNumber, "digits are a script of their own")
	cutting.flags.BoolVar(&spec.SplitDigits, "split-digits", spec.SplitDigits, "each digit is a piece")
	cutting.flags.BoolVar(&spec.WhitespaceAsSuffix, "treat-whitespace-as-suffix", false, "a space belongs to the word before it")
	cutting.flags.BoolVar(&spec.WhitespaceOnlyPieces, "allow-whitespace-only-pieces", false, "several spaces may be a piece")

	symbols.flags.StringSliceVar(&spec.ControlSymbols, "control-symbols", nil, "symbols that text cannot hold, separated by commas")
	symbols.flags.StringSliceVar(&spec.UserDefinedSymbols, "user-defined-symbols", nil, "texts that always are a piece of their own")
	symbols.flags.BoolVar(&spec.ByteFallback, "byte-fallback", spec.ByteFallback, "256 pieces for the bytes of what has no piece")
	symbols.flags.IntVar(&spec.EOSID, "eos-id", spec.EOSID, "id of the end of sentence")
	symbols.flags.IntVar(&spec.UnkID, "unk-id", spec.UnkID, "id of the unknown")
	symbols.flags.IntVar(&spec.BOSID, "bos-id", spec.BOSID, "id of the beginning of a sentence; -1 for none")
	symbols.flags.IntVar(&spec.PadID, "pad-id", spec.PadID, "id of padding; -1 for none")
	symbols.flags.StringVar(&spec.EOSPiece, "eos-piece", spec.EOSPiece, "name of the end of sentence")
	symbols.flags.StringVar(&spec.UnkPiece, "unk-piece", spec.UnkPiece, "name of the unknown")
	symbols.flags.StringVar(&spec.BOSPiece, "bos-piece", spec.BOSPiece, "name of the beginning of a sentence")
	symbols.flags.StringVar(&spec.PadPiece, "pad-piece", spec.PadPiece, "name of padding")
	symbols.flags.StringVar(&spec.UnkSurface, "unk-surface", spec.UnkSurface, "text that the unknown is decoded to")

	normalization.flags.StringVar(&normalizer.Name, "normalization-rule-name", normalizer.Name, "nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf (with case folded) or identity (none)")
	normalization.flags.StringVar(&v.rulesTable, "normalization-rule-tsv", "", "`FILE` with other rules: code points in hexadecimal, a tab, what they become")
	normalization.flags.BoolVar(&normalizer.AddDummyPrefix, "add-dummy-prefix", normalizer.AddDummyPrefix, "add a space in front, so that the first word is like the others")
	normalization.flags.BoolVar(&normalizer.RemoveExtraWhitespaces, "remove-extra-whitespaces", normalizer.RemoveExtraWhitespaces, "several spaces count as one, those at both ends not at all")

	learning.flags.IntVar(&spec.InputSentenceSize, "input-sentence-size", 0, "take a random sample of so many sentences; 0 is all")
	learning.flags.Uint64Var(&v.options.Seed, "random-seed", v.options.Seed, "chooses the sample")
	learning.flags.IntVar(&spec.MaxSentenceLength, "max-sentence-length", spec.MaxSentenceLength, "leave out sentences of more bytes")
	learning.flags.IntVar(&spec.SeedSize, "seed-sentencepiece-size", spec.SeedSize, "substrings to begin with")
	learning.flags.Float64Var(&spec.ShrinkingFactor, "shrinking-factor", spec.ShrinkingFactor, "share of the pieces that each round keeps")
	learning.flags.IntVar(&spec.SubIterations, "num-sub-iterations", spec.SubIterations, "steps of expectation maximisation in each round")

	countVar(resources.flags, &v.options.Workers, "cpu-threads", mostWorkers, "workers, one for each core")
	resources.flags.IntVar(&v.options.MaxWords, "max-words", v.options.MaxWords, "distinct words kept in memory; the rarest are left out when there are more")
	resources.flags.BoolVar(&v.quiet, "quiet", false, "print warnings and errors only")
	return []flagGroup{files, size, cutting, symbols, normalization, learning, resources}
}

func (v *vocabTraining) check(stderr io.Writer) error {
	switch {
	case len(v.texts) == 0 && len(v.tables) == 0:
		return usageErrorf("vocab train needs texts (see sluice vocab train --help)")
	case v.output == "":
		return usageErrorf("vocab train needs --output")
	case v.modelType == "unigram":
		v.options.Spec.Type = vocab.UnigramModel
	case v.modelType == "bpe":
		v.options.Spec.Type = vocab.BPEModel
	default:
		return usageErrorf("--model-type %s: want unigram or bpe", v.modelType)
	}
	if v.options.Spec.InputSentenceSize != 0 {
		for _, path := range append(v.texts, v.tables...) {
			if path == "-" {
				return usageErrorf("--input-sentence-size reads the texts twice, and cannot take them from standard input")
			}
		}
	}
	if v.options.Workers == 0 {
		v.options.Workers = runtime.GOMAXPROCS(0)
	}
	v.options.Spec.SoftVocabLimit = !v.hardLimit
	var err error
	if v.logger, err = newLogger(stderr, "text", "info", v.quiet); err != nil {
		return err
	}
	if err := checkOutputs(v.overwrite, []string{v.output}, slices.Concat(v.texts, v.tables, []string{v.rulesTable})); err != nil {
		return err
	}
	return v.readRules()
}

// readRules reads normalisation rules of the user's own.
func (v *vocabTraining) readRules() error {
	if v.rulesTable == "" {
		return nil
	}
	file, err := os.Open(v.rulesTable)
	if err != nil {
		return inputError{err}
	}
	defer file.Close()
	v.options.Normalizer.Name = "user_defined" // as the original calls them
	if v.options.Rules, err = pieces.ReadRules(file); err != nil {
		return inputError{fmt.Errorf("%s, %w", v.rulesTable, err)}
	}
	return nil
}

func (v *vocabTraining) run(ctx context.Context, stdout io.Writer) error {
	result, err := pieces.Train(ctx, func(yield func(string) error) error { return v.sentences(ctx, yield) }, v.options, v.logger)
	if err != nil {
		return sortVocabError(err)
	}
	data, err := result.Model.Marshal()
	if err != nil {
		return err
	}
	err = writeTo(stdout, v.output, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err == nil {
		v.logger.Info("done", "vocabulary", v.output, "pieces", len(result.Model.Pieces))
	}
	return err
}

// sentences yields all sentences of all files.
func (v *vocabTraining) sentences(ctx context.Context, yield func(string) error) error {
	for _, path := range v.texts {
		err := eachLine(path, func(line string) error {
			if ctx.Err() != nil {
				return errInterrupted
			}
			return yield(line)
		})
		if err != nil {
			return err
		}
	}
	for _, path := range v.tables {
		if err := eachSide(ctx, path, yield); err != nil {
			return err
		}
	}
	return nil
}

// eachSide yields source and target of each line of a table.
func eachSide(ctx context.Context, path string, yield func(string) error) error {
	number := 0
	return eachLine(path, func(line string) error {
		if ctx.Err() != nil {
			return errInterrupted
		}
		number++
		source, rest, ok := strings.Cut(line, "\t")
		if !ok {
			return inputError{fmt.Errorf("%s, line %d: there is no tab between source and target", displayName(path), number)}
		}
		target, _, _ := strings.Cut(rest, "\t")
		if err := yield(source); err != nil {
			return err
		}
		return yield(target)
	})
}

// sortVocabError sorts an error of training by what the user has to look at.
func sortVocabError(err error) error {
	var input inputError
	switch {
	case errors.As(err, &input):
		return err
	case errors.Is(err, pieces.ErrOptions):
		return usageError{err}
	case errors.Is(err, pieces.ErrCorpus):
		return inputError{err}
	case errors.Is(err, context.Canceled):
		return errInterrupted
	}
	return err
}
