package asm

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// SumEach sums each of 16 registers of 16 stripes in the fixed tree; lane j of the result is the sum of v[j]. (AVX-512.)
//
// Every level of the tree halves the number of registers: two shuffles bring the halves that belong together under each
// other, and one addition adds them for two registers at once.
//
//	16 → 8: [a | b] holds 8 stripes of two rows        (256-bit halves)
//	8 → 4:  [a | b | c | d], 4 stripes of four rows    (128-bit lanes)
//	4 → 2:  two stripes of two rows in each lane
//	2 → 1:  one sum of four rows in each lane
//
// Lane m of quarter l comes from the m-th of the four registers of the second level, so that register is made of the
// rows m, 4+m, 8+m, 12+m.
func SumEach(add func(...Op), v []reg.VecVirtual) V {
	var quarters []reg.VecVirtual
	for m := range 4 {
		quarters = append(quarters, Quarters(add, v[m], v[4+m], v[8+m], v[12+m]))
	}
	var eighths []reg.VecVirtual
	for m := 0; m < 4; m += 2 {
		low, high := ZMM(), ZMM()
		VUNPCKLPD(quarters[m+1], quarters[m], low)
		VUNPCKHPD(quarters[m+1], quarters[m], high)
		add(high, low, low)
		eighths = append(eighths, low)
	}
	return V{pair(add, func(s uint64, d reg.VecVirtual) { VSHUFPS(Imm(s), eighths[1], eighths[0], d) }, 0x88, 0xdd)}
}

// Quarters is the first two levels of the tree for four registers: 128-bit lane i has the 4 stripes that are left of the i-th.
func Quarters(add func(...Op), a, b, c, d reg.VecVirtual) reg.VecVirtual {
	ab, cd := halves(add, a, b), halves(add, c, d)
	return pair(add, func(s uint64, to reg.VecVirtual) { VSHUFF32X4(Imm(s), cd, ab, to) }, 0x88, 0xdd)
}

// halves returns the upper halves of a and b added to their lower halves: [a | b].
func halves(add func(...Op), a, b reg.VecVirtual) reg.VecVirtual {
	low, high := ZMM(), ZMM()
	VINSERTF64X4(Imm(1), b.AsY(), a, low)
	VSHUFF64X2(Imm(0xee), b, a, high)
	add(high, low, low)
	return low
}

// pair adds the two results of a shuffle with different selections.
func pair(add func(...Op), shuffle func(selection uint64, d reg.VecVirtual), first, second uint64) reg.VecVirtual {
	low, high := ZMM(), ZMM()
	shuffle(first, low)
	shuffle(second, high)
	add(high, low, low)
	return low
}
