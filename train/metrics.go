package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrOutput is wrapped by the errors about files that cannot be written. What was saved before is whole, and the same command goes on
// from there.
var ErrOutput = errors.New("the training cannot write")

// ErrBusy is wrapped by the error of a run whose model another process is training.
var ErrBusy = errors.New("another process is training this model")

// A Measurement is a line of the metrics file.
type Measurement struct {
	Kind   string `json:"kind"` // train or valid
	Update int    `json:"update"`
	Epoch  int    `json:"epoch"` // from 1

	// Of training, since the last one.
	Loss           float64 `json:"loss,omitempty"` // per word, smoothed as in training, with alignment
	Rate           float64 `json:"learn_rate,omitempty"`
	Norm           float64 `json:"gradient_norm,omitempty"` // of the last update
	WordsPerSecond float64 `json:"words_per_second,omitempty"`
	Words          int64   `json:"words,omitempty"` // target pieces since the beginning
	Skipped        int     `json:"skipped,omitempty"`

	// Of validation.
	Metric  string  `json:"metric,omitempty"`
	Value   float64 `json:"value,omitempty"`
	Best    float64 `json:"best,omitempty"`
	Stalled int     `json:"stalled,omitempty"` // validations in a row without improvement
}

// A metricsFile is a log of measurements, one JSON object a line.
type metricsFile struct{ file *os.File }

// openMetrics opens the file, or makes it, and keeps other runs from writing to it.
func openMetrics(path string) (*metricsFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("%w: opening the metrics: %w", ErrOutput, err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return &metricsFile{f}, nil
}

// cut readies the file for what follows an update, and validations after the update validated, the last one that counts. What an
// interrupted run wrote about later ones is cut off: the run will write it again.
func (m *metricsFile) cut(update, validated int) error {
	data, err := io.ReadAll(m.file)
	if err == nil {
		keep := int64(valid(data, update, validated))
		_, seek := m.file.Seek(keep, 0)
		err = errors.Join(m.file.Truncate(keep), seek)
	}
	if err != nil {
		return fmt.Errorf("%w: opening the metrics: %w", ErrOutput, err)
	}
	return nil
}

const kindValid = "valid" // of a Measurement

// valid returns how many bytes of a metrics file are whole lines about updates, and validations, up to those given.
func valid(data []byte, update, validated int) int {
	size := 0
	for line := range bytes.Lines(data) {
		var m Measurement
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &m) != nil || m.Update > update || m.Kind == kindValid && m.Update > validated {
			break
		}
		size += len(line)
	}
	return size
}

func (m *metricsFile) add(measurement Measurement) error {
	line, err := json.Marshal(measurement)
	if err == nil {
		_, err = m.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%w: writing the metrics: %w", ErrOutput, err)
	}
	return nil
}
