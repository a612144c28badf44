package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// dotsInt8AVXVNNI sums the products of a row of activations with chosen rows: four rows at a time, 64 bytes in a turn, then
// single rows.
func dotsInt8AVXVNNI() {
	asm.Kernel("dotsInt8AVXVNNI", "func(y *int32, a *uint8, base *int8, ids *int32, stride, n int)",
		"dotsInt8AVXVNNI stores Σ a·row for the rows that start ids[i]·stride bytes from base. Rows have stride bytes, a multiple of 64.")
	for _, rows := range []int{4, 1} {
		next := fmt.Sprintf("after%d", rows)
		group := fmt.Sprintf("group%d", rows)
		Label(group)
		CMPQ(asm.Addr("n"), U32(rows))
		JLT(LabelRef(next))
		dotRows(rows)
		for _, advance := range []string{"ids", "y"} {
			ADDQ(U32(4*rows), asm.Addr(advance))
		}
		SUBQ(U32(rows), asm.Addr("n"))
		JMP(LabelRef(group))
		Label(next)
	}
	VZEROUPPER()
	RET()
}

// dotRows stores the sums of the next rows.
func dotRows(rows int) {
	ids, stride, base, a, d, y := asm.Int("ids"), asm.Int("stride"), asm.Int("base"), asm.Int("a"), GP64(), asm.Int("y")
	var row []reg.GPVirtual
	for j := range rows {
		address := GP64()
		MOVLQSX(Mem{Base: ids, Disp: 4 * j}, address)
		IMULQ(stride, address)
		ADDQ(base, address)
		row = append(row, address)
	}
	sums := asm.Y[:2*rows] // two for each row: of the lower and of the upper half of 64 bytes
	for _, s := range sums {
		VPXOR(s, s, s)
	}
	XORQ(d, d)
	loop := asm.Unique("bytes")
	Label(loop)
	activations, weights := asm.Y[12:14], asm.Y[14:16]
	for half := range activations {
		VMOVDQU(Mem{Base: a, Index: d, Scale: 1, Disp: 32 * half}, activations[half])
	}
	for j := range rows {
		for half := range activations {
			VMOVDQU(Mem{Base: row[j], Index: d, Scale: 1, Disp: 32 * half}, weights[half])
			asm.VexVPDPBUSD(weights[half], activations[half], sums[2*j+half])
		}
	}
	ADDQ(U32(64), d)
	CMPQ(d, stride)
	JLT(LabelRef(loop))
	for j := range rows {
		VPADDD(sums[2*j+1], sums[2*j], sums[j]) // sums[j] is free: its own row is j/2
	}
	high := asm.Y[12].AsX()
	for level := rows; level > 1; level /= 2 {
		for j := range level / 2 {
			VPHADDD(sums[2*j+1], sums[2*j], sums[j])
		}
	}
	if rows == 1 {
		VPHADDD(sums[0], sums[0], sums[0])
		VPHADDD(sums[0], sums[0], sums[0])
	}
	VEXTRACTI128(Imm(1), sums[0], high)
	VPADDD(high, sums[0].AsX(), high)
	if rows == 1 {
		VMOVD(high, Mem{Base: y})
		return
	}
	VMOVDQU(high, Mem{Base: y})
}
