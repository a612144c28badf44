package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/sluice-mt/sluice/internal/score"
)

// A pairedScore is one line of a paired test.
type pairedScore struct {
	System string   `json:"system"`
	Score  float64  `json:"score"`
	Mean   float64  `json:"mean"`
	CI     float64  `json:"ci"`
	PValue *float64 `json:"p_value"` // null for the baseline
}

// significant is the p-value below which a difference is marked.
const significant = 0.05

// compare tests other translations against the baseline.
func (f *scoreFlags) compare(s scorer, baseline []string, references [][]string) (string, error) {
	var rows []pairedScore
	for _, path := range f.paired {
		system, err := readSegments(path)
		if err != nil {
			return "", err
		}
		if err := sameLength(f.input, baseline, path, system); err != nil {
			return "", err
		}
		c, err := score.PairedBootstrap(s.metric, baseline, system, references, f.pairedSamples, f.seed)
		if err != nil {
			return "", inputError{err}
		}
		if rows == nil {
			rows = append(rows, pairedScore{"Baseline: " + displayName(f.input), c.Baseline,
				c.BaselineInterval.Mean, c.BaselineInterval.HalfWidth, nil})
		}
		rows = append(rows, pairedScore{displayName(path), c.System, c.SystemInterval.Mean, c.SystemInterval.HalfWidth, &c.PValue})
	}
	if f.format == "json" {
		var b strings.Builder
		err := writeJSON(&b, rows)
		return b.String(), err
	}
	return f.pairedTable(s.name, rows), nil
}

func (f *scoreFlags) pairedTable(metric string, rows []pairedScore) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "system\t%s (μ ± 95 %% CI)\tp\n", metric)
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%s (%s ± %s)\t", row.System, f.number(row.Score), f.number(row.Mean), f.number(row.CI))
		if row.PValue != nil {
			fmt.Fprintf(w, "%.4f", *row.PValue)
			if *row.PValue < significant {
				fmt.Fprint(w, "*")
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // into memory
	fmt.Fprintf(&b, "* the difference from the baseline is significant (p < %g, paired bootstrap of %d samples, seed %d)\n",
		significant, f.pairedSamples, f.seed)
	return b.String()
}
