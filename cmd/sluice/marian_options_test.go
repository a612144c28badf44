package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

var (
	documentedRow  = regexp.MustCompile(`(?m)^\| (.+?) \| (as in Marian|differs|no effect|warning|refused|arithmetic) \|`)
	documentedName = regexp.MustCompile("`--([\\w-]+)(?:`, `-(\\w))?")
)

// documentedOptions reads the table of docs/marian-options.md: the effect of every option, and its short name.
func documentedOptions(t *testing.T) (effects, shorthands map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sharedtest.Root(), "docs", "marian-options.md"))
	if err != nil {
		t.Fatal(err)
	}
	effects, shorthands = map[string]string{}, map[string]string{}
	for _, row := range documentedRow.FindAllStringSubmatch(string(text), -1) {
		for _, name := range documentedName.FindAllStringSubmatch(row[1], -1) {
			if effects[name[1]] != "" {
				t.Errorf("--%s is in the table twice", name[1])
			}
			effects[name[1]], shorthands[name[1]] = row[2], name[2]
		}
	}
	return effects, shorthands
}

// given is what translate makes of a command line with one of Marian's options.
func given(t *testing.T, option marianOption) (model *modelFlags, warnings []string, err error) {
	t.Helper()
	translate := new(translation)
	command := translate.command()
	words := []string{"--" + option.name}
	if option.syntax == word || option.syntax == list {
		words = append(words, "7")
	}
	words = append(words, "corpus.en")
	flags := command.Flags()
	if err := flags.Parse(marianArguments(words, flags, translateLists())); err != nil {
		t.Fatal(err)
	}
	if rest := flags.Args(); len(rest) != 1 || rest[0] != "corpus.en" {
		t.Errorf("%q leaves %q as inputs", words, rest)
	}
	if option.name == "skip-cost" {
		translate.search.beamSize = 2
	}
	warnings, err = translate.model.marianNotes(flags, changedFlags(flags))
	return &translate.model, warnings, err
}

// TestMarianOptions holds the table of the documentation against what the command does with each option.
func TestMarianOptions(t *testing.T) {
	effects, shorthands := documentedOptions(t)
	if len(effects) < 130 {
		t.Fatalf("only %d options were found in the table", len(effects))
	}
	notOurs := map[string]bool{}
	for _, option := range marianOptions() {
		notOurs[option.name] = true
		model, warnings, err := given(t, option)
		got := "no effect"
		switch {
		case err != nil:
			got = "refused"
		case len(warnings) > 0:
			got = "warning"
		case model.gemmPrecision != "":
			got = "arithmetic"
		}
		if got != effects[option.name] {
			t.Errorf("--%s: %s (%q, %v), documented as %q", option.name, got, warnings, err, effects[option.name])
		}
		said := strings.Join(warnings, "")
		if err != nil {
			said = err.Error()
		}
		if said != "" && (!strings.Contains(said, "--"+option.name) || !strings.Contains(said, option.why)) {
			t.Errorf("--%s: the message %q does not say what to do", option.name, said)
		}
	}
	flags := newTranslateCommand(beginEngine).Flags()
	for name, effect := range effects {
		flag := flags.Lookup(name)
		if flag == nil {
			t.Errorf("--%s is in the table and not an option", name)
			continue
		}
		if flag.Shorthand != shorthands[name] {
			t.Errorf("--%s has the short name %q, documented as %q", name, flag.Shorthand, shorthands[name])
		}
		if ours := effect == "as in Marian" || effect == "differs"; ours == notOurs[name] {
			t.Errorf("--%s is documented as %q", name, effect)
		}
	}
}

// TestMarianDefaults gives every option a value that asks for nothing, as a configuration that Marian has dumped does.
func TestMarianDefaults(t *testing.T) {
	flags := newTranslateCommand(beginEngine).Flags()
	for _, option := range marianOptions() {
		for _, nothing := range []string{"", "false", "0"} {
			if err := flags.Set(option.name, nothing); err != nil {
				t.Fatal(err)
			}
		}
	}
	if warnings, err := new(modelFlags).marianNotes(flags, changedFlags(flags)); len(warnings) > 0 || err != nil {
		t.Errorf("%q, %v", warnings, err)
	}
}

// TestArithmeticByMarianName gives two kinds of arithmetic at once.
func TestArithmeticByMarianName(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addMarianFlags(flags)
	if err := flags.Parse([]string{"--int8shiftAlphaAll"}); err != nil {
		t.Fatal(err)
	}
	model := new(modelFlags)
	if _, err := model.marianNotes(flags, nil); err != nil || model.gemmPrecision != "int8shiftAlphaAll" {
		t.Errorf("the arithmetic is %q, %v", model.gemmPrecision, err)
	}
	model.gemmPrecision = "float32"
	if _, err := model.marianNotes(flags, nil); err == nil {
		t.Error("two kinds of arithmetic were taken")
	}
}

func TestMarianArgumentsOfMarianOptions(t *testing.T) {
	for _, c := range []struct{ line, rest string }{
		{"-d 0 1 2 3 a.en", "a.en"},
		{"--devices cpu0 a.en", "a.en"},
		{"--type transformer a.en", "a.en"},
		{"--output-approx-knn 100 1024 a.en", "a.en"},
		{"--output-approx-knn a.en", "a.en"},
		{"--fp16 a.en", "a.en"},
		{"--fp16 false a.en", "a.en"},
		{"--dump-config minimal a.en", "a.en"},
		{"--dump-config a.en", "a.en"},
		{"-c a.yml b.yaml a.en", "a.en"},
		{"--alignment hard a.en", "a.en"},
		{"--precision float32 a.en", "a.en"},
	} {
		flags := newTranslateCommand(beginEngine).Flags()
		if err := flags.Parse(marianArguments(strings.Fields(c.line), flags, translateLists())); err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		if rest := flags.Args(); !slices.Equal(rest, strings.Fields(c.rest)) {
			t.Errorf("%s: the inputs are %q, want %q", c.line, rest, c.rest)
		}
	}
}
