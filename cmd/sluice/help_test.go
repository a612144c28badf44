package main

import (
	"regexp"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help of a command shows its own options, all that are not hidden, and none of another command's.
func TestHelpShowsTheOptionsOfItsCommand(t *testing.T) {
	option := regexp.MustCompile(`(?m)^(?:  -\w, |      )--([\w-]+)`)
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		var shown, has []string
		for _, match := range option.FindAllStringSubmatch(command.UsageString(), -1) {
			shown = append(shown, match[1])
		}
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden && flag.Name != "help" {
				has = append(has, flag.Name)
			}
		})
		shown = slices.DeleteFunc(shown, func(name string) bool { return name == "help" })
		slices.Sort(shown)
		slices.Sort(has)
		if !slices.Equal(shown, has) {
			t.Errorf("%s: its help shows %q, its options are %q", command.CommandPath(), shown, has)
		}
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(newRootCommand(nil))
}
