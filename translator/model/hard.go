package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// A HardAttention is what the description of a model of type hard-att, hard-soft-att or multi-hard-att says beyond that of other
// recurrent models. Such a model reads one token of the first source at a time, together with the word before. It begins at the first
// token, and moves on to the next whenever it has written one of the pieces in Steps (Aharoni and Goldberg, "Morphological Inflection
// Generation with Hard Monotonic Attention", 2017; Junczys-Dowmunt and Grundkiewicz, "An Exploration of Neural Sequence-to-Sequence
// Architectures for Automatic Post-Editing", 2017).
//
// Marian trained and ran these models until the end of 2018 (src/models/hardatt.h before its commit e4b0bc07). The rules are its own:
//
//   - While it has not come to the end of the source, which is a token as well, the model must not end the translation. At the end it
//     must not write StepToken; other pieces of Steps leave it where it is. Both hold in a search; they change no probability.
//   - The decoder has one cell in each layer. The first one reads the embedding of the word before, and beside it what the encoder
//     gave for the token. dec-cell-base-depth and dec-cell-high-depth do not matter.
//   - Types hard-soft-att and multi-hard-att have soft attention to all sources as well, between two cells of the first layer, as type
//     s2s has.
//   - The output matrix is never that of the embeddings.
//
// With E = dim-emb, R = dim-rnn and C, the width of the encoder's results, and beside what type s2s has, for GRUs:
//
//	decoder_W E+C×2R, _Wx E+C×R, _U R×2R, _Ux R×R, _b, _bx          the first layer of type hard-att
//	decoder_cell1_W E+C×2R, …, decoder_cell2_W C×2R, …             that of the others (2C×2R for two sources)
//	decoder_l0_W R×2R, decoder_l1_W …                              the layers above
//	decoder_ff_logit_l1_W0 E+C×E, _W1 R×E, _W2 C×E                 the output; _W2 is for soft attention
//	decoder_ff_logit_l2_W E×V, _b 1×V                              or _Wt V×E, which new models have
type HardAttention struct {
	Soft  bool    // there is soft attention, too
	Steps []int32 // special-vocab: target pieces after which the model reads the next token
}

// Pieces whose numbers are fixed in models with hard attention.
const (
	HardEnd   = 0 // the end of sentence
	StepToken = 2 // the piece that must not be written at the end of the source
)

// isHard says whether a type's models have hard attention.
func isHard(name string) bool {
	return name == typeHard || name == typeHardSoft || name == typeMultiHard
}

// hard completes the description of a model with hard attention.
func (c *Description) hard(r *Recurrence) error {
	h := &HardAttention{Soft: c.Type != typeHard}
	if len(c.SpecialVocab) == 0 {
		return errors.New("description of the model: special-vocab is missing: it says after which pieces hard attention moves on")
	}
	last := len(c.DimVocabs) - 1
	for _, piece := range c.SpecialVocab {
		if piece < 0 || piece >= maxVocabulary || last >= 0 && c.DimVocabs[last] > 0 && piece >= c.DimVocabs[last] {
			return fmt.Errorf("description of the model: special-vocab has the number %d, which is no target piece", piece)
		}
		h.Steps = append(h.Steps, int32(piece))
	}
	r.Hard, r.BaseCells, r.HighCells = h, 1, 1
	if h.Soft {
		r.BaseCells = 2
	}
	return nil
}

// hardDecoder binds the cells of a decoder with hard attention.
func (b *binder) hardDecoder(m *Model, n *RecurrentNetwork) {
	r := m.Recurrence
	in := m.Dim + r.ContextDim(m.EncoderStack.Depth)
	if r.Hard.Soft {
		n.Base = append(n.Base,
			b.cell(r.DecoderCell, cellPlace{prefix: "decoder_cell1", in: in, dim: r.Dim, layerNorm: r.LayerNorm}),
			b.cell(r.DecoderCell, cellPlace{prefix: "decoder_cell2", in: n.found(), dim: r.Dim, final: true, layerNorm: r.LayerNorm}))
	} else {
		n.Base = append(n.Base, b.cell(r.DecoderCell, cellPlace{prefix: "decoder", in: in, dim: r.Dim, layerNorm: r.LayerNorm}))
	}
	for i := range m.DecoderStack.Depth - 1 {
		at := cellPlace{prefix: "decoder_l" + strconv.Itoa(i), in: r.Dim, dim: r.Dim, layerNorm: r.LayerNorm}
		n.High = append(n.High, RecurrentLayer{Cells: []Cell{b.cell(r.DecoderCell, at)}, Skip: r.Skip})
	}
}

// facts lists what hard attention has.
func (h *HardAttention) facts(facts *factList) {
	steps := make([]int, len(h.Steps))
	for i, piece := range h.Steps {
		steps[i] = int(piece)
	}
	facts.add("special-vocab", numbers(steps))
}

// CheckPieces returns an error if hard attention cannot work with a target vocabulary whose end of sentence has that number, of which some
// pieces are never written. Other models take any.
func (a *Architecture) CheckPieces(end int32, never []int32) error {
	if a.Recurrence == nil || a.Recurrence.Hard == nil {
		return nil
	}
	if end != HardEnd {
		return unsupported("make a vocabulary in which it is 0, as Marian's is", "type: %s with a vocabulary whose end of sentence is piece %d", a.Type, end)
	}
	for _, step := range a.Recurrence.Hard.Steps {
		if slices.Contains(never, step) {
			return unsupported("make it a user-defined piece of the vocabulary",
				"type: %s with special-vocab: %d, a piece that is never written (unknown, or a control symbol)", a.Type, step)
		}
	}
	return nil
}
