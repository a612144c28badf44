package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// accumulateBFloat16 generates the products of bfloat16, of which two along k lie together:
//
//	y[r][j] = fma(x[r][2s], w[2s][j], fma(x[r][2s+1], w[2s+1][j], y[r][j])),  s = 0, 1, …
//
// The odd one comes first, and denormals are zero, because that is what VDPBF16PS does. Without it, the two are unpacked to
// float32, as whose upper halves they are defined.
func accumulateBFloat16() {
	const reference = "accumulateBFloat16Generic"
	kernel{"accumulateBFloat16BF16", reference, "uint16", pairs, false}.write(maxRows, "See accumulateFloat32AVX512; k counts pairs.")
	kernel{"accumulateBFloat16AVX512", reference, "uint16", unpacked512, true}.write(maxRows, "See accumulateFloat32AVX512; k counts pairs.")
	kernel{"accumulateBFloat16AVX2", reference, "uint16", unpacked256, true}.write(maxRows256, "See accumulateFloat32AVX512; k counts pairs.")
}

// pairs multiplies two k with VDPBF16PS.
func pairs(rows int, weights []Mem, at func(row int) Mem, sum func(row, j int) reg.VecPhysical, free []reg.VecPhysical) {
	w, repeated := free[:len(weights)], free[len(weights):]
	for j, m := range weights {
		VMOVUPS(m, w[j])
	}
	for r := range rows {
		x := repeated[r%len(repeated)]
		VBROADCASTSS(at(r), x)
		for j := range weights {
			asm.VDPBF16PS(w[j], x, sum(r, j))
		}
	}
}

// unpacked512 multiplies two k, one after the other for all rows.
func unpacked512(rows int, weights []Mem, at func(row int) Mem, sum func(row, j int) reg.VecPhysical, free []reg.VecPhysical) {
	w, x := free[:len(weights)], free[len(weights)]
	for _, odd := range []bool{true, false} {
		for j, m := range weights {
			VMOVDQU32(m, w[j])
			unpack512(odd, w[j])
		}
		for r := range rows {
			VPBROADCASTD(at(r), x)
			unpack512(odd, x)
			for j := range weights {
				VFMADD231PS(w[j], x, sum(r, j))
			}
		}
	}
}

func unpack512(odd bool, v reg.VecPhysical) {
	if odd {
		VPANDD_BCST(asm.Bits(0xffff0000).Mem(), v, v)
		return
	}
	VPSLLD(Imm(16), v, v)
}

// unpacked256 is unpacked512 for AVX2.
func unpacked256(rows int, weights []Mem, at func(row int) Mem, sum func(row, j int) reg.VecPhysical, free []reg.VecPhysical) {
	w, x := free[:len(weights)], free[len(weights)]
	for _, odd := range []bool{true, false} {
		for j, m := range weights {
			VMOVDQU(m, w[j])
			unpack256(odd, w[j])
		}
		for r := range rows {
			VPBROADCASTD(at(r), x)
			unpack256(odd, x)
			for j := range weights {
				VFMADD231PS(w[j], x, sum(r, j))
			}
		}
	}
}

func unpack256(odd bool, v reg.VecPhysical) {
	if odd {
		VPAND(asm.Bits(0xffff0000).Mem(), v, v)
		return
	}
	VPSLLD(Imm(16), v, v)
}
