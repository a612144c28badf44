package report

import (
	"cmp"
	"slices"

	"github.com/sluice-mt/sluice/train"
	"github.com/sluice-mt/sluice/train/chart"
)

// A Figure is a chart with a name that a file can have.
type Figure struct {
	Name  string
	Chart chart.Chart
}

// Figures draws the curves of trainings, and quality against speed of evaluated models.
func Figures(trainings []Training, evaluations []Evaluation) []Figure {
	var figures []Figure
	add := func(name string, c chart.Chart) {
		c.Lines = slices.DeleteFunc(c.Lines, func(s chart.Series) bool { return len(s.Points) == 0 })
		if slices.ContainsFunc(slices.Concat(c.Lines, c.Dots), func(s chart.Series) bool { return len(s.Points) > 0 }) {
			figures = append(figures, Figure{name, c})
		}
	}
	add("loss", lossChart(trainings))
	for _, metric := range metrics(trainings) {
		if metric != perWord {
			add(metric, metricChart(trainings, metric))
		}
	}
	add("learning-rate", curves(trainings, "Learning rate", "learning rate", func(m train.Measurement) float64 { return m.Rate }))
	norm := curves(trainings, "Gradient norm", "norm before clipping, of the update", func(m train.Measurement) float64 { return m.Norm })
	norm.LogY = true
	add("gradient-norm", norm)
	add("speed", curves(trainings, "Speed of training", "target pieces a second", func(m train.Measurement) float64 { return m.WordsPerSecond }))
	add("quality-speed", qualityChart(evaluations))
	return figures
}

// perWord is the validation metric that can be compared with the loss of training.
const perWord = "ce-mean-words"

const updates = "update"

// named returns the name of a series: that of the run, if there are several, and what it shows.
func named(trainings []Training, t *Training, what string) string {
	switch {
	case len(trainings) == 1:
		return what
	case what == "":
		return t.Name
	}
	return t.Name + ", " + what
}

func lossChart(trainings []Training) chart.Chart {
	c := chart.Chart{Title: "Loss", X: updates, Y: "cross-entropy for each target piece, in nats"}
	for i := range trainings {
		t := &trainings[i]
		c.Lines = append(c.Lines, chart.Series{
			Name: named(trainings, t, "training"), Points: points(t.Trained, func(m train.Measurement) float64 { return m.Loss }),
		})
		if valid := t.metric(perWord); len(valid) > 0 {
			c.Lines = append(c.Lines, chart.Series{Name: named(trainings, t, "validation"), Points: points(valid, value)})
		}
	}
	return c
}

func value(m train.Measurement) float64 { return m.Value }

// metric returns the measurements of a validation metric.
func (t *Training) metric(name string) []train.Measurement {
	var out []train.Measurement
	for _, m := range t.Valid {
		if m.Metric == name {
			out = append(out, m)
		}
	}
	return out
}

// titles of validation metrics, where their names would not do.
func title(metric string) string {
	switch metric {
	case "bleu":
		return "BLEU"
	case "chrf":
		return "chrF"
	case "cross-entropy":
		return "cross-entropy for each sentence"
	}
	return metric
}

func metricChart(trainings []Training, metric string) chart.Chart {
	c := chart.Chart{Title: title(metric), X: updates, Y: title(metric) + " of the validation set"}
	for i := range trainings {
		t := &trainings[i]
		c.Lines = append(c.Lines, chart.Series{Name: named(trainings, t, ""), Points: points(t.metric(metric), value)})
	}
	return c
}

func curves(trainings []Training, title, axis string, value func(train.Measurement) float64) chart.Chart {
	c := chart.Chart{Title: title, X: updates, Y: axis}
	for i := range trainings {
		t := &trainings[i]
		c.Lines = append(c.Lines, chart.Series{Name: named(trainings, t, ""), Points: points(t.Trained, value)})
	}
	return c
}

func points(of []train.Measurement, value func(train.Measurement) float64) []chart.Point {
	var out []chart.Point
	for _, m := range of {
		out = append(out, chart.Point{X: float64(m.Update), Y: value(m)})
	}
	return out
}

// A point is a model in the chart of quality against speed.
type point struct {
	name           string
	speed, quality float64
}

func sortBySpeed(points []point) {
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.speed, b.speed) })
}

// qualityChart shows BLEU against speed, with a line through the models that no other one beats in both. Speed is that of
// processor time, which depends less on what else a machine does, if all evaluations have it.
func qualityChart(evaluations []Evaluation) chart.Chart {
	c := chart.Chart{Title: "Quality and speed", X: "source words in a second of processor time", Y: "BLEU, mean of the test sets"}
	speed := (*Evaluation).WordsPerCPUSecond
	if slices.ContainsFunc(evaluations, func(e Evaluation) bool { return e.WordsPerCPUSecond() == 0 }) {
		c.X, speed = "source words a second", (*Evaluation).WordsPerSecond
	}
	var all []point
	dots := chart.Series{}
	for i := range evaluations {
		e := &evaluations[i]
		all = append(all, point{e.Name, speed(e), e.BLEU()})
		dots.Points = append(dots.Points, chart.Point{X: speed(e), Y: e.BLEU()})
		dots.Labels = append(dots.Labels, e.Name)
	}
	line := chart.Series{Thin: true}
	for _, p := range best(all) {
		line.Points = append(line.Points, chart.Point{X: p.speed, Y: p.quality})
	}
	c.Lines, c.Dots = []chart.Series{line}, []chart.Series{dots}
	return c
}
