package main

import "github.com/spf13/cobra"

// newScoreCommand returns the commands that score translations.
func newScoreCommand() *cobra.Command {
	command := &cobra.Command{Use: "score", Short: "Score translations as sacreBLEU does"}
	return command
}
