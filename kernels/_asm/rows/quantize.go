package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

func quantize(isa asm.ISA) {
	asm.Kernel("quantizeRows"+isa.String(), "func(dst *uint8, stride int, scales *float32, x *float32, rows, k int)",
		"quantizeRows"+isa.String()+" computes quantizeRowsGeneric. rows and k are at least 1.",
		"stride is in bytes, a multiple of 64; the row is written up to a multiple of 16.")
	dst, scales, x, rows := asm.Int("dst"), asm.Int("scales"), asm.Int("x"), asm.Int("rows")
	row := isa.NewRow(asm.Int("k"))
	Label("row")
	quantizeRow(isa, row, absMaximum(isa, row, x), dst, scales, x)
	ADDQ(Imm(4), scales)
	nextQuantized(dst, x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()

	asm.Kernel("quantizeRowsFixed"+isa.String(), "func(dst *uint8, stride int, x *float32, rows, k int, multiplier float32)",
		"quantizeRowsFixed"+isa.String()+" computes quantizeRowsFixedGeneric. rows and k are at least 1.",
		"stride is in bytes, a multiple of 64; the row is written up to a multiple of 16.")
	dst, x, rows = asm.Int("dst"), asm.Int("x"), asm.Int("rows")
	row = isa.NewRow(asm.Int("k"))
	m := isa.Splat(asm.Addr("multiplier"))
	Label("row")
	eachBytes(isa, row, dst, func(b asm.Block) asm.V {
		q := isa.KeepOrdered(isa.Mul(b.Load(x), m))
		return isa.Max(isa.Min(q, asm.F(127)), asm.F(-127))
	})
	nextQuantized(dst, x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// quantizeRow stores the bytes of the row at x, whose largest magnitude is given in lane 0, and its scale.
func quantizeRow(isa asm.ISA, row *asm.Row, scale reg.VecVirtual, dst, scales, x reg.GPVirtual) {
	zeros, scaled, done := asm.Unique("zeros"), asm.Unique("scaled"), asm.Unique("quantized")
	limit, c127, multiplier := XMM(), XMM(), XMM()
	VMOVSS(asm.F(math.MaxFloat32).Mem(), limit)
	VMOVSS(asm.F(127).Mem(), c127)
	VDIVSS(scale, c127, multiplier)
	VUCOMISS(scale, limit)
	JCS(LabelRef(zeros)) // NaN or infinity: stays the scale
	VDIVSS(c127, scale, scale)
	VUCOMISS(multiplier, limit)
	JCC(LabelRef(scaled))
	VXORPS(scale, scale, scale)
	Label(zeros)
	VMOVSS(scale, Mem{Base: scales})
	row.Each(func(b asm.Block) { storeBytes(isa, isa.Zero(), b, dst) })
	JMP(LabelRef(done))
	Label(scaled)
	VMOVSS(scale, Mem{Base: scales})
	m := isa.Splat(multiplier)
	eachBytes(isa, row, dst, func(b asm.Block) asm.V { return isa.Mul(b.Load(x), m) })
	Label(done)
}

// eachBytes generates the loop that stores value(block) of each block of a row.
func eachBytes(isa asm.ISA, row *asm.Row, dst reg.GPVirtual, value func(b asm.Block) asm.V) {
	single := func(b asm.Block) { storeBytes(isa, value(b), b, dst) }
	if isa == asm.AVX2 {
		row.Each(single)
		return
	}
	order := isa.Permutation()
	row.EachFour(func(blocks [4]asm.Block) {
		var v [4]asm.V
		for i, b := range blocks {
			v[i] = value(b)
		}
		bytes := asm.FourBytes(v, order)
		VPXORD_BCST(asm.Bits(0x80808080).Mem(), bytes, bytes)
		VMOVDQU32(bytes, blocks[0].BytesAt(dst))
	}, single)
}

// storeBytes stores the block as round(v) + 128, 16 bytes whether they all exist or not: rows of bytes are padded.
func storeBytes(isa asm.ISA, v asm.V, b asm.Block, dst reg.GPVirtual) {
	bytes := isa.Bytes(v)
	VPXOR(asm.Bits(0x80808080).Mem(), bytes, bytes)
	VMOVDQU(bytes, b.BytesAt(dst))
}

func nextQuantized(dst, x reg.GPVirtual) {
	elements := asm.Int("k")
	LEAQ(Mem{Base: x, Index: elements, Scale: 4}, x)
	ADDQ(asm.Addr("stride"), dst)
}
