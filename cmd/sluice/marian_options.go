package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// The options of marian-decoder that are not ours. Each has an entry here, so that nobody gets something else than what they
// asked for without a word: docs/marian-options.md lists them with all the others, and a test compares the two.

// An effect is what becomes of one of Marian's options.
type effect int

const (
	harmless  effect = iota // translations do not depend on it: accepted in silence
	described               // the model's own description says it: a warning, but for keys of a configuration
	warned                  // it has no effect here, and has one in Marian: a warning
	renamed                 // the name of an arithmetic: it stands for --gemm-precision
	refused                 // an error that says what to do instead
)

// A syntax is how many words an option takes.
type syntax int

const (
	word   syntax = iota // one
	toggle               // none
	list                 // one, and every number behind it
	maybe                // none or numbers
)

type marianOption struct {
	name      string
	shorthand string
	syntax    syntax
	effect    effect
	why       string // the reason, or what to do instead
	unasked   string // Marian's own default, which asks for nothing
}

const (
	chosenByModel = "the model file says it (with --ignore-model-config, the configuration file does)"
	noTraining    = "it matters in training only"
)

// marianOptions are all of them but those that only describe an architecture.
func marianOptions() []marianOption {
	options := []marianOption{
		{name: "workspace", shorthand: "w", why: "memory is sized automatically"},
		{name: "data-threads", why: "reading needs no threads of its own"},
		{name: "model-mmap", syntax: toggle, why: "models are always mapped"},
		{name: "check-nan", syntax: toggle, why: "numbers that overflow are always found, and the sentence is done again in float32"},
		{name: "cache-size", why: "there is no cache of translations"},
		{name: "log-time-zone", effect: warned, why: "set the environment variable TZ"},
		{name: "relative-paths", syntax: toggle, effect: warned, why: "it is for configuration files, about the paths in them"},
		{name: "skip-cost", syntax: toggle, effect: warned, why: "greedy search skips the softmax by itself, and a beam needs it"},
		{name: "num-devices", effect: warned, why: "name the GPUs with --devices"},
		{name: "fp16", syntax: toggle, effect: warned, why: "GPUs always compute in 16-bit floating point, the CPU never does"},
		{name: "optimize", syntax: toggle, effect: warned, why: "the arithmetic is chosen by --precision"},
		{name: "output-approx-knn", syntax: maybe, effect: warned, why: "the output layer is exact: --shortlist makes it fast"},
		{name: "gemm-type", shorthand: "g", effect: refused, why: "choose the arithmetic with --precision", unasked: "float32"},
		{name: "quantize-range", effect: refused, why: "--precision int8 cuts weights off where quality was best: see docs/quality.md"},
		{name: "encryption-key-path", effect: refused, why: "encrypted models cannot be read: decrypt the file first"},
		{name: "dump-quantmult", syntax: toggle, effect: refused, why: "use sluice model convert --calibrate"},
		{name: "max-length-break", effect: refused, why: "use --max-length: longer sentences are divided by themselves"},
		{name: "ssplit-mode", effect: refused, why: "every line is a sentence: divide texts into sentences first"},
		{name: "ssplit-prefix-file", effect: refused, why: "every line is a sentence: divide texts into sentences first"},
		{name: "input-types", syntax: list, effect: refused, why: "there is one input, of text"},
		{name: "input-reorder", syntax: list, effect: refused, why: "name the column with --field"},
		{name: "input-join-fields", syntax: toggle, effect: refused, why: "join the columns first"},
		{name: "authors", syntax: toggle, effect: refused, why: "see sluice version"},
		{name: "cite", syntax: toggle, effect: refused, why: "see sluice version"},
		{name: "build-info", syntax: maybe, effect: refused, why: "see sluice version"},
	}
	for _, name := range []string{"int8", "int8Alpha", "int8shift", "int8shiftAlpha", "int8shiftAll", "int8shiftAlphaAll"} {
		options = append(options, marianOption{name: name, syntax: toggle, effect: renamed})
	}
	return append(options, architectureOptions()...)
}

