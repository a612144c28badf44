package asm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// VexVPDPBUSD adds to the 8 sums of a register the products of four unsigned bytes of a with four signed bytes of w.
//
// It is VPDPBUSD as processors with AVX-VNNI but without AVX-512 have it, VEX.256.66.0F38.W0 50 /r, as bytes: Go's
// assembler knows its EVEX encoding only.
func VexVPDPBUSD(w, a, sum reg.VecPhysical) { vex(0x50, w, a, sum) }

// VexVPDPWSSD adds to the 8 sums of a register the products of two signed words of a with two of w: VEX.256.66.0F38.W0 52 /r.
func VexVPDPWSSD(w, a, sum reg.VecPhysical) { vex(0x52, w, a, sum) }

// vex writes an instruction of the map 0F38 with prefix 66, on 256-bit registers.
//
//	C4  RXB.mmmmm  W.vvvv.L.pp  opcode  ModRM     R, X, B and vvvv inverted
func vex(opcode byte, rm, vvvv, r reg.VecPhysical) {
	rmID, vvvvID, rID := byte(rm.ID().Index()), byte(vvvv.ID().Index()), byte(r.ID().Index())
	const map0F38, prefix66, bits256 = 2, 1, 1 << 2
	first := uint32(0xc4) |
		uint32(^rID>>3&1<<7|1<<6|^rmID>>3&1<<5|map0F38)<<8 |
		uint32(^vvvvID&15<<3|bits256|prefix66)<<16 |
		uint32(opcode)<<24
	modRM := 3<<6 | rID&7<<3 | rmID&7
	Comment(fmt.Sprintf("VEX 66 0F38 %02x: %s, %s, %s", opcode, rm.Asm(), vvvv.Asm(), r.Asm()))
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(first)}, Inputs: []Op{rm, vvvv, r}, Outputs: []Op{r}})
	Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(modRM)}})
}
