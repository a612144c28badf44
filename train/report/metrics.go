// Package report shows what trainings did and what models are worth: curves of metrics files, a table of evaluated models, and
// quality against speed, as a page of HTML that needs nothing else, and as pictures.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/train"
)

// ErrFormat is wrapped by the errors about files that are not what they should be.
var ErrFormat = errors.New("not a file that can be reported")

// A Training is the course of a run.
type Training struct {
	Name    string
	Trained []train.Measurement
	Valid   []train.Measurement
}

// metricsSuffix is what a run adds to the name of its model to name its metrics file.
const metricsSuffix = ".metrics.jsonl"

// maxLine bounds a line of a metrics file.
const maxLine = 1 << 16

// ReadTraining reads the metrics file of a run, named by itself or by the model.
func ReadTraining(path string) (Training, error) {
	path = MetricsFile(path)
	f, err := os.Open(path)
	if err != nil {
		return Training{}, err
	}
	defer f.Close()
	t, err := parseTraining(f)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	t.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), metricsSuffix), ".npz")
	return t, nil
}

// MetricsFile is the metrics file of a run that is named by it or by the model.
func MetricsFile(path string) string {
	if strings.HasSuffix(path, ".jsonl") {
		return path
	}
	return path + metricsSuffix
}

// parseTraining reads measurements, one a line. A last line that is not whole is left out: the run may be writing it.
func parseTraining(r io.Reader) (Training, error) {
	var t Training
	lines := bufio.NewReaderSize(r, maxLine)
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			return t, nil
		}
		if err == bufio.ErrBufferFull {
			return t, fmt.Errorf("%w: line %d is longer than %d bytes", ErrFormat, number, maxLine)
		}
		if err != nil {
			return t, err
		}
		var m train.Measurement
		if err := json.Unmarshal(line, &m); err != nil {
			return t, fmt.Errorf("%w: line %d: %w", ErrFormat, number, err)
		}
		switch m.Kind {
		case "train":
			t.Trained = append(t.Trained, m)
		case "valid":
			if strings.Trim(m.Metric, "abcdefghijklmnopqrstuvwxyz-") != "" || m.Metric == "" {
				return t, fmt.Errorf("%w: line %d is about the metric %q", ErrFormat, number, m.Metric) // files are named after it
			}
			t.Valid = append(t.Valid, m)
		default:
			return t, fmt.Errorf("%w: line %d is of the kind %q, expected train or valid", ErrFormat, number, m.Kind)
		}
	}
}

// metrics returns the names of all validation metrics, in the order in which they come.
func metrics(trainings []Training) []string {
	var names []string
	for i := range trainings {
		for _, m := range trainings[i].Valid {
			if !slices.Contains(names, m.Metric) {
				names = append(names, m.Metric)
			}
		}
	}
	return names
}
