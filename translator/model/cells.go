package model

import (
	"strconv"

	"github.com/sluice-mt/sluice/translator/marian"
)

// CellKind is a kind of recurrent cell.
type CellKind uint8

// The kinds of cells, in Marian's words gru, gru-nematus, lstm, mgru, mlstm, tanh, relu, sru and ssru.
const (
	GRUCell CellKind = iota
	NematusGRUCell
	LSTMCell
	MultiplicativeGRUCell
	MultiplicativeLSTMCell
	TanhCell
	ReLUCell
	SRUCell
	SSRUCell
)

var cellKinds = [...]string{"gru", "gru-nematus", "lstm", "mgru", "mlstm", "tanh", "relu", "sru", "ssru"}

// String returns the kind in Marian's words.
func (k CellKind) String() string {
	if int(k) < len(cellKinds) {
		return cellKinds[k]
	}
	return "cell " + strconv.Itoa(int(k))
}

func cellKindOf(name string) (CellKind, error) {
	for i, known := range cellKinds {
		if name == known {
			return CellKind(i), nil
		}
	}
	return 0, unsupported(remedyMarian, "a recurrent cell of the kind %q", name)
}

// Gated says whether the cell has the two gates of a GRU.
func (k CellKind) Gated() bool {
	return k == GRUCell || k == NematusGRUCell || k == MultiplicativeGRUCell
}

// Memory says whether the cell remembers something else than what it gave last.
func (k CellKind) Memory() bool {
	return k == LSTMCell || k == MultiplicativeLSTMCell || k == SRUCell || k == SSRUCell
}

func (k CellKind) multiplicative() bool {
	return k == MultiplicativeGRUCell || k == MultiplicativeLSTMCell
}

// simple says whether nothing in the cell is multiplied with what it gave last.
func (k CellKind) simple() bool { return k == SRUCell || k == SSRUCell }

// Epsilons of the layer norms in and around recurrent cells, added under the root.
const (
	CellNormEpsilon    = 1e-9
	NematusNormEpsilon = 1e-5
)

// A Product multiplies one input with matrices whose results stand side by side, and normalises these.
type Product struct {
	Matrices []Affine
	Norms    []Norm // none, one over the whole result, or one over what each matrix gives
	Epsilon  float32
}

// Width is the number of elements of the result.
func (p *Product) Width() int {
	n := 0
	for i := range p.Matrices {
		n += p.Matrices[i].Out
	}
	return n
}

// A Cell is a recurrent cell. With x from Input and u from State, both with a part for each gate, and b from Bias:
//
//	GRU   r, z = σ(x+u+b)   h = tanh(x + r·u + b), or tanh(x + r·(u+b)) if Final   s = (1-z)·h + z·s
//	LSTM  f, i, c, o of x+u+b   m = σ(f)·m + σ(i)·tanh(c)   s = σ(o)·tanh(m)
//	tanh  s = tanh(x+u+b)      relu  s = max(0, x+u+b)
//	SRU   x, f, r of Input      m = σ(f)·m + (1-σ(f))·x   s = σ(r)·tanh(m) + (1-σ(r))·input
//	SSRU  x, f of Input         m = σ(f)·m + (1-σ(f))·x   s = max(0, m)
//
// where s is what the cell gives and m its memory. The kinds that are called multiplicative first replace s by the elementwise
// product of Factors.
type Cell struct {
	Kind    CellKind
	In, Dim int
	Final   bool
	Input   *Product         // nil if the cell has no input of its own
	State   *Product         // nil for SRU and SSRU
	Bias    []*marian.Tensor // side by side; nil if it is in a product, or there is none
	Factors *[2]Product      // of multiplicative cells: from the input, and from the state
}

// cellPlace says where in a network a cell stands.
type cellPlace struct {
	prefix    string
	in, dim   int // in is 0 without an input
	final     bool
	encoder   bool
	layerNorm bool
}

// cell binds the parameters of a cell.
func (b *binder) cell(kind CellKind, at cellPlace) Cell {
	c := Cell{Kind: kind, In: at.in, Dim: at.dim, Final: at.final && kind.Gated()}
	switch {
	case kind.simple():
		b.simpleCell(&c, at)
	case kind == NematusGRUCell && at.layerNorm:
		b.nematusCell(&c, at)
	case kind.Gated():
		b.gates(&c, at, []string{"", "x"}, []int{2 * at.dim, at.dim}, 3*at.dim)
	case kind == LSTMCell || kind == MultiplicativeLSTMCell:
		b.gates(&c, at, []string{""}, []int{4 * at.dim}, 4*at.dim)
	case kind == TanhCell: // whose norms have three times the parameters that they use
		b.gates(&c, at, []string{""}, []int{at.dim}, 3*at.dim)
	default:
		b.gates(&c, at, []string{""}, []int{at.dim}, at.dim)
	}
	if kind.multiplicative() {
		b.factors(&c, at)
	}
	return c
}

