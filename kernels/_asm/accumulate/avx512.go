package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	panel   = 32 // columns of a panel
	vectors = panel / 16
	unroll  = 4
	ahead   = 2 << 10 // distance in bytes at which weights are prefetched

	// maxRows is the most rows whose sums fit the registers, beside two vectors of weights and six of activations.
	maxRows = 12
)

// step adds the products of a step along k: of each row's four bytes, repeated, and those of 32 columns. weights are the
// vectors of a panel, free registers are for any use.
type step func(rows int, weights []Mem, at func(row int) Mem, sum func(row, j int) reg.VecPhysical, free []reg.VecPhysical)

// kernel is a function to generate.
type kernel struct {
	name, reference, element string
	step                     step
	flush                    bool // denormals are zero, in operands and results
}

func (k kernel) write(rows int, doc ...string) {
	asm.Kernel(k.name, fmt.Sprintf("func(height int, x *%[1]s, rowStep, kStep, blocks int, w *%[1]s, wStep, k int, from *float32, fromStride, fromStep int, "+
		"y *float32, yStride, panels int, floor float32, mask uint32)", k.element),
		append([]string{fmt.Sprintf("%s computes blocks of height (1 to %d) rows of %s for panels of 32 columns. k is at least 1.", k.name, rows, k.reference)}, doc...)...)
	if k.flush {
		flush()
	}
	height, from := asm.Int("height"), AllocLocal(8)
	for r := 1; r < rows; r++ {
		CMPQ(height, U32(r))
		JEQ(LabelRef(fmt.Sprintf("rows%d", r)))
	}
	for r := rows; r > 0; r-- {
		Label(fmt.Sprintf("rows%d", r))
		if b := newBlock(r); rows == maxRows {
			product512{block: b, kernel: k, from: from, free: asm.Z[r*vectors:]}.generate()
		} else {
			product256{b, k, from}.generate()
		}
		if k.flush {
			LDMXCSR(control)
		}
		VZEROUPPER()
		RET()
	}
}

// control is where the control word is kept that flush changes.
var control Mem

// flush sets the bits of the control word that make denormals zero.
func flush() {
	const denormalsAreZero, flushToZero = 1 << 6, 1 << 15
	control = AllocLocal(8)
	changed, word := control.Offset(4), GP32()
	STMXCSR(control)
	MOVL(control, word)
	ORL(U32(denormalsAreZero|flushToZero), word)
	MOVL(word, changed)
	LDMXCSR(changed)
}

// accumulateFloat32AVX512 adds to blocks of height rows their products with panels of 32 columns. Each height has code of
// its own.
//
// The block's results stay in registers, two vectors of 16 columns for a row, while k runs; each continues its chain:
//
//	sum = from[r·fromStride + j]
//	sum = fma(x[r·rowStep + i·kStep], w[i][j], sum),  i = 0, 1, …, k-1
//	y[r][j] = max(floor, sum)
//
// from is y where products are added to a result, and a bias, with a stride of zero, where a chain begins.
func accumulateFloat32AVX512() {
	kernel{"accumulateFloat32AVX512", "accumulateFloat32Generic", "float32", floats, false}.write(maxRows,
		"Steps and strides are in bytes, wStep and fromStep from panel to panel. Sums begin at what is at from. floor is what results are at least.",
		"mask has a bit for each column of a panel that exists.")
}

// floats multiplies one k.
func floats(rows int, weights []Mem, at func(row int) Mem, sum func(row, j int) reg.VecPhysical, free []reg.VecPhysical) {
	w, repeated := free[:len(weights)], free[len(weights):]
	for j, m := range weights {
		VMOVUPS(m, w[j])
	}
	for r := range rows {
		x := repeated[r%len(repeated)]
		VBROADCASTSS(at(r), x)
		for j := range weights {
			VFMADD231PS(w[j], x, sum(r, j))
		}
	}
}

// block holds the addresses of the elements of a block, of which every third row has a register.
type block struct {
	rows           int
	rowStep, kStep reg.GPVirtual
	first          reg.GPVirtual   // element of row 0 and k = 0
	row            []reg.GPVirtual // of rows 0, 3, 6, 9 at k
}

func newBlock(rows int) block {
	b := block{rows: rows, rowStep: asm.Int("rowStep"), kStep: asm.Int("kStep"), first: GP64()}
	for range (rows + 2) / 3 {
		b.row = append(b.row, GP64())
	}
	return b
}

func (b block) label(name string) string { return fmt.Sprintf("%s%d", name, b.rows) }

// start sets the addresses to those of k = 0.
func (b block) start() {
	MOVQ(b.first, b.row[0])
	for i := 1; i < len(b.row); i++ {
		LEAQ(Mem{Base: b.row[i-1], Index: b.rowStep, Scale: 2}, b.row[i])
		ADDQ(b.rowStep, b.row[i])
	}
}

