package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"

	"github.com/sluice-mt/sluice/train"
)

//go:embed page.html
var pageText string

// A page is what page.html shows.
type page struct {
	Title       string
	Trainings   []trainingRow
	Metrics     []string
	Models      []modelRow
	Sets        []string
	Figures     []template.HTML
	Comparative bool // there are several models to compare
}

type trainingRow struct {
	Name                           string
	Updates, Epoch, Words, Skipped string
	Best                           []string // of the metrics
}

type modelRow struct {
	Name, Parameters, Bytes, Stored, Precision, Speed, CPUSpeed, BLEU, CHRF string
	Sets                                                                    []string // BLEU and chrF
}

// WriteHTML writes a page about trainings and evaluated models, which needs no other file.
func WriteHTML(w io.Writer, title string, trainings []Training, evaluations []Evaluation) error {
	parsed, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	p := page{Title: title, Sets: setNames(evaluations), Comparative: len(evaluations) > 1}
	for _, metric := range metrics(trainings) {
		p.Metrics = append(p.Metrics, nameOf(metric))
	}
	for i := range trainings {
		p.Trainings = append(p.Trainings, trainings[i].row(metrics(trainings)))
	}
	for i := range evaluations {
		p.Models = append(p.Models, evaluations[i].row(p.Sets))
	}
	for _, f := range Figures(trainings, evaluations) {
		p.Figures = append(p.Figures, template.HTML(f.Chart.SVG())) // which escapes what is not its own
	}
	return parsed.Execute(w, p)
}

// nameOf is the name of a metric in a table.
func nameOf(metric string) string {
	if metric == perWord {
		return "cross-entropy for each piece"
	}
	return title(metric)
}

func (t *Training) row(metrics []string) trainingRow {
	row := trainingRow{Name: t.Name}
	if len(t.Trained) > 0 {
		last := t.Trained[len(t.Trained)-1]
		row.Updates, row.Epoch = grouped(int64(last.Update)), strconv.Itoa(last.Epoch)
		row.Words, row.Skipped = grouped(last.Words), strconv.Itoa(last.Skipped)
	}
	for _, metric := range metrics {
		cell := ""
		if all := t.metric(metric); len(all) > 0 {
			last := all[len(all)-1]
			cell = fmt.Sprintf("%.4g (update %s)", last.Best, grouped(int64(updateOf(all, last.Best))))
		}
		row.Best = append(row.Best, cell)
	}
	return row
}

// updateOf returns the update after which a value was measured.
func updateOf(all []train.Measurement, value float64) int {
	for _, m := range all {
		if m.Value == value {
			return m.Update
		}
	}
	return all[len(all)-1].Update
}

// setNames returns the names of all test sets, in the order in which they come.
func setNames(evaluations []Evaluation) []string {
	var names []string
	seen := map[string]bool{}
	for i := range evaluations {
		for _, s := range evaluations[i].Sets {
			if !seen[s.Name] {
				seen[s.Name] = true
				names = append(names, s.Name)
			}
		}
	}
	return names
}

func (e *Evaluation) row(sets []string) modelRow {
	row := modelRow{
		Name: e.Name, Parameters: grouped(e.Parameters), Bytes: grouped(e.Bytes), Stored: e.Stored, Precision: e.Precision,
		Speed: grouped(int64(e.WordsPerSecond())), CPUSpeed: "—",
		BLEU: fmt.Sprintf("%.2f", e.BLEU()), CHRF: fmt.Sprintf("%.2f", e.CHRF()),
	}
	if speed := e.WordsPerCPUSecond(); speed > 0 {
		row.CPUSpeed = grouped(int64(speed))
	}
	for _, name := range sets {
		cell := ""
		for _, s := range e.Sets {
			if s.Name == name {
				cell = fmt.Sprintf("%.2f / %.2f", s.BLEU, s.CHRF)
			}
		}
		row.Sets = append(row.Sets, cell)
	}
	return row
}

// grouped writes a number with its digits in groups of three.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	first := 0
	if n < 0 {
		first = 1
	}
	for i := len(digits) - 3; i > first; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
