package model

import (
	"errors"
	"fmt"
	"strconv"
)

// A DevlinStack is what the description of a model of type devlin says beyond that of other recurrent models. Its decoder is that
// of Devlin, "Sharp Models on Dull Hardware: Fast and Accurate Neural Machine Translation Decoding on the CPU", 2017: one recurrent
// cell at the bottom, which attends to the source, and above it layers that look at the current word alone.
//
// Marian has no such type. The description and the parameters follow its habits all the same:
//
//	key            default   meaning
//	dim-emb, dim-rnn, enc-type, enc-cell, enc-depth, enc-cell-depth, skip, and the tying of embeddings: as for type s2s
//	dec-cell       gru       the cell at the bottom; no other is known
//	dec-fc-depth   4         fully connected layers
//	dim-fc         dim-rnn   their width
//	dec-top        tanh      the layer on top of them: tanh or gru
//
// With E = dim-emb, R = dim-rnn, F = dim-fc and C = 2·R, the width of the encoder's results (R for bi-unidirectional encoders of
// several layers), the decoder has these parameters beside embeddings and output layer:
//
//	decoder_ff_state_W C×R, _b 1×R                        the first state, as for type s2s
//	decoder_Wc_att C×C, decoder_W_comb_att R×C, decoder_b_att 1×C, decoder_U_att C×1   attention, as for type s2s
//	decoder_cell1_W E×2R, _Wx E×R, _U R×2R, _Ux R×R, _b 1×2R, _bx 1×R                the cell, from embedding and state
//	decoder_context_W C×2R, decoder_context_Wx C×R        the cell, from what attention found
//	decoder_fc1_W R×F, _b 1×F, decoder_fc2_W F×F, …       fully connected layers
//	decoder_top_W F×E, _b 1×E                             for dec-top: tanh (F is R if dec-fc-depth is 0)
//	decoder_top_W F×2E, _Wx F×E, _U E×2E, _Ux E×E, _b 1×2E, _bx 1×E                  for dec-top: gru
//	decoder_ff_logit_l2_Wt, _b                            the output layer, as for type s2s; it multiplies E elements
type DevlinStack struct {
	Depth int     // fully connected layers
	Dim   int     // of each
	Top   TopKind // what is above them
}

// TopKind is the last layer of Devlin's decoder.
type TopKind uint8

// The kinds of last layers.
const (
	TanhTop TopKind = iota
	GRUTop
)

var topKinds = [...]string{"tanh", "gru"}

// String returns the kind as descriptions have it.
func (k TopKind) String() string {
	if int(k) < len(topKinds) {
		return topKinds[k]
	}
	return "top " + strconv.Itoa(int(k))
}

// DevlinKeys are the keys of a description that matter to type devlin alone.
type DevlinKeys struct {
	FCDepth int    `yaml:"dec-fc-depth"` // fully connected layers
	DimFC   int    `yaml:"dim-fc"`       // their width; 0 is dim-rnn
	Top     string `yaml:"dec-top"`      // what is above them: tanh or gru
}

func defaultDevlinKeys() DevlinKeys { return DevlinKeys{FCDepth: 4, Top: "tanh"} }

// devlin completes the description of a recurrent model of type devlin.
func (c *Description) devlin(r *Recurrence) error {
	d := &DevlinStack{Depth: c.FCDepth, Dim: or(c.DimFC, r.Dim)}
	switch {
	case c.LayerNormalization:
		return unsupported(remedyPlain, "layer-normalization in a model of type devlin")
	case r.DecoderCell != GRUCell && r.DecoderCell != NematusGRUCell:
		return unsupported(remedyPlain, "dec-cell: %s in a model of type devlin", c.DecCell)
	case c.Top == "gru":
		d.Top = GRUTop
	case c.Top != "tanh":
		return errors.New(`description of the model: dec-top is "` + c.Top + `", but must be "tanh" or "gru"`)
	}
	if err := within([]bound{{"dec-fc-depth", d.Depth, 0, maxRecurrentDepth}, {"dim-fc", d.Dim, 1, maxDim}}); err != nil {
		return fmt.Errorf("description of the model: %w", err)
	}
	r.Devlin, r.BaseCells, r.HighCells = d, 1, 1
	return nil
}

// A DevlinDecoder is the parameters of the decoder of a model of type devlin. For each word, with s the state before, and y the
// embedding of the word before:
//
//	c = Attention with s                              (of the RecurrentEncoder)
//	s = Bottom, which has Input(y) + Context(c) as what comes from its input, with s
//	h₁ = max(0, Layers₁(s))
//	hᵢ = max(0, Layersᵢ(hᵢ₋₁)) for even i
//	hᵢ = max(0, Layersᵢ(hᵢ₋₁) + hᵢ₋₂) for odd i > 1
//	t = tanh(Top(h)), or TopCell, which begins with zeros, with h as its input; h is s if there are no Layers
//
// and t goes to the output layer. Attention depends on the state before alone, so that hypotheses that go on from the same one
// differ in y only.
type DevlinDecoder struct {
	Bottom  Cell
	Context Product // from the attention's result to the gates of Bottom, side by side as in Bottom.Input
	Layers  []Affine
	Top     *Affine // of TanhTop
	TopCell *Cell   // of GRUTop
}

// devlinDecoder binds the parameters of Devlin's decoder.
func (b *binder) devlinDecoder(m *Model, found int) *DevlinDecoder {
	r := m.Recurrence
	d := &DevlinDecoder{
		Bottom: b.cell(GRUCell, cellPlace{prefix: "decoder_cell1", in: m.Dim, dim: r.Dim}),
		Context: Product{Matrices: []Affine{
			b.matrix("decoder_context_W", found, 2*r.Dim), b.matrix("decoder_context_Wx", found, r.Dim),
		}},
	}
	width := r.Dim
	for i := 1; i <= r.Devlin.Depth; i++ {
		d.Layers = append(d.Layers, b.affine("decoder_fc"+strconv.Itoa(i), "", width, r.Devlin.Dim))
		width = r.Devlin.Dim
	}
	if r.Devlin.Top == GRUTop {
		cell := b.cell(GRUCell, cellPlace{prefix: "decoder_top", in: width, dim: m.Dim})
		d.TopCell = &cell
		return d
	}
	top := b.affine("decoder_top", "", width, m.Dim)
	d.Top = &top
	return d
}

// facts lists what Devlin's decoder has.
func (d *DevlinStack) facts(facts *factList) {
	facts.number("dec-fc-depth", d.Depth)
	facts.number("dim-fc", d.Dim)
	facts.add("dec-top", d.Top.String())
}
