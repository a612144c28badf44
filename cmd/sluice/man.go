package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCommand returns the command that writes the manual pages, one per command.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages into a folder",
		Args:  exactArguments(1, "one folder"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := os.MkdirAll(arguments[0], 0o777); err != nil {
				return outputError{err}
			}
			header := &doc.GenManHeader{Title: "SLUICE", Section: "1", Source: "sluice " + buildVersion()}
			if err := doc.GenManTree(command.Root(), header, arguments[0]); err != nil {
				return outputError{err}
			}
			return nil
		},
	}
}
