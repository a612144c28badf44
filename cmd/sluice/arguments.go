package main

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Marian's command line has two habits that pflag does not know: a list option takes every following word up to the
// next option (-v source.spm target.spm), and an option with a default may stand bare or with a value behind a space
// (-n, -n 0.6). marianArguments rewrites such a command line into one that pflag reads, so that what people have in
// their scripts keeps working.
//
// lists maps a list option to what its values must look like for the next word to belong to it; a word that does not
// is left as an argument of the command.
func marianArguments(arguments []string, flags *pflag.FlagSet, lists map[string]func(string) bool) []string {
	var out []string
	for i := 0; i < len(arguments); i++ {
		word := arguments[i]
		if word == "--" {
			return append(out, arguments[i:]...)
		}
		flag, inline := lookupFlag(flags, word)
		switch {
		case flag == nil || inline:
			out = append(out, word)
		case lists[flag.Name] != nil:
			n := countValues(arguments[i+1:], flag, lists[flag.Name])
			out = append(out, listOption(word, flag, arguments[i+1:i+1+n])...)
			i += n
		case flag.NoOptDefVal != "" && i+1 < len(arguments) && isValueOf(flag, arguments[i+1]):
			i++
			out = append(out, "--"+flag.Name+"="+arguments[i])
		case flag.NoOptDefVal != "" || i+1 >= len(arguments):
			out = append(out, word)
		default:
			i++
			out = append(out, word, arguments[i]) // the value, even where it begins with a dash
		}
	}
	return out
}

// countValues counts the words that belong to a list option. The first word always does, unless the option may stand bare.
func countValues(words []string, flag *pflag.Flag, belongs func(string) bool) int {
	n := 0
	for n < len(words) && !isOption(words[n]) && (n == 0 && flag.NoOptDefVal == "" || belongs(words[n])) {
		n++
	}
	return n
}

// listOption repeats the option before each of its values, as pflag wants it.
func listOption(word string, flag *pflag.Flag, values []string) []string {
	if len(values) == 0 {
		return []string{word}
	}
	var out []string
	for _, value := range values {
		out = append(out, "--"+flag.Name+"="+value)
	}
	return out
}

// lookupFlag finds the flag that a word names; inline says that the word holds its value as well.
func lookupFlag(flags *pflag.FlagSet, word string) (flag *pflag.Flag, inline bool) {
	switch {
	case strings.HasPrefix(word, "--"):
		name, _, hasValue := strings.Cut(word[2:], "=")
		return flags.Lookup(name), hasValue
	case len(word) > 1 && word[0] == '-' && !isNumber(word):
		return flags.ShorthandLookup(word[1:2]), len(word) > 2
	}
	return nil, false
}

// isOption tells an option from a value; "-" (standard input) and negative numbers are values.
func isOption(word string) bool {
	return len(word) > 1 && word[0] == '-' && !isNumber(word)
}

func isNumber(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil
}

// isValueOf says whether the word behind an option that may stand bare is its value.
func isValueOf(flag *pflag.Flag, word string) bool {
	switch flag.Value.Type() {
	case "bool":
		return word == "true" || word == "false"
	case "string":
		switch flag.Name {
		case "dump-config":
			return word == "full" || word == "minimal" || word == "expand"
		case "alignment":
			return isNumber(word) || word == "hard" || word == "soft"
		}
		return false
	case "stringArray":
		return word == "true" || word == "false" // one of Marian's options without a value
	default:
		return isNumber(word)
	}
}
