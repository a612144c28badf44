package main

import "github.com/spf13/cobra"

// newShortlistCommand returns the commands for lexical shortlists.
func newShortlistCommand() *cobra.Command {
	command := &cobra.Command{Use: "shortlist", Short: "Build, convert and inspect lexical shortlists"}
	return command
}
