package recipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A runner does the steps of a recipe.
type runner struct {
	recipe *Recipe
	engine Engine
	logger *slog.Logger
	every  time.Duration // between messages about progress
	order  []*node
	hashes *hashes
}

// Run does all steps that are not done. One process at a time may work in a folder.
func Run(ctx context.Context, r *Recipe, engine Engine, logger *slog.Logger) (err error) {
	if err := os.MkdirAll(filepath.Join(r.folder(), stateFolder), 0o777); err != nil {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	release, err := lock(filepath.Join(r.folder(), stateFolder, "lock"))
	if err != nil {
		return err
	}
	defer release()
	run, err := newRunner(r, engine, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.hashes.save()) }()
	for i, n := range run.order {
		if err := run.step(ctx, i); err != nil {
			if ctx.Err() != nil && !errors.Is(err, ErrInterrupted) {
				err = fmt.Errorf("%w: %w", ErrInterrupted, err)
			}
			return fmt.Errorf("step %s: %w", n.step.Name, err)
		}
	}
	return nil
}

func newRunner(r *Recipe, engine Engine, logger *slog.Logger) (*runner, error) {
	order, err := r.order()
	if err != nil {
		return nil, err
	}
	return &runner{
		recipe: r, engine: engine, logger: logger, every: 30 * time.Second, order: order,
		hashes: openHashes(filepath.Join(r.folder(), stateFolder, "hashes.json")),
	}, nil
}

func (r *runner) stampPath(n *node) string {
	return filepath.Join(r.recipe.folder(), stateFolder, "done", n.step.Name+".json")
}

func (r *runner) scratch(n *node) string {
	return filepath.Join(r.recipe.folder(), stateFolder, "work", n.step.Name)
}

// step does a step, unless it is done.
func (r *runner) step(ctx context.Context, number int) error {
	n := r.order[number]
	from, err := r.origin(n)
	if err != nil {
		return err
	}
	logger := r.logger.With("step", n.step.Name)
	last, done := r.done(n, from)
	if done {
		logger.Info("nothing to do", "number", number+1, "of", len(r.order))
		return os.RemoveAll(r.scratch(n)) // which a process that was killed may have left
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	b, err := r.begin(n, from)
	if err != nil {
		return err
	}
	logger.Info("begins", "number", number+1, "of", len(r.order), "does", n.word, "done_before", percent(b.Share))
	if !r.complete(n) {
		if err := r.checkOwn(n, last); err != nil {
			return err
		}
		if err := r.work(ctx, n, b, logger); err != nil {
			return err
		}
	}
	s, err := r.publish(n, from)
	if err == nil {
		logger.Info("done", "number", number+1, "of", len(r.order), "seconds", s.Seconds)
	}
	return err
}

// origin says what the outputs of a step are made of. All its inputs must be there.
func (r *runner) origin(n *node) (origin, error) {
	settings, err := json.Marshal(n.kind)
	if err != nil {
		return origin{}, err
	}
	from := origin{Generation: generation, Kind: n.word, Settings: settings}
	for _, in := range n.inputs {
		hash, err := r.hashes.of(in.path)
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%s is missing: no step writes it, and it is not there", in.path)
		}
		if err != nil {
			return origin{}, fmt.Errorf("%w: %w", ErrInput, err)
		}
		from.Inputs = append(from.Inputs, content{in.name, hash})
	}
	return from, nil
}

// done says whether the outputs of a step are there and made of what it says. The stamp is that of the last time, whatever it
// was made of.
func (r *runner) done(n *node, from origin) (stamp, bool) {
	var s stamp
	if !readJSON(r.stampPath(n), &s) || !s.From.equal(from) {
		return s, false
	}
	for _, name := range n.kind.outputs() {
		if name != "" && !slices.ContainsFunc(s.Outputs, func(f file) bool { return f.Name == name }) {
			return s, false // somebody has been at the stamp
		}
	}
	for _, f := range s.Outputs {
		path := filepath.Join(r.recipe.folder(), filepath.FromSlash(f.Name))
		if info, err := os.Stat(path); err == nil && f.unchanged(info) {
			r.hashes.known[path] = file{path, f.Size, f.Time, f.Hash}
		} else if hash, err := r.hashes.of(path); err != nil || hash != f.Hash {
			return s, false
		}
	}
	return s, true
}

