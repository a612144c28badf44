package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-mt/sluice/internal/binread"
)

// maxMeasurementBytes bounds the file that is read: what is found about one thing takes less than 200 bytes.
const maxMeasurementBytes = 1 << 20

// measurements are a file that remembers what was measured on a kind of device: about each thing, by its name, what was found.
type measurements[Kind comparable, Found any] struct {
	path    string
	version int // changes with how is measured, with what is compared, and with the form of the file: old measurements say nothing then
	kind    Kind
}

// measured is the content of the file.
type measured[Kind comparable, Found any] struct {
	Version int              `json:"version"`
	Kind    Kind             `json:"of"`
	Found   map[string]Found `json:"found"`
}

// read returns what is known, nothing if the file cannot be understood, or is of another kind of device: it is written anew then.
func (m *measurements[Kind, Found]) read() map[string]Found {
	var known measured[Kind, Found]
	content, err := binread.ReadFile(m.path, maxMeasurementBytes)
	if err == nil {
		err = json.Unmarshal(content, &known)
	}
	if err != nil || known.Version != m.version || known.Kind != m.kind || known.Found == nil {
		return map[string]Found{}
	}
	return known.Found
}

// write replaces what is known by what measure returns. That is called with the new file open: where there can be none, nothing is measured.
// Of two that measure at a time, the last one stays.
func (m *measurements[Kind, Found]) write(measure func() map[string]Found) error {
	if err := os.MkdirAll(filepath.Dir(m.path), 0o755); err != nil {
		return err
	}
	return writeFile(m.path, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(measured[Kind, Found]{m.version, m.kind, measure()})
	})
}
