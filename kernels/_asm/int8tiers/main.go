// Command int8tiers generates the products of quantised matrices for processors that have half of what the usual ones
// have: AVX-VNNI without AVX-512, and AVX-512 without VNNI.
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
	mulInt8AVXVNNI()
	dotsInt8AVXVNNI()
	mulInt8AVX512BW()
	bursts()
	Generate()
}

const (
	panel     = 32        // columns of a panel
	stepBytes = 4 * panel // weights of a panel for four k
	unroll    = 4         // steps of a turn of the loop: k is a multiple of 16
	ahead     = 4 << 10   // distance in bytes at which weights are prefetched
)

// dispatch jumps to the code of a height, and writes that code for each of them.
func dispatch(maxRows int, generate func(rows int)) {
	height := asm.Int("height")
	for rows := 1; rows < maxRows; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := maxRows; rows > 0; rows-- {
		Label(fmt.Sprintf("rows%d", rows))
		generate(rows)
	}
}

// block holds the addresses of the rows of a block, of which every third has a register.
type block struct {
	rows   int
	stride reg.GPVirtual
	row    []reg.GPVirtual // of rows 0, 3, 6, 9
}

func newBlock(rows int) block {
	b := block{rows: rows, stride: asm.Int("aStride")}
	for range (rows + 2) / 3 {
		b.row = append(b.row, GP64())
	}
	return b
}

// at addresses the four bytes of a row at a step of the current turn.
func (b block) at(row, step int) Mem {
	mem := Mem{Base: b.row[row/3], Disp: 4 * step}
	if row%3 > 0 {
		mem.Index, mem.Scale = b.stride, uint8(row%3)
	}
	return mem
}

// start computes the other addresses from that of row 0.
func (b block) start() {
	for i := 1; i < len(b.row); i++ {
		LEAQ(Mem{Base: b.row[i-1], Index: b.stride, Scale: 2}, b.row[i])
		ADDQ(b.stride, b.row[i])
	}
}

// turn steps over the bytes of a turn.
func (b block) turn() {
	for _, r := range b.row {
		ADDQ(Imm(4*unroll), r)
	}
}

// next moves the address of row 0 from the end of its row to the start of the block that follows.
func (b block) next() {
	last, bytes := len(b.row)-1, GP64()
	if last > 0 {
		MOVQ(b.row[last], b.row[0])
	}
	MOVQ(asm.Addr("steps"), bytes)
	SHLQ(Imm(2), bytes)
	SUBQ(bytes, b.row[0])
	for range b.rows - 3*last {
		ADDQ(b.stride, b.row[0])
	}
}