// gates binds matrices named W, U and b with suffixes, and norms named gamma1 and gamma2.
func (b *binder) gates(c *Cell, at cellPlace, suffixes []string, widths []int, normWidth int) {
	c.State = &Product{Epsilon: CellNormEpsilon}
	if at.in > 0 {
		c.Input = &Product{Epsilon: CellNormEpsilon}
	}
	for i, suffix := range suffixes {
		c.State.Matrices = append(c.State.Matrices, b.matrix(at.prefix+"_U"+suffix, at.dim, widths[i]))
		if c.Input != nil {
			c.Input.Matrices = append(c.Input.Matrices, b.matrix(at.prefix+"_W"+suffix, at.in, widths[i]))
		}
		c.Bias = append(c.Bias, b.take(at.prefix+"_b"+suffix, 1, widths[i]))
	}
	if !at.layerNorm {
		return
	}
	c.State.Norms = []Norm{{Scale: b.take(at.prefix+"_gamma2", 1, normWidth)}}
	if c.Input != nil {
		c.Input.Norms = []Norm{{Scale: b.take(at.prefix+"_gamma1", 1, normWidth)}}
	}
}

func (b *binder) matrix(name string, in, out int) Affine {
	return Affine{W: b.take(name, in, out), In: in, Out: out}
}

// nematusCell binds a GRU with the layer norms of Nematus, a norm for each matrix. Its biases are added before the norms, to what
// comes from the input, or in the decoder from the state in all cells but the first; in the encoder's cells without
// an input they are added after them.
func (b *binder) nematusCell(c *Cell, at cellPlace) {
	widths := []int{2 * at.dim, at.dim}
	c.State = &Product{Epsilon: NematusNormEpsilon}
	if at.in > 0 {
		c.Input = &Product{Epsilon: NematusNormEpsilon}
	}
	for i, suffix := range []string{"", "x"} {
		bias := b.take(at.prefix+"_b"+suffix, 1, widths[i])
		u := b.matrix(at.prefix+"_U"+suffix, at.dim, widths[i])
		if !at.encoder && (at.final || at.in == 0) {
			u.B = bias
		}
		c.State.Matrices = append(c.State.Matrices, u)
		c.State.Norms = append(c.State.Norms, b.nematusNorm(at.prefix+"_U"+suffix+"_ln", "", widths[i]))
		if at.in == 0 {
			if at.encoder {
				c.Bias = append(c.Bias, bias)
			}
			continue
		}
		w := b.matrix(at.prefix+"_W"+suffix, at.in, widths[i])
		if !at.final {
			w.B = bias
		}
		c.Input.Matrices = append(c.Input.Matrices, w)
		c.Input.Norms = append(c.Input.Norms, b.nematusNorm(at.prefix+"_W"+suffix+"_ln", "", widths[i]))
	}
}

func (b *binder) nematusNorm(prefix, suffix string, width int) Norm {
	return Norm{Scale: b.take(prefix+"s"+suffix, 1, width), Bias: b.take(prefix+"b"+suffix, 1, width)}
}

// simpleCell binds an SRU or SSRU.
func (b *binder) simpleCell(c *Cell, at cellPlace) {
	if at.in != at.dim {
		b.refuse("a cell %s of kind %s that reads %d elements and gives %d", at.prefix, c.Kind, at.in, at.dim)
		return
	}
	c.Input = &Product{Epsilon: CellNormEpsilon}
	suffixes := []string{"", "f", "r"}
	if c.Kind == SSRUCell {
		suffixes = suffixes[:2]
	}
	for _, suffix := range suffixes {
		a := b.matrix(at.prefix+"_W"+suffix, at.in, at.dim)
		var bias *marian.Tensor
		if suffix != "" {
			bias = b.take(at.prefix+"_b"+suffix, 1, at.dim)
		}
		if at.layerNorm {
			c.Input.Norms = append(c.Input.Norms, Norm{Scale: b.take(at.prefix+"_gamma"+suffix, 1, at.dim), Bias: bias})
		} else {
			a.B = bias
		}
		c.Input.Matrices = append(c.Input.Matrices, a)
	}
}

// factors binds what a multiplicative cell multiplies.
func (b *binder) factors(c *Cell, at cellPlace) {
	if at.in == 0 {
		b.refuse("a cell %s of kind %s without input", at.prefix, c.Kind)
		return
	}
	input := Affine{W: b.take(at.prefix+"_Wm", at.in, at.dim), B: b.take(at.prefix+"_bwm", 1, at.dim), In: at.in, Out: at.dim}
	state := Affine{W: b.take(at.prefix+"_Um", at.dim, at.dim), B: b.take(at.prefix+"_bm", 1, at.dim), In: at.dim, Out: at.dim}
	c.Factors = &[2]Product{
		{Matrices: []Affine{input}, Epsilon: CellNormEpsilon}, {Matrices: []Affine{state}, Epsilon: CellNormEpsilon},
	}
	if at.layerNorm {
		c.Factors[0].Norms = []Norm{{Scale: b.take(at.prefix+"_gamma1m", 1, at.dim)}}
		c.Factors[1].Norms = []Norm{{Scale: b.take(at.prefix+"_gamma2m", 1, at.dim)}}
	}
}
