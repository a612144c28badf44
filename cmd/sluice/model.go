package main

import "github.com/spf13/cobra"

// newModelCommand returns the commands that look at models and change how they are stored.
func newModelCommand() *cobra.Command {
	command := &cobra.Command{Use: "model", Short: "Inspect, verify and convert models"}
	return command
}
