// Command peak generates the loops that measure what a core can do at most.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

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
	int16Bursts()
	float32Burst(asm.AVX512, 24)
	float32Burst(asm.AVX2, 12)
	read(asm.AVX512)
	read(asm.AVX2)
	Generate()
}

// int16Bursts generates what the products of words do, on zeros. The last two registers are the operands, those before them have room for
// products that are not added yet.
func int16Bursts() {
	const operands, free = 2, 2
	dotProduct := func(a, b, sum, _ reg.VecPhysical) { VPDPWSSD(a, b, sum) }
	pairs := func(a, b, sum, part reg.VecPhysical) {
		VPMADDWD(a, b, part)
		VPADDD(part, sum, sum)
	}
	for _, c := range []struct {
		isa, does   string
		registers   []reg.VecPhysical
		multiplyAdd func(a, b, sum, part reg.VecPhysical)
	}{
		{"AVX512VNNI", "VPDPWSSD of 32 words", asm.Z[:28], dotProduct},
		{"AVX512", "VPMADDWD and VPADDD of 32 words", asm.Z[:28], pairs},
		{"AVXVNNI", "VPDPWSSD of 16 words", asm.Y[:16], func(a, b, sum, _ reg.VecPhysical) { asm.VexVPDPWSSD(a, b, sum) }},
		{"AVX2", "VPMADDWD and VPADDD of 16 words", asm.Y[:16], pairs},
	} {
		name, sums := "int16Burst"+c.isa, len(c.registers)-operands-free
		asm.Kernel(name, "func(turns int)", fmt.Sprintf("%s does %d independent %s in each turn.", name, sums, c.does))
		turns := asm.Int("turns")
		for _, v := range c.registers {
			if c.isa[:4] == "AVX5" {
				VPXORD(v, v, v)
			} else {
				VPXOR(v, v, v)
			}
		}
		Label("turn")
		for i := range sums {
			c.multiplyAdd(c.registers[sums+free], c.registers[sums+free+1], c.registers[i], c.registers[sums+i%free])
		}
		DECQ(turns)
		JNZ(LabelRef("turn"))
		VZEROUPPER()
		RET()
	}
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