// at addresses the element of a row.
func (b block) at(row int) Mem {
	mem := Mem{Base: b.row[row/3]}
	if row%3 > 0 {
		mem.Index, mem.Scale = b.rowStep, uint8(row%3)
	}
	return mem
}

// advance moves the addresses to the next step.
func (b block) advance() {
	for _, r := range b.row {
		ADDQ(b.kStep, r)
	}
}

// next moves to the block that follows.
func (b block) next() {
	for range b.rows {
		ADDQ(b.rowStep, b.first)
	}
}

type product512 struct {
	block
	kernel
	from Mem               // address of what the sums of the block begin at
	free []reg.VecPhysical // not sums
}

func (m product512) sum(row, j int) reg.VecPhysical { return asm.Z[row*vectors+j] }

func (m product512) generate() {
	w, y, blocks, k := GP64(), GP64(), GP64(), GP64()
	columns := GP32()
	MOVL(asm.Addr("mask"), columns)
	KMOVW(columns, reg.K1)
	SHRL(Imm(16), columns)
	KMOVW(columns, reg.K2)

	Label(m.label("panel"))
	MOVQ(asm.Addr("x"), m.first)
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("blocks"), blocks)
	beginAt(m.from)

	Label(m.label("block"))
	m.start()
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("k"), k)
	m.results(m.from, "fromStride", func(v reg.VecPhysical, exists reg.Register, at Mem) { VMOVUPS_Z(at, exists, v) })
	m.steps(w, k)
	floor := m.free[0]
	VBROADCASTSS(asm.Addr("floor"), floor)
	m.results(y, "yStride", func(v reg.VecPhysical, exists reg.Register, at Mem) {
		VMAXPS(v, floor, v) // in this order it keeps NaN
		VMOVUPS(v, exists, at)
	})
	for range m.rows {
		ADDQ(asm.Addr("yStride"), y)
	}
	nextFrom(m.from, m.rows)
	m.next()
	DECQ(blocks)
	JNZ(LabelRef(m.label("block")))

	step := GP64()
	MOVQ(asm.Addr("wStep"), step)
	ADDQ(step, asm.Addr("w"))
	MOVQ(asm.Addr("fromStep"), step)
	ADDQ(step, asm.Addr("from"))
	ADDQ(U32(4*panel), asm.Addr("y"))
	DECQ(asm.Addr("panels"))
	JNZ(LabelRef(m.label("panel")))
}

// beginAt has the blocks of a panel begin their sums at what is at from. It is kept on the stack: registers are few.
func beginAt(at Mem) {
	from := GP64()
	MOVQ(asm.Addr("from"), from)
	MOVQ(from, at)
}

// nextFrom moves to where the sums of the block that follows begin.
func nextFrom(at Mem, rows int) {
	stride := GP64()
	MOVQ(asm.Addr("fromStride"), stride)
	for range rows {
		ADDQ(stride, at)
	}
}

// results moves the results of the block between registers and memory whose address is given.
func (m product512) results(first Op, strideName string, move func(v reg.VecPhysical, exists reg.Register, at Mem)) {
	row, stride := GP64(), GP64()
	MOVQ(first, row)
	MOVQ(asm.Addr(strideName), stride)
	exists := []reg.Register{reg.K1, reg.K2}
	for r := range m.rows {
		for j := range vectors {
			move(m.sum(r, j), exists[j], Mem{Base: row, Disp: 64 * j})
		}
		if r < m.rows-1 {
			ADDQ(stride, row)
		}
	}
}

// steps runs through k, four at a time, then one by one.
func (m product512) steps(w, k reg.GPVirtual) {
	turn := func(steps int) {
		for step := range steps {
			m.products(w, step)
			m.advance()
		}
		ADDQ(U32(4*panel*steps), w)
		SUBQ(U32(steps), k)
	}
	SUBQ(U32(unroll), k)
	JLT(LabelRef(m.label("rest")))
	Label(m.label("turn"))
	turn(unroll)
	JGE(LabelRef(m.label("turn")))
	Label(m.label("rest"))
	ADDQ(U32(unroll), k)
	JZ(LabelRef(m.label("finish")))
	Label(m.label("single"))
	turn(1)
	JNZ(LabelRef(m.label("single")))
	Label(m.label("finish"))
}

// products adds the products of a step.
func (m product512) products(w reg.GPVirtual, step int) {
	var at []Mem
	for j := range vectors {
		at = append(at, Mem{Base: w, Disp: step*4*panel + 64*j})
		PREFETCHT0(at[j].Offset(ahead))
	}
	m.kernel.step(m.rows, at, m.at, m.sum, m.free)
}
