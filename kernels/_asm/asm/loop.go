package asm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Row iterates over the n elements of a row, in blocks of 16 and a tail.
type Row struct {
	isa  ISA
	n    reg.GPVirtual
	full reg.GPVirtual // n in whole blocks
	i    reg.GPVirtual // index of the block
	tail Tail
}

// NewRow prepares loops over rows of n elements.
func (a ISA) NewRow(n reg.GPVirtual) *Row {
	r := &Row{isa: a, n: n, full: GP64(), i: GP64(), tail: a.Tail(n)}
	MOVQ(n, r.full)
	ANDQ(I8(-16), r.full)
	return r
}

// Block is one block of a row: 16 elements, or the tail.
type Block struct {
	row   *Row
	ahead int // blocks from the one at the index
	tail  bool
}

// At is the memory of the block in the row that starts at p.
func (b Block) At(p reg.Register) Mem {
	return Mem{Base: p, Index: b.row.i, Scale: 4, Disp: 64 * b.ahead}
}

// BytesAt is the memory of the block in a row of bytes.
func (b Block) BytesAt(p reg.Register) Mem {
	return Mem{Base: p, Index: b.row.i, Scale: 1, Disp: 16 * b.ahead}
}

// Index is the register that holds the index of the block's first element.
func (b Block) Index() reg.GPVirtual { return b.row.i }

// Load loads the block from the row at p.
func (b Block) Load(p reg.Register) V {
	if b.tail {
		return b.row.tail.Load(b.At(p))
	}
	return b.row.isa.Load(b.At(p))
}

// Store stores the block to the row at p.
func (b Block) Store(v V, p reg.Register) {
	if b.tail {
		b.row.tail.Store(v, b.At(p))
		return
	}
	b.row.isa.Store(v, b.At(p))
}

// Keep returns v with zeros in the lanes that the row does not have.
func (b Block) Keep(v V) V {
	if b.tail {
		return b.row.tail.Keep(v)
	}
	return v
}

// Or returns v with c in the lanes that the row does not have. (AVX2 only.)
func (b Block) Or(v V, c Const) V {
	if !b.tail {
		return v
	}
	filled := b.row.isa.Register(c)
	for i := range v {
		VBLENDVPS(b.row.tail.mask[i], v[i], filled[i], filled[i])
	}
	return filled
}

var labels int

// Unique returns a label that no other has.
func Unique(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}

// Each generates the loop: body for the whole blocks, then once more for the tail.
func (r *Row) Each(body func(Block)) {
	XORQ(r.i, r.i)
	r.whole(body)
	r.last(body)
}

// EachFour generates the loop with four blocks in a turn, while there are as many, to spend less on the loop itself.
func (r *Row) EachFour(four func([4]Block), body func(Block)) {
	r.eachSeveral(4, func(blocks []Block) { four([4]Block(blocks)) }, body)
}

// EachTwo is EachFour for two blocks.
func (r *Row) EachTwo(two func([2]Block), body func(Block)) {
	r.eachSeveral(2, func(blocks []Block) { two([2]Block(blocks)) }, body)
}

func (r *Row) eachSeveral(n int, several func([]Block), body func(Block)) {
	turn, rest, end := Unique("turn"), Unique("rest"), GP64()
	XORQ(r.i, r.i)
	LEAQ(Mem{Base: r.full, Disp: 1 - 16*n}, end) // the first index with fewer
	CMPQ(r.i, end)
	JGE(LabelRef(rest))
	Label(turn)
	var blocks []Block
	for ahead := range n {
		blocks = append(blocks, Block{row: r, ahead: ahead})
	}
	several(blocks)
	ADDQ(Imm(uint64(16*n)), r.i)
	CMPQ(r.i, end)
	JLT(LabelRef(turn))
	Label(rest)
	r.whole(body)
	r.last(body)
}

// EachOfFour is EachFour with the same body for all blocks.
func (r *Row) EachOfFour(body func(Block)) {
	r.EachFour(func(blocks [4]Block) {
		for _, b := range blocks {
			body(b)
		}
	}, body)
}

// whole generates the loop over the whole blocks that are left.
func (r *Row) whole(body func(Block)) {
	loop, done := Unique("loop"), Unique("tail")
	CMPQ(r.i, r.full)
	JGE(LabelRef(done))
	Label(loop)
	body(Block{row: r})
	ADDQ(Imm(16), r.i)
	CMPQ(r.i, r.full)
	JLT(LabelRef(loop))
	Label(done)
}

// last generates the tail, if there is one.
func (r *Row) last(body func(Block)) {
	done := Unique("done")
	CMPQ(r.i, r.n)
	JGE(LabelRef(done))
	body(Block{row: r, tail: true})
	Label(done)
}

// LoadOr loads the block with c in the lanes that the row does not have.
func (b Block) LoadOr(p reg.Register, c Const) V {
	if !b.tail {
		return b.Load(p)
	}
	return b.row.tail.loadOr(b.At(p), c)
}

// FMA adds to sum the product of x with the block of the row at p, fused. Lanes that the row does not have keep their sum.
// (AVX2 only.)
func (b Block) FMA(sum, x V, p reg.Register) {
	if !b.tail {
		for i := range sum {
			VFMADD231PS(b.At(p).Offset(32*i), x[i], sum[i])
		}
		return
	}
	b.FMAOf(sum, x, b.Load(p))
}

// FMAOf is FMA with a block that is loaded already.
func (b Block) FMAOf(sum, x, y V) {
	for i := range sum {
		if !b.tail {
			VFMADD231PS(y[i], x[i], sum[i])
			continue
		}
		fused := YMM()
		VMOVAPS(sum[i], fused)
		VFMADD231PS(y[i], x[i], fused)
		VBLENDVPS(b.row.tail.mask[i], fused, sum[i], sum[i])
	}
}