// architectureOptions describe the network. In Marian too, what the model file says of itself comes before them.
func architectureOptions() []marianOption {
	var options []marianOption
	add := func(syntax syntax, effect effect, why, names string) {
		for name := range strings.FieldsSeq(names) {
			options = append(options, marianOption{name: name, syntax: syntax, effect: effect, why: why})
		}
	}
	add(word, described, chosenByModel, `type dim-emb factors-dim-emb factors-combine lemma-dependency lemma-dim-emb dim-rnn enc-type
		enc-cell enc-cell-depth enc-depth dec-cell dec-cell-base-depth dec-cell-high-depth dec-depth transformer-heads
		transformer-dim-ffn transformer-decoder-dim-ffn transformer-ffn-depth transformer-decoder-ffn-depth
		transformer-ffn-activation transformer-dim-aan transformer-aan-depth transformer-aan-activation
		transformer-decoder-autoreg transformer-guided-alignment-layer transformer-preprocess transformer-postprocess-emb
		transformer-postprocess transformer-postprocess-top transformer-attention-mask separator-symbol
		char-stride char-highway`)
	add(toggle, described, chosenByModel, `skip layer-normalization right-left best-deep tied-embeddings tied-embeddings-src
		tied-embeddings-all output-omit-bias transformer-no-projection transformer-rnn-projection transformer-pool
		transformer-aan-nogate transformer-train-position-embeddings transformer-depth-scaling transformer-alibi-shift
		transformer-disable-position-embeddings transformer-alibi-trainable alibi transformer-no-bias transformer-no-affine`)
	add(list, described, chosenByModel, `dim-vocabs transformer-tied-layers char-conv-filters-num char-conv-filters-widths`)
	add(word, harmless, noTraining, `bert-mask-symbol bert-sep-symbol bert-class-symbol bert-masking-fraction bert-type-vocab-size
		comet-pool comet-mix-transformation comet-dropout comet-mixup comet-augment-bad`)
	add(word, harmless, noTraining, `bert-train-type-embeddings`)
	add(toggle, harmless, noTraining, `comet-final-sigmoid comet-stop-grad comet-mix comet-mix-norm comet-mixup-reg
		comet-prepend-zero comet-use-separator`)
	add(list, harmless, noTraining, `comet-pooler-ffn`)
	return options
}

// addMarianFlags defines Marian's options, hidden from the help text.
func addMarianFlags(flags *pflag.FlagSet) {
	for _, option := range marianOptions() {
		flags.StringArrayP(option.name, option.shorthand, nil, "")
		flag := flags.Lookup(option.name)
		flag.Hidden = true
		if option.syntax == toggle || option.syntax == maybe {
			flag.NoOptDefVal = "true"
		}
	}
}

// changedFlags names the flags that were set so far.
func changedFlags(flags *pflag.FlagSet) map[string]bool {
	changed := map[string]bool{}
	flags.Visit(func(flag *pflag.Flag) { changed[flag.Name] = true })
	return changed
}

// marianNotes says what becomes of the options of Marian's that were given: warnings, or an error for one that is refused.
// outside are the flags that were set outside of a configuration file.
func (f *modelFlags) marianNotes(flags *pflag.FlagSet, outside map[string]bool) (warnings []string, err error) {
	for _, option := range marianOptions() {
		values, err := flags.GetStringArray(option.name)
		if err != nil || !option.asks(values) {
			continue
		}
		switch option.effect {
		case renamed:
			if f.gemmPrecision != "" && f.gemmPrecision != option.name {
				return warnings, usageErrorf("--%s and %s are two kinds of arithmetic: choose one", option.name, f.gemmPrecision)
			}
			f.gemmPrecision = option.name
		case described:
			if outside[option.name] {
				warnings = append(warnings, fmt.Sprintf("--%s has no effect: %s", option.name, option.why))
			}
		case warned:
			if beam, _ := flags.GetInt("beam-size"); option.name == "skip-cost" && beam == 1 {
				continue // just what is done
			}
			warnings = append(warnings, fmt.Sprintf("--%s has no effect: %s", option.name, option.why))
		case refused:
			return warnings, usageErrorf("--%s %s: %s", option.name, strings.Join(values, " "), option.why)
		}
	}
	return warnings, nil
}

// asks says whether the values ask for anything: a configuration that Marian has dumped names every option.
func (o *marianOption) asks(values []string) bool {
	return slices.ContainsFunc(values, func(value string) bool {
		return value != "" && value != "false" && value != "0" && value != "none" && value != o.unasked
	})
}
