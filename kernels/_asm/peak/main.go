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

	int8Bursts()
	int16Bursts()
	float32Burst(asm.AVX512, 24)
	float32Burst(asm.AVX2, 12)
	bfloat16Burst()
	read(asm.AVX512)
	read(asm.AVX2)
	Generate()
}

// burst generates a kernel that does the same in each turn, on registers that are all zeros.
func burst(name, does string, registers []reg.VecPhysical, zero func(v reg.VecPhysical), turn func()) {
	asm.Kernel(name, "func(turns int)", name+" does "+does+" in each turn.")
	turns := asm.Int("turns")
	for _, v := range registers {
		zero(v)
	}
	Label("turn")
	turn()
	DECQ(turns)
	JNZ(LabelRef("turn"))
	VZEROUPPER()
	RET()
}

func zeroZ(v reg.VecPhysical) { VPXORD(v, v, v) }

func zeroY(v reg.VecPhysical) { VPXOR(v, v, v) }

// int8Bursts generates what the products of bytes do. 24 sums are what the products with AVX-512 have; 4 registers each are for the operands.
func int8Bursts() {
	burst("int8BurstAVX512", "24 independent VPDPBUSD of 64 bytes", asm.Z, zeroZ, func() {
		for i := range 24 {
			VPDPBUSD(asm.Z[24+i%4], asm.Z[28+i%4], asm.Z[i])
		}
	})
	burst("int8BurstAVX2", "12 times, independently, what mulInt8ChainsAVX2 does for a chain of four steps of 32 bytes,", asm.Y, zeroY, func() {
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
	})
}

// int16Bursts generates what the products of words do. The last two registers are the operands, those before them have room for products that
// are not added yet.
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
		zero        func(v reg.VecPhysical)
		multiplyAdd func(a, b, sum, part reg.VecPhysical)
	}{
		{"AVX512VNNI", "VPDPWSSD of 32 words", asm.Z[:28], zeroZ, dotProduct},
		{"AVX512", "VPMADDWD and VPADDD of 32 words", asm.Z[:28], zeroZ, pairs},
		{"AVXVNNI", "VPDPWSSD of 16 words", asm.Y[:16], zeroY, func(a, b, sum, _ reg.VecPhysical) { asm.VexVPDPWSSD(a, b, sum) }},
		{"AVX2", "VPMADDWD and VPADDD of 16 words", asm.Y[:16], zeroY, pairs},
	} {
		sums := len(c.registers) - operands - free
		burst("int16Burst"+c.isa, fmt.Sprintf("%d independent %s", sums, c.does), c.registers, c.zero, func() {
			for i := range sums {
				c.multiplyAdd(c.registers[sums+free], c.registers[sums+free+1], c.registers[i], c.registers[sums+i%free])
			}
		})
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
	burst(name, fmt.Sprintf("%d independent VFMADD231PS", sums), registers, func(v reg.VecPhysical) { VXORPS(v, v, v) }, func() {
		for i := range sums {
			VFMADD231PS(registers[len(registers)-1], registers[len(registers)-2], registers[i])
		}
	})
}

// bfloat16Burst generates products of pairs of bfloat16. Where products do without VDPBF16PS, they do what those of float32 do.
func bfloat16Burst() {
	burst("bfloat16BurstBF16", "24 independent VDPBF16PS of 32 bfloat16", asm.Z, zeroZ, func() {
		for i := range 24 {
			asm.VDPBF16PS(asm.Z[24+i%4], asm.Z[28+i%4], asm.Z[i])
		}
	})
}
