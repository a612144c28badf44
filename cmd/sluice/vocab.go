package main

import (
	"github.com/spf13/cobra"
)

// newVocabCommand returns the commands for vocabularies.
func newVocabCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "vocab",
		Short: "Train and inspect vocabularies, and divide text into their pieces",
		Long: `A vocabulary divides text into the numbered pieces that a model translates: words and parts of words.

SentencePiece models (.spm) are trained, and read with all that the original puts into them. Marian's own
vocabularies (.yml, or a token on each line) are read as well.`,
		Args: needsSubcommand,
		RunE: showHelp,
		// The options belong to the commands below; a wrong name of one of those is what has to be told.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
	}
	command.AddCommand(newTrainVocabCommand(), newInspectVocabCommand(), newEncodeCommand(), newDecodeCommand())
	return command
}
