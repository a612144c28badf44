package gpukernels

import (
	"embed"
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

//go:embed ptx/*.ptx ptx/bfloat16/*.ptx
var programs embed.FS

// sources are the files of src/ for translating, with the kernels of each and the dynamic shared memory that they want, in bytes.
var sources = map[string]map[string]int{
	"product": {"product_128x128": large.shared(), "product_64x64": middle.shared(), "product_16x64": small.shared(),
		"product_16x16": narrow.shared()},
	"layernorm": {"layer_norm": 0, "rms_norm": 0},
	"embed":     {"embed": 0, "copy_rows": 0},
	"ssru":      {"ssru": 0},
	"gates":     {"activate": 0, "add": 0, "highway": 0, "gated_sum": 0, "average": 0, "sru": 0},
	"cells":     {"begin_cells": 0, "multiply_cells": 0, "advance_cells": 0, "mean_rows": 0, "add_starts": 0, "attend_additively": 0},
	"words":     {"keep_words": 0, "first_words": 0},
	"attention": ofHeads(attentionShared, wideAttentionShared, "attention"),
	"lookup":    ofHeads(func(int) int { return 0 }, queriesShared(MostHeadDim/wideHead), "lookup", "lookup_weights", "recall"),
	"output": {"output_64": middle.shared(), "output_16": small.shared(), "output_merge": 0, "output_scores": small.shared(),
		"guess_beams": 0, "begin_rows": 0, "read_on": 0},
	"draw":   {"draw_tokens": 0},
	"joined": {"join_models": 0, "choose_joined": 0},
	"pick":   {"pick_log_probabilities": 0},
}

// ofHeads names the kernels that there are for each size of attention heads, and for wide ones.
func ofHeads(shared func(headDim int) int, wide int, names ...string) map[string]int {
	kernels := map[string]int{}
	for _, name := range names {
		kernels[name+"_wide"] = wide
	}
	for _, dim := range HeadDims {
		for _, name := range names {
			kernels[fmt.Sprintf("%s_%d", name, dim)] = shared(dim)
		}
	}
	return kernels
}

// Kernels are the kernels on one device. They may be launched from any goroutine that has bound the context, on any stream.
type Kernels struct {
	modules         []*cuda.Module
	byName          map[string]*cuda.Kernel
	multiprocessors int
	stored          Storage
	bytes           string // what bytes are, in the names of kernels that multiply them
}

// Load compiles the kernels for the device of a context, which must be bound, and for an arithmetic: the type that it stores is what other
// comments call fp16. The driver keeps the result, so that only the first time takes long.
func Load(d *cuda.Driver, device int, c *cuda.Context, as Arithmetic) (*Kernels, error) {
	wanted, err := as.sources()
	if err != nil {
		return nil, err
	}
	k, err := load(d, device, c, as.Stored, wanted)
	if err != nil {
		return nil, err
	}
	k.bytes = as.Products.String()
	return k, nil
}

func load(d *cuda.Driver, device int, c *cuda.Context, stored Storage, sources map[string]map[string]int) (*Kernels, error) {
	properties, err := d.Properties(device)
	if err != nil {
		return nil, err
	}
	k := &Kernels{byName: map[string]*cuda.Kernel{}, multiprocessors: properties.Multiprocessors, stored: stored}
	for source, kernels := range sources {
		if err := k.load(c, source, stored, kernels); err != nil {
			k.Close()
			return nil, fmt.Errorf("kernels of %s on %v: %w", source, properties, err)
		}
	}
	return k, nil
}

func (k *Kernels) load(c *cuda.Context, source string, stored Storage, kernels map[string]int) error {
	ptx, err := programs.ReadFile(stored.folder() + source + ".ptx")
	if err != nil {
		return err
	}
	module, err := c.Load(string(ptx))
	if err != nil {
		return err
	}
	k.modules = append(k.modules, module)
	for name, shared := range kernels {
		if k.byName[name], err = module.Kernel(name+stored.suffix(), shared); err != nil {
			return err
		}
	}
	return nil
}

// Close unloads the kernels when their work is done.
func (k *Kernels) Close() error {
	var first error
	for _, m := range k.modules {
		if err := m.Close(); err != nil && first == nil {
			first = err
		}
	}
	k.modules = nil
	return first
}

// need reports an operand that a kernel cannot take. It is an error of the program.
func need(ok bool, kernel, what string, arguments ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("gpukernels: %s: %s", kernel, fmt.Sprintf(what, arguments...))
}

// blocks returns how many tiles of a size cover a length.
func blocks(length, tile int) int { return (length + tile - 1) / tile }

// warpRows is how many rows a block of the kernels has that give each row to one warp.
const warpRows = 4

// rowGrid is the grid of those kernels.
func rowGrid(rows int) cuda.Shape { return cuda.Shape{X: blocks(rows, warpRows)} }

// mostGridRows is how many blocks a grid has in its second and in its third dimension at most.
const mostGridRows = 65535

// inLaunches calls launch with the first of some rows and how many they are, at most so many, until all are done.
func inLaunches(rows, most int, launch func(first, rows int) error) error {
	for first := 0; first < rows; first += most {
		if err := launch(first, min(most, rows-first)); err != nil {
			return err
		}
	}
	return nil
}

var rowBlock = cuda.Shape{X: 32 * warpRows}

// flag is an argument for a parameter of type int that says yes or no.
func flag(b bool) cuda.Argument {
	if b {
		return cuda.Int(1)
	}
	return cuda.Int(0)
}
