package asm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// VDPBF16PS adds to the 16 sums of a 512-bit register the products of two bfloat16 of a with two of w:
// EVEX.512.F3.0F38.W0 52 /r, which neither avo nor Go's assembler knows.
//
//	62  P0 = R X B R' 0 mmm   P1 = W vvvv 1 pp   P2 = z L'L b V' aaa  opcode  ModRM     R, X, B, R', vvvv and V' inverted
func VDPBF16PS(w, a, sum reg.VecPhysical) {
	rm, vvvv, r := uint32(w.ID().Index()), uint32(a.ID().Index()), uint32(sum.ID().Index())
	const map0F38, prefixF3, bits512 = 2, 2, 2 << 5
	inverted := func(register uint32, bit int) uint32 { return ^register >> bit & 1 }
	p0 := inverted(r, 3)<<7 | inverted(rm, 4)<<6 | inverted(rm, 3)<<5 | inverted(r, 4)<<4 | map0F38
	p1 := (^vvvv&15)<<3 | 1<<2 | prefixF3
	p2 := bits512 | inverted(vvvv, 4)<<3
	Comment(fmt.Sprintf("VDPBF16PS %s, %s, %s", w.Asm(), a.Asm(), sum.Asm()))
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(0x62 | p0<<8 | p1<<16 | p2<<24)}, Inputs: []Op{w, a, sum}, Outputs: []Op{sum}})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(0x52 | (3<<6|r&7<<3|rm&7)<<8)}})
}
