package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// sacrebleuArguments rewrites the options that sacrebleu abbreviates to several letters behind one dash into the long ones
// that the flag library reads.
func sacrebleuArguments(arguments []string, flags *pflag.FlagSet) []string {
	abbreviations := map[string]string{
		"-tok": "tokenize", "-lc": "lowercase", "-sv": "smooth-value", "-sl": "sentence-level",
		"-cc": "chrf-char-order", "-cw": "chrf-word-order",
		"-ci": "confidence", "-cin": "confidence-n", "-pbsn": "paired-bs-n",
	}
	out := make([]string, 0, len(arguments))
	for i, word := range arguments {
		if word == "--" {
			return append(out, arguments[i:]...)
		}
		short, value, hasValue := strings.Cut(word, "=")
		if long, ok := abbreviations[short]; ok && flags.Lookup(long) != nil {
			word = "--" + long
			if hasValue {
				word += "=" + value
			}
		}
		out = append(out, word)
	}
	return out
}
