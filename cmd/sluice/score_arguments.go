package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sacrebleuShort are the options that sacrebleu abbreviates to several letters behind one dash.
var sacrebleuShort = map[string]string{
	"-tok": "tokenize", "-lc": "lowercase", "-sv": "smooth-value", "-sl": "sentence-level",
	"-cc": "chrf-char-order", "-cw": "chrf-word-order",
	"-ci": "confidence", "-cin": "confidence-n", "-pbsn": "paired-bs-n",
}

// sacrebleuArguments rewrites sacrebleu's abbreviations into the long options that the flag library reads.
func sacrebleuArguments(arguments []string, flags *pflag.FlagSet) []string {
	out := make([]string, 0, len(arguments))
	for i, word := range arguments {
		if word == "--" {
			return append(out, arguments[i:]...)
		}
		short, value, hasValue := strings.Cut(word, "=")
		if long, ok := sacrebleuShort[short]; ok && flags.Lookup(long) != nil {
			word = "--" + long
			if hasValue {
				word += "=" + value
			}
		}
		out = append(out, word)
	}
	return out
}

// otherArguments rewrites the command lines of the smaller commands: the abbreviations of sacrebleu, and the lists that
// Marian writes behind one option (--vocabs source.spm target.spm).
func otherArguments(command *cobra.Command, arguments []string) []string {
	if command.HasParent() {
		switch command.Parent().Name() {
		case "score":
			return sacrebleuArguments(arguments, command.Flags())
		case "shortlist":
			return marianArguments(arguments, command.Flags(), map[string]func(string) bool{"vocabs": looksLikeVocabulary})
		}
	}
	return arguments
}
