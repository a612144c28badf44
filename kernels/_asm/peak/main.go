// Command peak generates the loops that measure what a core can do at most.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

func main() {
	ConstraintExpr("!purego")

	// 24 sums are what the products have; 4 registers each for the operands, which all stay zero.
	asm.Kernel("int8BurstAVX512", "func(turns int)", "int8BurstAVX512 does 24 independent VPDPBUSD of 64 bytes in each turn.")
	turns := asm.Int("turns")
	for _, z := range asm.Z {
		VPXORD(z, z, z)
	}
	Label("turn")
	for i := range 24 {
		VPDPBUSD(asm.Z[24+i%4], asm.Z[28+i%4], asm.Z[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()

	asm.Kernel("int8BurstAVX2", "func(turns int)", "int8BurstAVX2 does 12 independent times in each turn what mulInt8ChainsAVX2 does for a chain of four steps of 32 bytes.")
	turns = asm.Int("turns")
	for _, y := range asm.Y {
		VPXOR(y, y, y)
	}
	Label("turn")
	for i := range 12 {
		sum, part := asm.Y[12], asm.Y[13]
		VPMADDUBSW(asm.Y[14], asm.Y[15], sum)
		for range 3 {
			VPMADDUBSW(asm.Y[14], asm.Y[15], part)
			VPADDW(part, sum, sum)
		}
		VPMADDWD(asm.Y[14], sum, sum)
		VPADDD(sum, asm.Y[i], asm.Y[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
	float32Burst(asm.AVX512, 24)
	float32Burst(asm.AVX2, 12)
	read(asm.AVX512)
	read(asm.AVX2)
	Generate()
}

// read generates loads that nothing waits for, a line after the other.
func read(isa asm.ISA) {
	name := "read" + isa.String()
	asm.Kernel(name, "func(p *int8, lines int)", name+" loads lines of 64 bytes, a multiple of 8 of them.")
	p, lines := asm.Int("p"), asm.Int("lines")
	Label("turn")
	for line := range 8 {
		isa.Load(Mem{Base: p, Disp: 64 * line})
	}
	ADDQ(U32(8*64), p)
	SUBQ(Imm(8), lines)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}

// float32Burst generates independent fused multiply-adds of zeros. The last two registers are the operands.
func float32Burst(isa asm.ISA, sums int) {
	name, registers := "float32Burst"+isa.String(), asm.Y
	if isa == asm.AVX512 {
		registers = asm.Z
	}
	asm.Kernel(name, "func(turns int)", fmt.Sprintf("%s does %d independent VFMADD231PS in each turn.", name, sums))
	turns := asm.Int("turns")
	for _, v := range registers {
		VXORPS(v, v, v)
	}
	Label("turn")
	for i := range sums {
		VFMADD231PS(registers[len(registers)-1], registers[len(registers)-2], registers[i])
	}
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}
