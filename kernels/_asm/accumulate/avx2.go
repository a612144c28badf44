package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	strip      = 16 // columns that AVX2 does at a time: half a panel
	maxRows256 = 6  // most rows whose sums fit the registers
)

// accumulateFloat32AVX2 is accumulateFloat32AVX512 with 16 columns at a time, in two registers.
func accumulateFloat32AVX2() {
	kernel{"accumulateFloat32AVX2", "accumulateFloat32Generic", "float32", floats, false}.write(maxRows256, "See accumulateFloat32AVX512.")
}

type product256 struct {
	block
	kernel
	from Mem // address of what the sums of the block begin at
}

func (m product256) sum(row, half int) reg.VecPhysical { return asm.Y[2*row+half] }

func (m product256) generate() {
	strips, y, blocks, w, k := GP64(), GP64(), GP64(), GP64(), GP64()

	Label(m.label("panel"))
	MOVQ(U32(panel/strip), strips)
	Label(m.label("strip"))
	MOVQ(asm.Addr("x"), m.first)
	MOVQ(asm.Addr("y"), y)
	MOVQ(asm.Addr("blocks"), blocks)
	beginAt(m.from)

	Label(m.label("block"))
	m.start()
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("k"), k)
	m.results(m.from, "fromStride", func(l asm.Lanes, v reg.VecPhysical, at Mem) { l.Load(at, v) })
	Label(m.label("step"))
	m.kernel.step(m.rows, []Mem{{Base: w}, {Base: w, Disp: 32}}, m.at, m.sum, asm.Y[12:])
	m.advance()
	ADDQ(U32(4*panel), w)
	DECQ(k)
	JNZ(LabelRef(m.label("step")))
	floor := asm.Y[13]
	VBROADCASTSS(asm.Addr("floor"), floor)
	m.results(y, "yStride", func(l asm.Lanes, v reg.VecPhysical, at Mem) {
		VMAXPS(v, floor, v) // in this order it keeps NaN
		l.Store(v, at)
	})
	for range m.rows {
		ADDQ(asm.Addr("yStride"), y)
	}
	nextFrom(m.from, m.rows)
	m.next()
	DECQ(blocks)
	JNZ(LabelRef(m.label("block")))
	for _, advance := range []string{"w", "from", "y"} {
		ADDQ(U32(4*strip), asm.Addr(advance))
	}
	RORL(Imm(strip), asm.Addr("mask"))
	DECQ(strips)
	JNZ(LabelRef(m.label("strip")))
	for _, advance := range []string{"w", "from"} { // on from where its panel ends
		step := GP64()
		MOVQ(asm.Addr(advance+"Step"), step)
		SUBQ(U32(4*panel), step)
		ADDQ(step, asm.Addr(advance))
	}
	DECQ(asm.Addr("panels"))
	JNZ(LabelRef(m.label("panel")))
}

// results moves the results of the block between registers and memory whose address is given.
func (m product256) results(first Op, strideName string, move func(l asm.Lanes, v reg.VecPhysical, at Mem)) {
	row, stride, exists := GP64(), GP64(), asm.Y[12]
	MOVQ(asm.Addr(strideName), stride)
	for half := range 2 {
		MOVQ(first, row)
		asm.WithLanes(asm.Addr("mask"), 8*half, exists, func(lanes asm.Lanes) {
			for r := range m.rows {
				move(lanes, m.sum(r, half), Mem{Base: row, Disp: 32 * half})
				if r < m.rows-1 {
					ADDQ(stride, row)
				}
			}
		})
	}
}
