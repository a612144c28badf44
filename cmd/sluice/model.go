package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/translator/bundle"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// newModelCommand returns the commands that look at models and change how they are stored.
func newModelCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "model",
		Short: "Inspect, verify and convert models",
		Long: `Look at a model, check that it can be used, and change how it is stored.

MODEL is a .npz or .bin file of Marian, compressed or not, or a folder that holds one with its
vocabularies.`,
		Args: needsSubcommand,
		RunE: showHelp,
		// The options belong to the commands below; a wrong name of one of those is what has to be told.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
	}
	command.AddCommand(newInspectModelCommand(), newVerifyModelCommand(), newConvertModelCommand())
	return command
}

// needsSubcommand refuses words that are no command of a family of commands.
func needsSubcommand(command *cobra.Command, arguments []string) error {
	if len(arguments) > 0 {
		return usageErrorf("%s has no command %q (see %s --help)", command.CommandPath(), arguments[0], command.CommandPath())
	}
	return nil
}

func showHelp(command *cobra.Command, _ []string) error { return command.Help() }

// resolveModel finds the files of a model given as a file or as a folder.
func resolveModel(path string) (bundle.Bundle, error) {
	found, err := bundle.Find(path)
	if err != nil {
		return found, modelError{err}
	}
	if found.Model != "" {
		return found, nil
	}
	if err := fromDecoderConfig(&found); err != nil {
		return found, modelError{fmt.Errorf("%s: %w", found.Config, err)}
	}
	return found, nil
}

// fromDecoderConfig fills in the files that a folder's decoder.yml names.
func fromDecoderConfig(found *bundle.Bundle) error {
	content, err := readSettings(found.Config)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return err
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return errors.New("expected options as \"name: value\"")
	}
	root := document.Content[0]
	folder, err := pathsFolder(root, found.Config)
	if err != nil {
		return err
	}
	lists := map[string][]string{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i].Value, root.Content[i+1]
		if key != "models" && key != "vocabs" && key != "shortlist" {
			continue
		}
		if lists[key], err = scalars(value); err != nil {
			return fmt.Errorf("line %d: %s: %w", value.Line, key, err)
		}
	}
	switch models := lists["models"]; len(models) {
	case 0:
		return errors.New("names no model: name the model file itself")
	case 1:
		found.Model = resolvePath(folder, models[0])
	default:
		return fmt.Errorf("names %d models: name one of them", len(models))
	}
	if vocabularies := lists["vocabs"]; len(vocabularies) > 0 {
		found.Source = resolvePath(folder, vocabularies[0])
		found.Target = resolvePath(folder, vocabularies[len(vocabularies)-1])
	}
	if shortlist := lists["shortlist"]; len(shortlist) > 0 {
		found.Shortlist = resolvePath(folder, shortlist[0])
	}
	return nil
}

// openModel opens a model file and finds the parameters of its architecture. The file is returned, open, even where the
// architecture is not one that can be used, as long as it is a model file at all.
func openModel(path string) (*marian.File, *model.Model, error) {
	file, err := marian.Open(path)
	if err != nil {
		return nil, nil, modelError{err}
	}
	loaded, err := model.Load(file, nil)
	if err != nil {
		return file, nil, modelError{err}
	}
	return file, loaded, nil
}

// openVocabulary opens a vocabulary, which is part of a model.
func openVocabulary(path string) (vocab.Vocabulary, error) {
	vocabulary, err := vocab.Open(path)
	if err != nil {
		return nil, modelError{fmt.Errorf("vocabulary: %w", err)}
	}
	return vocabulary, nil
}

// openVocabularies opens the vocabularies of both sides; a shared one is opened once.
func openVocabularies(source, target string) (vocab.Vocabulary, vocab.Vocabulary, error) {
	first, err := openVocabulary(source)
	if err != nil {
		return nil, nil, err
	}
	if source == target {
		return first, first, nil
	}
	second, err := openVocabulary(target)
	return first, second, err
}
