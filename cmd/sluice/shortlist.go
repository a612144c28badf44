package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// newShortlistCommand returns the commands for lexical shortlists.
func newShortlistCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "shortlist",
		Short: "Build, convert and inspect lexical shortlists",
		Long: `A lexical shortlist names, for every piece of a source sentence, the target pieces that its
translations are made of. The output layer then scores some hundred candidates instead of the whole
vocabulary.

Two forms exist, both Marian's: text ("target source probability" on each line, lex.s2t.gz) and binary
(lex.50.50.ende.s2t.bin). Both are read compressed as well.`,
		Args: needsSubcommand,
		RunE: showHelp,
		// The options belong to the commands below; a wrong name of one of those is what has to be told.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
	}
	command.AddCommand(newBuildShortlistCommand(), newConvertShortlistCommand(), newInspectShortlistCommand())
	return command
}

// A sides is the pair of vocabularies that a shortlist leads from and to.
type sides struct {
	source, target vocab.Vocabulary
	shared         bool
}

// openSides opens the vocabularies given by --vocabs, one for both sides or one for each.
func openSides(paths []string) (sides, error) {
	if len(paths) == 0 || len(paths) > 2 {
		return sides{}, usageErrorf("--vocabs takes one shared vocabulary or two, source and target; %d were given", len(paths))
	}
	first, last := paths[0], paths[len(paths)-1]
	source, target, err := openVocabularies(first, last)
	return sides{source, target, first == last}, err
}

// options are those that a shortlist between the two sides is opened with.
func (s sides) options(parameters shortlist.Parameters) shortlist.Options {
	options := shortlist.Options{Parameters: parameters, Shared: s.shared}
	if s.source != nil {
		options.Source, options.Target = s.source, s.target
	}
	return options
}

func addVocabs(flags *pflag.FlagSet, vocabs *[]string) {
	flags.StringArrayVarP(vocabs, "vocabs", "v", nil, "vocabularies of source and target; one if they share it")
}

// addParameters adds the options that say which pairs become candidates, with Marian's defaults.
func addParameters(flags *pflag.FlagSet, parameters *shortlist.Parameters) {
	defaults := shortlist.Defaults()
	flags.IntVar(&parameters.First, "first", defaults.First, "ids below it are candidates of every sentence")
	flags.IntVar(&parameters.Best, "best", defaults.Best, "most probable target pieces kept for each source piece")
	flags.Float64Var(&parameters.Threshold, "threshold", defaults.Threshold, "probability that a pair must exceed")
}

// checkParameters refuses values of those options before anything is read or learnt.
func checkParameters(parameters shortlist.Parameters) error {
	if err := parameters.Check(); err != nil {
		return usageError{err}
	}
	return nil
}
