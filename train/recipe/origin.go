package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// ErrInput is wrapped by errors about files that a recipe reads and that no step of it writes.
var ErrInput = errors.New("input")

// ErrBusy is wrapped by the error of a run in a folder in which another process is at work.
var ErrBusy = errors.New("the recipe is being run already")

// ErrExists is wrapped by the error about a file that has the name of an output and was not made by the recipe.
var ErrExists = errors.New("the output exists already, and the recipe has not made it")

// generation is raised when steps give something else from the same settings and inputs.
const generation = 1

// An origin is what the outputs of a step are made of.
type origin struct {
	Generation int             `json:"generation"`
	Kind       string          `json:"kind"`
	Settings   json.RawMessage `json:"settings"`
	Inputs     []content       `json:"inputs"`
}

// A content is a file that was read.
type content struct {
	Name string `json:"name"`
	Hash string `json:"sha256"`
}

func (o origin) equal(other origin) bool { return len(o.differences(other)) == 0 }

// differences says in which respects two origins differ.
func (o origin) differences(other origin) []string {
	var list []string
	if o.Generation != other.Generation || o.Kind != other.Kind {
		list = append(list, "what the step does")
	}
	if !sameJSON(o.Settings, other.Settings) {
		list = append(list, "settings")
	}
	before := map[string]string{}
	for _, c := range o.Inputs {
		before[c.Name] = c.Hash
	}
	for _, c := range other.Inputs {
		if before[c.Name] != c.Hash {
			list = append(list, c.Name)
		}
		delete(before, c.Name)
	}
	list = append(list, sortedKeys(before)...)
	if len(list) == 0 && !slices.Equal(o.Inputs, other.Inputs) {
		list = append(list, "order of inputs")
	}
	return list
}

// sameJSON compares texts that were indented when they were stored.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
