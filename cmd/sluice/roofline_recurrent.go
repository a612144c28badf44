package main

import (
	"fmt"

	"github.com/sluice-mt/sluice/translator/model"
)

// A recurrentModel is one that benchmarks use, with one table of embeddings.
type recurrentModel struct {
	Name       string
	Type       string // Marian's, of which those with gates in another order have other names for their cells
	Cell       model.CellKind
	Gates      int // of a cell, the candidate included: matrices side by side
	Encoder    int // layers of each direction
	Decoder    int // layers, the first of which has two cells around the attention
	Dim, State int // elements of an embedding, and of what a cell gives
	Vocabulary int
}

// recurrentModels are the sizes of models in use before Transformers: Nematus' and amun's, with one layer, and a deep one of type s2s.
func recurrentModels() []recurrentModel {
	return []recurrentModel{
		{"nematus", "nematus", model.NematusGRUCell, 3, 1, 1, 512, 1024, 32000}, {"s2s", "s2s", model.LSTMCell, 4, 4, 4, 512, 1024, 32000},
	}
}

func (r recurrentModel) size() architectureSize {
	return architectureSize{r.Name, r.Vocabulary, r.Dim}
}

func (r recurrentModel) description() string {
	return fmt.Sprintf("type: %s\ndim-vocabs: [%d, %d]\ndim-emb: %d\ndim-rnn: %d\nenc-cell: %s\ndec-cell: %s\nenc-depth: %d\ndec-depth: %d\n"+
		"skip: true\ntied-embeddings-all: true\n", r.Type, r.Vocabulary, r.Vocabulary, r.Dim, r.State, r.Cell, r.Cell, r.Encoder, r.Decoder)
}

// firstInput and laterInput are what comes from the inputs of all tokens at once, state what comes from the states of so many sentences.
func (r recurrentModel) firstInput(tokens int) productShape {
	return productShape{"encoder: inputs of the first layer", tokens, r.Gates * r.State, r.Dim}
}

func (r recurrentModel) laterInput(tokens int) productShape {
	return productShape{"encoder: inputs of the other layers", tokens, r.Gates * r.State, r.State}
}

func (r recurrentModel) state(sentences int) productShape {
	return productShape{"encoder: states, step by step", sentences, r.Gates * r.State, r.State}
}

// contextProduct makes the keys of the attention.
func (r recurrentModel) contextProduct(tokens int) productShape {
	return productShape{"decoder: keys of the source", tokens, 2 * r.State, 2 * r.State}
}

// sentences is how many have so many tokens.
func (r recurrentModel) sentences(tokens int) int { return (tokens + modelLength - 1) / modelLength }

func (r recurrentModel) encoderProducts(tokens int) []productShape {
	all := []productShape{r.firstInput(tokens), r.state(r.sentences(tokens)), r.contextProduct(tokens)}
	if r.Encoder > 1 {
		all = append(all, r.laterInput(tokens))
	}
	return all
}

func (r recurrentModel) stepProducts(rows int) []productShape {
	all := r.baseProducts(rows)
	if r.Decoder > 1 {
		all = append(all, r.highProducts(rows)[0])
	}
	return all
}

// baseProducts are those of the first layer, the attention and what the output layer multiplies; highProducts those of another layer. What
// comes from states has the same shape in all of them.
func (r recurrentModel) baseProducts(rows int) []productShape {
	return []productShape{
		{"decoder: inputs of the first cell", rows, r.Gates * r.State, r.Dim}, {"decoder: states", rows, r.Gates * r.State, r.State},
		{"decoder: queries", rows, 2 * r.State, r.State},
		{"decoder: what attention found", rows, r.Gates * r.State, 2 * r.State}, {"decoder: states", rows, r.Gates * r.State, r.State},
		{"deep output: embedding", rows, r.Dim, r.Dim}, {"deep output: states", rows, r.Dim, r.State},
		{"deep output: what attention found", rows, r.Dim, 2 * r.State},
	}
}

func (r recurrentModel) highProducts(rows int) []productShape {
	return []productShape{
		{"decoder: inputs of the other layers", rows, r.Gates * r.State, r.State}, {"decoder: states", rows, r.Gates * r.State, r.State},
	}
}

// A layer of the encoder multiplies the inputs of all tokens at once. Then it goes through the sentences step by step, with two kernels in
// each: what comes from the states, and the cells. That is for each direction.
func (r recurrentModel) encoderBound(c card, tokens int) float64 {
	state, _ := c.bound(r.state(r.sentences(tokens)))
	steps := modelLength * max(state, c.least(2, 1))
	first, _ := c.bound(r.firstInput(tokens))
	later, _ := c.bound(r.laterInput(tokens))
	context, _ := c.bound(r.contextProduct(tokens))
	return 2*(first+float64(r.Encoder-1)*later+float64(r.Encoder)*steps) + context
}

// Kernels of a decoder step: see gpumodel.
const (
	kernelsOfBase = 2 + 4 + 2 + 3 + 4 // what rows begin with, embeddings; a cell; attention; a cell; the deep output
	kernelsOfHigh = 4                 // of another layer
)

func (r recurrentModel) stepBound(c card, rows int) float64 {
	contexts := float64(rows) * modelLength * 2 * 2 * 2 * float64(r.State) / c.bandwidth // keys and values of the source, read by every row
	first, high := r.baseProducts(rows), r.highProducts(rows)
	base := max(c.sum(first)+contexts, c.least(kernelsOfBase, len(first)))
	return base + float64(r.Decoder-1)*max(c.sum(high), c.least(kernelsOfHigh, len(high)))
}
