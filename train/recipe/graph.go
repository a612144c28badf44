package recipe

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A node is a step in its place among the others.
type node struct {
	step   *Step
	kind   kind
	word   string  // the kind's name
	inputs []input // in the order in which the step names them
}

// An input is a file that a step reads.
type input struct {
	name   string // as other steps or the recipe have it
	path   string
	writer *node // nil if no step writes it
}

// isPattern says whether an input stands for the models whose names match.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// order returns the steps such that each comes after those whose outputs it reads; otherwise as they are written.
func (r *Recipe) order() ([]*node, error) {
	var nodes []*node
	writers := map[string]*node{}
	for i := range r.Steps {
		k, word, count := r.Steps[i].kindSetting()
		if count != 1 {
			return nil, errors.New("a step does not say what it does")
		}
		n := &node{step: &r.Steps[i], kind: k, word: word}
		nodes = append(nodes, n)
		for _, name := range k.outputs() {
			writers[name] = n
		}
	}
	for _, n := range nodes {
		if err := n.resolve(r, writers); err != nil {
			return nil, err
		}
	}
	return sorted(nodes)
}

// resolve finds out who writes the inputs.
func (n *node) resolve(r *Recipe, writers map[string]*node) error {
	names := n.kind.inputs()
	if usesVocabularies(n.kind) {
		names = append(names, r.Vocabularies...)
	}
	for _, name := range names {
		matches := []string{name}
		if isPattern(name) {
			if matches = match(name, slices.Sorted(maps.Keys(writers))); len(matches) == 0 {
				return fmt.Errorf("%s: no step writes anything that %q matches", n.step.Name, name)
			}
		}
		for _, found := range matches {
			n.add(r, found, writers[found])
		}
	}
	return nil
}

func (n *node) add(r *Recipe, name string, writer *node) {
	if name == "" || slices.ContainsFunc(n.inputs, func(i input) bool { return i.name == name }) {
		return
	}
	in := input{name: name, path: name, writer: writer}
	switch {
	case writer != nil:
		in.path = filepath.Join(r.folder(), filepath.FromSlash(name))
	case !filepath.IsAbs(name):
		in.path = filepath.Join(filepath.Dir(r.path), filepath.FromSlash(name))
	}
	n.inputs = append(n.inputs, in)
}

// match returns the names that a pattern matches. A pattern that cannot be read matches none.
func match(pattern string, names []string) []string {
	var matches []string
	for _, name := range names {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			matches = append(matches, name)
		}
	}
	return matches
}

// sorted puts writers before readers.
func sorted(nodes []*node) ([]*node, error) {
	var order []*node
	state := map[*node]int{} // 1 while those before it are being placed, 2 afterwards
	var place func(n *node) error
	place = func(n *node) error {
		switch state[n] {
		case 1:
			return fmt.Errorf("%s reads what is made of its own output", n.step.Name)
		case 2:
			return nil
		}
		state[n] = 1
		for _, in := range n.inputs {
			if in.writer != nil {
				if err := place(in.writer); err != nil {
					return err
				}
			}
		}
		state[n] = 2
		order = append(order, n)
		return nil
	}
	for _, n := range nodes {
		if err := place(n); err != nil {
			return nil, err
		}
	}
	return order, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