// begin prepares the folder in which a step works. What is there of a step with other settings or inputs is removed.
func (r *runner) begin(n *node, from origin) (begun, error) {
	scratch := r.scratch(n)
	var b begun
	if readJSON(filepath.Join(scratch, "begun.json"), &b) && b.From.equal(from) {
		return b, nil
	}
	if err := os.RemoveAll(scratch); err != nil {
		return b, err
	}
	b = begun{From: from}
	return b, writeJSON(filepath.Join(scratch, "begun.json"), b)
}

// checkOwn makes sure that no file is replaced that the step has not made. last is its stamp.
func (r *runner) checkOwn(n *node, last stamp) error {
	for _, name := range n.kind.outputs() {
		path := filepath.Join(r.recipe.folder(), filepath.FromSlash(name))
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if !slices.ContainsFunc(last.Outputs, func(f file) bool { return f.Name == name }) {
			return fmt.Errorf("%w: %s; remove it, or choose another folder", ErrExists, path)
		}
	}
	return nil
}

// complete says whether a step has all its outputs, which need only be brought to their places.
func (r *runner) complete(n *node) bool {
	_, err := os.Stat(filepath.Join(r.scratch(n), "done.json"))
	return err == nil
}

// work does a step up to the point where all outputs are complete and on the disk.
func (r *runner) work(ctx context.Context, n *node, b begun, logger *slog.Logger) error {
	w := &work{ctx: ctx, logger: logger, engine: r.engine, node: n, folder: r.recipe.folder(), scratch: r.scratch(n), vocabularies: r.vocabularies()}
	w.progress(b.Share)
	watch := r.watch(w, b)
	err := n.kind.run(w)
	seconds, watchErr := watch()
	if err = errors.Join(err, watchErr); err != nil {
		return err
	}
	s := stamp{From: b.From, Seconds: seconds}
	for _, name := range n.kind.outputs() {
		path, err := w.output(name)
		if err != nil {
			return err
		}
		if err := syncFile(path); err != nil {
			return err
		}
		f, err := identify(name, path)
		if err != nil {
			return fmt.Errorf("the output %s: %w", name, err)
		}
		s.Outputs = append(s.Outputs, f)
	}
	return writeJSON(filepath.Join(r.scratch(n), "done.json"), s)
}

// vocabularies are the paths of the recipe's vocabularies, of source and target.
func (r *runner) vocabularies() []string {
	var paths []string
	for _, name := range r.recipe.Vocabularies {
		var n node
		n.add(r.recipe, name, r.writer(name))
		paths = append(paths, n.inputs[0].path)
	}
	return paths
}

func (r *runner) writer(name string) *node {
	for _, n := range r.order {
		for _, output := range n.kind.outputs() {
			if output == name {
				return n
			}
		}
	}
	return nil
}

// publish brings complete outputs to their places, one by one, and stamps them. If it is interrupted, it is done again.
func (r *runner) publish(n *node, from origin) (stamp, error) {
	scratch := r.scratch(n)
	var s stamp
	if !readJSON(filepath.Join(scratch, "done.json"), &s) {
		return s, errors.Join(fmt.Errorf("%s is damaged; run the recipe again", filepath.Join(scratch, "done.json")), os.RemoveAll(scratch))
	}
	for _, f := range s.Outputs {
		made := filepath.Join(scratch, "out", filepath.FromSlash(f.Name))
		path := filepath.Join(r.recipe.folder(), filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return s, err
		}
		err := os.Rename(made, path)
		if errors.Is(err, os.ErrNotExist) { // it was brought to its place before an interruption
			var info os.FileInfo
			if info, err = os.Stat(path); err == nil && !f.unchanged(info) {
				err = errors.Join(fmt.Errorf("%s has changed meanwhile; run the recipe again", path), os.RemoveAll(scratch))
			}
		}
		if err != nil {
			return s, err
		}
		r.hashes.known[path] = file{path, f.Size, f.Time, f.Hash}
		r.hashes.dirty = true
	}
	s.From = from
	if err := writeJSON(r.stampPath(n), s); err != nil {
		return s, err
	}
	return s, os.RemoveAll(scratch)
}

// syncFile waits until a file is on the disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
