package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// embedInt8 widens 16 elements at a time.
func embedInt8(isa asm.ISA) {
	asm.Kernel("embedInt8"+isa.String(), "func(dst *float32, row *int8, position *float32, n int, factor, scale float32)",
		"embedInt8"+isa.String()+" computes embedInt8Generic for n elements, a multiple of 16 and at least 16.")
	dst, row, position, n := asm.Int("dst"), asm.Int("row"), asm.Int("position"), asm.Int("n")
	factor, scale := isa.Splat(asm.Addr("factor")), isa.Splat(asm.Addr("scale"))
	Label("elements")
	v := isa.New()
	for i := range v {
		VPMOVSXBD(Mem{Base: row, Disp: 8 * i}, v[i])
		VCVTDQ2PS(v[i], v[i])
	}
	isa.Store(isa.Add(isa.Mul(isa.Mul(v, factor), scale), isa.Load(Mem{Base: position})), Mem{Base: dst})
	ADDQ(Imm(16), row)
	ADDQ(Imm(64), dst)
	ADDQ(Imm(64), position)
	SUBQ(Imm(16), n)
	JNZ(LabelRef("elements"))
	VZEROUPPER()
	RET()
}
