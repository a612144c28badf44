package recipe

import (
	"errors"
	"fmt"
	"io"

	"github.com/sluice-mt/sluice/train/report"
)

// Report makes a page about what was trained and what it is worth.
type Report struct {
	Title       string   `yaml:"title" desc:"Title of the page."`
	Trainings   []string `yaml:"trainings" desc:"Courses of trainings, which lie beside their models: NAME.metrics.jsonl. A pattern stands for all of the recipe that match."`
	Evaluations []string `yaml:"evaluations" desc:"What steps that evaluate have written."`
	To          string   `yaml:"to" desc:"The page to write."`
}

func (r *Report) inputs() []string {
	return append(append([]string{}, r.Trainings...), r.Evaluations...)
}

func (r *Report) outputs() []string { return []string{r.To} }

func (r *Report) check(c *checking) {
	c.need(map[string]bool{"trainings": len(r.Trainings)+len(r.Evaluations) > 0, "to": r.To != ""})
}

func (r *Report) run(w *work) error {
	trainings, evaluations, err := r.gather(w)
	if errors.Is(err, report.ErrFormat) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err != nil {
		return err
	}
	output, err := w.output(r.To)
	if err != nil {
		return err
	}
	title := r.Title
	if title == "" {
		title = "Report"
	}
	return replace(output, func(out io.Writer) error { return report.WriteHTML(out, title, trainings, evaluations) })
}

func (r *Report) gather(w *work) ([]report.Training, []report.Evaluation, error) {
	var trainings []report.Training
	for _, path := range w.paths(r.Trainings) {
		t, err := report.ReadTraining(path)
		if err != nil {
			return nil, nil, err
		}
		trainings = append(trainings, t)
	}
	var evaluations []report.Evaluation
	for _, path := range w.paths(r.Evaluations) {
		more, err := report.ReadEvaluations(path)
		if err != nil {
			return nil, nil, err
		}
		evaluations = append(evaluations, more...)
	}
	return trainings, evaluations, nil
}
