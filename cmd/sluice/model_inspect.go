package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/translator/bundle"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

func newInspectModelCommand() *cobra.Command {
	var asJSON, tensors bool
	output := newGroup("Output options")
	output.flags.BoolVar(&asJSON, "json", false, "print JSON")
	output.flags.BoolVar(&tensors, "tensors", false, "list all tensors with shape, type and size")
	command := &cobra.Command{
		Use:   "inspect MODEL [--tensors] [--json]",
		Short: "Say what a model is",
		Args:  exactArguments(1, "one model"),
		RunE: func(command *cobra.Command, arguments []string) error {
			report, err := inspectModel(arguments[0], tensors)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(command.OutOrStdout(), report)
			}
			return writeOutput(command.OutOrStdout(), report.text())
		},
	}
	addGroups(command, output)
	return command
}

// A modelReport is what "sluice model inspect" tells.
type modelReport struct {
	Path        string `json:"path"`
	Bytes       int64  `json:"bytes"`
	Format      string `json:"format"`
	Compression string `json:"compression,omitempty"`
	Fingerprint string `json:"fingerprint"`

	Architecture   orderedFacts `json:"architecture,omitempty"`
	Parameters     int64        `json:"parameters"`
	Precision      string       `json:"precision,omitempty"`
	Stored         []storedType `json:"stored,omitempty"`
	Alphas         int          `json:"alphas"`
	MissingAlphas  []string     `json:"missingAlphas,omitempty"`
	UnknownTensors []string     `json:"unknownTensors,omitempty"`
	Problem        string       `json:"problem,omitempty"` // why the model cannot be used

	Vocabularies []vocabularyReport `json:"vocabularies,omitempty"`
	Shortlist    string             `json:"shortlist,omitempty"`
	TensorCount  int                `json:"tensorCount"`
	Tensors      []marian.Row       `json:"tensors,omitempty"`
}

type storedType struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements int64  `json:"elements"`
}

type vocabularyReport struct {
	Side    string `json:"side"` // source, target or shared
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Pieces  int    `json:"pieces"`
	Problem string `json:"problem,omitempty"`
}

// orderedFacts is written as a JSON object that keeps the order.
type orderedFacts []model.Fact

func (facts orderedFacts) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, fact := range facts {
		key, err := json.Marshal(fact.Key)
		if err != nil {
			return nil, err
		}
		text := fact.Value
		if plain, err := strconv.Unquote(text); err == nil { // quoted for people, who should see an empty string
			text = plain
		}
		value, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", key, value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// inspectModel describes a model. One that is a model file, but not one that can be used, is described with the reason.
func inspectModel(path string, tensors bool) (report modelReport, err error) {
	found, err := resolveModel(path)
	if err != nil {
		return report, err
	}
	file, loaded, problem := openModel(found.Model)
	if file == nil {
		return report, problem
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	report = modelReport{
		Path:        found.Model,
		Format:      file.Format.String(),
		Compression: file.Compression,
		Bytes:       fileSize(found.Model),
		Fingerprint: file.Fingerprint(),
		Parameters:  int64(file.Parameters()),
		Shortlist:   found.Shortlist,
		TensorCount: len(file.Tensors),
	}
	if tensors {
		report.Tensors = file.Rows()
	}
	if problem != nil {
		report.Problem = strings.TrimPrefix(problem.Error(), found.Model+": ")
	} else {
		report.describe(loaded.Report())
	}
	report.Vocabularies = inspectVocabularies(found)
	return report, nil
}

func (r *modelReport) describe(of model.Report) {
	r.Architecture = of.Facts
	r.Parameters = of.Parameters
	r.Precision = of.Precision
	r.Alphas = of.Alphas
	r.MissingAlphas, r.UnknownTensors = of.Missing, of.Unknown
	for _, s := range of.Stored {
		r.Stored = append(r.Stored, storedType{s.Type.String(), s.Tensors, s.Elements})
	}
}

// inspectVocabularies describes the vocabularies found, a shared one once.
func inspectVocabularies(found bundle.Bundle) []vocabularyReport {
	var reports []vocabularyReport
	add := func(side, path string) {
		if path == "" {
			return
		}
		report := vocabularyReport{Side: side, Path: path, Bytes: fileSize(path)}
		if vocabulary, err := openVocabulary(path); err != nil {
			report.Problem = err.Error()
		} else {
			report.Pieces = vocabulary.Size()
		}
		reports = append(reports, report)
	}
	if found.Source == found.Target {
		add("shared", found.Source)
		return reports
	}
	add("source", found.Source)
	add("target", found.Target)
	return reports
}

// fileSize is the size of a file, 0 where it cannot be told.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// text is the report for people.
func (r modelReport) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s\n", r.Path)
	format := r.Format
	if r.Compression != "" {
		format += ", " + r.Compression
	}
	fmt.Fprintf(w, "format\t%s, %s bytes\n", format, grouped(r.Bytes))
	fmt.Fprintf(w, "fingerprint\t%s\n", r.Fingerprint)
	fmt.Fprintf(w, "parameters\t%s in %d tensors\n", grouped(r.Parameters), r.TensorCount)
	if r.Problem != "" {
		fmt.Fprintf(w, "cannot be used\t%s\n", r.Problem)
	}
	if r.Precision != "" {
		fmt.Fprintf(w, "precision\t%s\n", r.Precision)
	}
	for _, s := range r.Stored {
		fmt.Fprintf(w, "stored as %s\t%s numbers in %d tensors\n", s.Type, grouped(s.Elements), s.Tensors)
	}
	fmt.Fprintf(w, "alphas\t%d\n", r.Alphas)
	if len(r.MissingAlphas) > 0 {
		fmt.Fprintf(w, "without alpha\t%s\n", strings.Join(r.MissingAlphas, " "))
	}
	if len(r.UnknownTensors) > 0 {
		fmt.Fprintf(w, "not used\t%s\n", strings.Join(r.UnknownTensors, " "))
	}
	for _, v := range r.Vocabularies {
		pieces := grouped(int64(v.Pieces)) + " pieces, " + grouped(v.Bytes) + " bytes"
		fmt.Fprintf(w, "%s vocabulary\t%s: %s\n", v.Side, v.Path, cmp.Or(v.Problem, pieces))
	}
	if r.Shortlist != "" {
		fmt.Fprintf(w, "shortlist\t%s\n", r.Shortlist)
	}
	for _, fact := range r.Architecture {
		fmt.Fprintf(w, "%s\t%s\n", fact.Key, fact.Value)
	}
	_ = w.Flush() // into memory
	b.WriteString(tensorTable(r.Tensors))
	return b.String()
}

func tensorTable(rows []marian.Row) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\ntensor\tshape\ttype\tbytes\n")
	for _, row := range rows {
		shape := make([]string, len(row.Shape))
		for i, n := range row.Shape {
			shape[i] = strconv.Itoa(n)
		}
		kind := row.Type
		if row.Eight > 0 {
			kind += fmt.Sprintf(", %s rows in 8 bits", grouped(int64(row.Eight)))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", row.Name, strings.Join(shape, "×"), kind, row.Bytes)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// grouped writes a number with its digits in groups of three.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
