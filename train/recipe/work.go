package recipe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
)

// ErrInterrupted is wrapped by the error of a run whose context has ended. The same call continues.
var ErrInterrupted = errors.New("interrupted; the same command continues")

// A work is a step that is being done.
type work struct {
	ctx          context.Context
	logger       *slog.Logger
	engine       Engine
	node         *node
	folder       string   // of the recipe
	scratch      string   // folder of the step's own, which outlives interruptions
	vocabularies []string // paths of source and target

	done atomic.Uint64 // bits of the share that is done
}

// progress says which share of the step is done.
func (w *work) progress(share float64) { w.done.Store(math.Float64bits(min(max(share, 0), 1))) }

// part returns a function that says which share of a part of the step is done, where the part goes from one share of the whole
// to another.
func (w *work) part(from, to float64) func(share float64) {
	w.progress(from)
	return func(share float64) { w.progress(from + share*(to-from)) }
}

// input is the path of a file that the step reads.
func (w *work) input(name string) string {
	for _, in := range w.node.inputs {
		if in.name == name {
			return in.path
		}
	}
	panic(fmt.Sprintf("recipe: %s does not say that it reads %s", w.node.step.Name, name))
}

// matching are the names of inputs that a list of names and patterns stands for.
func (w *work) matching(patterns []string) []string {
	var names []string
	for _, in := range w.node.inputs {
		for _, pattern := range patterns {
			if (pattern == in.name || len(match(pattern, []string{in.name})) > 0) && !slices.Contains(names, in.name) {
				names = append(names, in.name)
			}
		}
	}
	return names
}

// paths are the paths of inputs, patterns among them.
func (w *work) paths(patterns []string) []string {
	var paths []string
	for _, name := range w.matching(patterns) {
		paths = append(paths, w.input(name))
	}
	return paths
}

// output is where the step writes an output. It is brought to its place when all are complete.
func (w *work) output(name string) (string, error) {
	path := filepath.Join(w.scratch, "out", filepath.FromSlash(name))
	return path, os.MkdirAll(filepath.Dir(path), 0o777)
}

// once makes a file of the step's own, unless it was made before an interruption. make writes it, or at least makes it appear
// under its name, when it is complete.
func (w *work) once(name string, make func(path string) error) (string, error) {
	path := filepath.Join(w.scratch, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := w.ctx.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	return path, make(path)
}

// direction returns the vocabularies of a model's source and target.
func (w *work) direction(inverse bool) []string {
	source, target := w.vocabularies[0], w.vocabularies[len(w.vocabularies)-1]
	if inverse {
		source, target = target, source
	}
	return []string{source, target}
}
