package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// A flagGroup is a set of flags under a heading of the help text.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// newGroup returns an empty group that keeps the order in which flags are defined.
func newGroup(title string) flagGroup {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false
	return flagGroup{title, set}
}

// addGroups gives a command its flags and a help text that shows them group by group.
func addGroups(command *cobra.Command, groups ...flagGroup) {
	for _, group := range groups {
		command.Flags().AddFlagSet(group.flags)
	}
	command.SetUsageFunc(func(asked *cobra.Command) error {
		if asked != command { // a command below, without groups of its own
			return command.Root().UsageFunc()(asked)
		}
		return writeUsage(command.OutOrStderr(), command, groups)
	})
}

func writeUsage(w io.Writer, command *cobra.Command, groups []flagGroup) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", command.UseLine())
	if command.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", command.Example)
	}
	if command.HasAvailableSubCommands() {
		b.WriteString("\nAvailable Commands:\n")
		for _, below := range command.Commands() {
			if below.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s %s\n", below.NamePadding(), below.Name(), below.Short)
			}
		}
	}
	for _, group := range groups {
		fmt.Fprintf(&b, "\n%s:\n%s", group.title, group.flags.FlagUsagesWrapped(helpWidth()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// helpWidth is the width to wrap help at: the terminal's, within what can be read.
func helpWidth() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 100
	}
	return min(max(width, 60), 120)
}
