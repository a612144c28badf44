package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/translator/bundle"
	"github.com/sluice-mt/sluice/translator/model"
)

func newVerifyModelCommand() *cobra.Command {
	var asJSON bool
	output := newGroup("Output options")
	output.flags.BoolVar(&asJSON, "json", false, "print JSON")
	command := &cobra.Command{
		Use:   "verify MODEL [--json]",
		Short: "Check every number of a model, its architecture and its vocabularies",
		Long: `Read all of a model: checksums, numbers that are not finite, parameters that are missing or have the
wrong shape, vocabularies that do not fit. The exit code is 4 if the model cannot be used.`,
		Args: exactArguments(1, "one model"),
		RunE: func(command *cobra.Command, arguments []string) error {
			result, err := verifyModel(arguments[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(command.OutOrStdout(), result)
			} else {
				err = writeOutput(command.OutOrStdout(), result.text())
			}
			if err != nil {
				return err
			}
			return result.err()
		},
	}
	addGroups(command, output)
	return command
}

// A verification is what "sluice model verify" found.
type verification struct {
	Path     string    `json:"path"`
	OK       bool      `json:"ok"`
	Tensors  int       `json:"tensors"`
	Elements int64     `json:"elements"`
	Findings []finding `json:"findings"`
	Notes    []string  `json:"notes,omitempty"` // that do not keep the model from being used
}

// A finding is a reason why a model cannot be used.
type finding struct {
	Where   string `json:"where"` // a tensor or a file
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

const (
	remedyCopy       = "copy or download the model again"
	remedyVocabulary = "give the vocabularies that the model was trained with"
)

func (v *verification) find(where, remedy, format string, args ...any) {
	problem := strings.TrimPrefix(fmt.Sprintf(format, args...), where+": ") // errors name their file as well
	v.Findings = append(v.Findings, finding{where, problem, remedy})
}

// verifyModel reads all of a model. Its error is for what is no model file at all.
func verifyModel(path string) (result verification, err error) {
	found, err := resolveModel(path)
	if err != nil {
		return result, err
	}
	file, loaded, problem := openModel(found.Model)
	if file == nil {
		return result, problem
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	result = verification{Path: found.Model, Tensors: len(file.Tensors), Findings: []finding{}}
	checks, _ := file.Verify()
	for _, check := range checks {
		result.Elements += int64(check.Elements)
		if check.Problem != "" {
			result.find(check.Name, remedyCopy, "%s", check.Problem)
		}
	}
	if problem != nil {
		result.find(found.Model, remedyOf(problem), "%s", problem)
	} else {
		result.checkUse(loaded, found)
	}
	result.OK = len(result.Findings) == 0
	return result, nil
}

// remedyOf says what to do about a model that does not load; some errors say it themselves.
func remedyOf(err error) string {
	switch {
	case errors.Is(err, model.ErrUnsupported):
		return ""
	case errors.Is(err, model.ErrNoDescription):
		return "give the model file that the training wrote, which describes itself"
	}
	return remedyCopy
}

// checkUse looks at what a model needs beyond its parameters.
func (v *verification) checkUse(loaded *model.Model, found bundle.Bundle) {
	report := loaded.Report()
	for _, name := range report.Missing {
		v.Notes = append(v.Notes, name+" has no alpha although others have one; its inputs are quantised row by row")
	}
	for _, name := range report.Unknown {
		v.Notes = append(v.Notes, "the architecture has no use for the tensor "+name)
	}
	if found.Source == "" && found.Target == "" {
		v.Notes = append(v.Notes, "no vocabulary was found beside the model; its size was not compared")
	}
	if loaded.HasEncoder() {
		v.checkVocabulary("source", found.Source, loaded.SourceVocabulary)
	}
	v.checkVocabulary("target", found.Target, loaded.TargetVocabulary)
}

func (v *verification) checkVocabulary(side, path string, want int) {
	if path == "" {
		return
	}
	vocabulary, err := openVocabulary(path)
	if err != nil {
		v.find(path, remedyVocabulary, "%s", err)
		return
	}
	if got := vocabulary.Size(); got != want {
		v.find(path, remedyVocabulary, "has %d pieces, but the model's %s side has %d", got, side, want)
	}
}

// text is the result for people.
func (v verification) text() string {
	var b strings.Builder
	for _, f := range v.Findings {
		fmt.Fprintf(&b, "%s: %s", f.Where, f.Problem)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "; %s", f.Remedy)
		}
		b.WriteByte('\n')
	}
	for _, note := range v.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if v.OK {
		fmt.Fprintf(&b, "%s: good, %s numbers in %d tensors\n", v.Path, grouped(v.Elements), v.Tensors)
	}
	return b.String()
}

// err is nil for a model that can be used. What was found is printed already.
func (v verification) err() error {
	if v.OK {
		return nil
	}
	if n := len(v.Findings); n > 1 {
		return modelError{fmt.Errorf("%s cannot be used: %d findings", v.Path, n)}
	}
	return modelError{fmt.Errorf("%s cannot be used", v.Path)}
}
