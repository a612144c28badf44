package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/train/report"
)

// reporting is one run of "sluice report".
type reporting struct {
	evaluations []string
	title       string
	output      string
	plots       string
	overwrite   bool
}

func newReportCommand() *cobra.Command {
	r := new(reporting)
	command := &cobra.Command{
		Use:   "report [MODEL|METRICS]... [--evaluation FILE] -o PAGE",
		Short: "Show trainings and evaluated models",
		Long: `Make a page of HTML, which needs no other file and no network, about trainings and what their models are worth.

Trainings are named by the model that "sluice train" wrote, or by its metrics file: losses, validation, learning
rate, gradient norm and speed of all of them are drawn together. A training that is still running can be shown.
--evaluation names files of what "sluice eval --json" printed, one model after another: they become a table, and
a chart of quality against speed. --plots leaves every chart as PNG and SVG, too.`,
		Example: `  sluice report student.npz -o report.html
  sluice report teacher.npz student.npz --evaluation models.json --plots plots -o report.html`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) == 0 && len(r.evaluations) == 0 {
				return usageErrorf("report needs a training, or --evaluation FILE (see sluice report --help)")
			}
			if r.output == "" && r.plots == "" {
				return usageErrorf("report needs -o PAGE, or --plots FOLDER")
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error { return r.run(command.OutOrStdout(), arguments) },
	}
	group := newGroup("Options")
	group.flags.StringArrayVarP(&r.evaluations, "evaluation", "e", nil, "`FILE` of what sluice eval --json printed; may be repeated")
	group.flags.StringVarP(&r.output, "output", "o", "", "`PAGE` to write; - is standard output")
	group.flags.StringVar(&r.plots, "plots", "", "`FOLDER` for the charts as PNG and SVG")
	group.flags.StringVar(&r.title, "title", "Report", "title of the page")
	group.flags.BoolVar(&r.overwrite, "overwrite", false, "replace PAGE if it exists")
	addGroups(command, group)
	return command
}

func (r *reporting) run(stdout io.Writer, paths []string) error {
	inputs := slices.Clone(r.evaluations)
	for _, path := range paths {
		inputs = append(inputs, report.MetricsFile(path), path)
	}
	if err := checkOutputs(r.overwrite, []string{r.output}, inputs); err != nil {
		return err
	}
	var trainings []report.Training
	for _, path := range paths {
		t, err := report.ReadTraining(path)
		if err != nil {
			return inputError{err}
		}
		trainings = append(trainings, t)
	}
	var evaluations []report.Evaluation
	for _, path := range r.evaluations {
		more, err := report.ReadEvaluations(path)
		if err != nil {
			return inputError{err}
		}
		evaluations = append(evaluations, more...)
	}
	return errors.Join(r.writePage(stdout, trainings, evaluations), r.writePlots(report.Figures(trainings, evaluations)))
}

func (r *reporting) writePage(stdout io.Writer, trainings []report.Training, evaluations []report.Evaluation) error {
	if r.output == "" {
		return nil
	}
	return writeTo(stdout, r.output, func(w io.Writer) error { return report.WriteHTML(w, r.title, trainings, evaluations) })
}

func (r *reporting) writePlots(figures []report.Figure) error {
	if r.plots == "" {
		return nil
	}
	if err := os.MkdirAll(r.plots, 0o777); err != nil {
		return outputError{err}
	}
	for _, f := range figures {
		var picture bytes.Buffer
		if err := f.Chart.WritePNG(&picture); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		for suffix, content := range map[string][]byte{".png": picture.Bytes(), ".svg": []byte(f.Chart.SVG())} {
			err := writeFile(filepath.Join(r.plots, f.Name+suffix), func(w io.Writer) error {
				_, err := w.Write(content)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
