// Package product generates products of quantised matrices, as loops around one instruction or a few that multiply.
//
// A step multiplies four bytes of each row of activations (four k of bytes, or two of words), which are repeated over a
// register, with four bytes of each of the 32 columns of a panel.
package product

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

const (
	panel     = 32        // columns of a panel
	stepBytes = 4 * panel // weights of a panel for a step
	unroll    = 4         // steps of a turn of the loop
	ahead     = 4 << 10   // distance in bytes at which weights are prefetched
)

// MultiplyAdd adds the products of weights and activations to a register of sums. It may use the register free. For GenerateDouble512,
// which has none to spare in the last turn, weights may be in memory, and free is nil then; else they are in a register.
type MultiplyAdd func(weights Op, activations, sum, free reg.VecPhysical)

// Kernel is a function to generate.
type Kernel struct {
	// Name is its name, Doc what it computes.
	Name, Doc string
	// Activation and Weight are the types of the elements.
	Activation, Weight string
	// StepBytes is how many bytes of a row a step takes: 4 unless set.
	StepBytes int
	// Corrections is set if sums start at those of a parameter, not at zero.
	Corrections bool
	// Float is set for float32: sums are results, which nothing scales, and are one chain each; there may be any number of steps.
	// GenerateDouble512 alone knows it.
	Float bool
	// Unfetched is set for blocks of few rows whose weights the processor has to fetch by itself. Generate512 alone knows it.
	Unfetched bool
	// Bytes is set for results that are rounded to bytes straight away, as activations of the next product. GenerateDouble512 alone knows it.
	Bytes bool
	// MultiplyAdd is what the loops are for.
	MultiplyAdd MultiplyAdd
	// Step, if set, replaces the MultiplyAdds of a step.
	Step Step
}

// Step adds the products of rows, whose bytes at a step are where at says, with weights. It may use the registers free,
// which are two more than the weights, and four at least.
type Step func(rows int, weights []Mem, at func(row int) Mem, sum func(row, j int) reg.VecPhysical, free []reg.VecPhysical)

func (k Kernel) start(rows int) {
	asm.Kernel(k.Name, k.signature("height int", "blocks int, ", "panels int, floor float32, mask uint32"),
		fmt.Sprintf("%s computes blocks of height (1 to %d) rows of %s for panels of 32 columns.", k.Name, rows, k.Doc),
		"steps counts groups of 4 bytes of weights along k, a multiple of 4; strides and biasStep are in bytes.",
		"mask has a bit for each column of a panel that exists. floor is what results are at least.")
}

func (k Kernel) startDouble(rows int) {
	steps := "steps counts groups of 4 bytes of weights along k, a multiple of 4"
	if k.Float {
		steps = "steps is k, at least 1"
	}
	last, floor := "pairs int, floor float32", "floor is what results are at least."
	if k.Bytes {
		last, floor = last+", multiplier float32", "floor is what results are at least, before they are multiplied with multiplier and rounded to bytes."
	}
	asm.Kernel(k.Name, k.signature("height, higher, lower int", "", last),
		fmt.Sprintf("%s computes rows of %s for pairs of panels of 32 columns, which all exist: first some blocks of one row more than height,", k.Name, k.Doc),
		fmt.Sprintf("if any, then lower ones, one at least, of height (1 to %d) rows. No block has more than %d.", rows, rows),
		steps+"; strides and biasStep, from a pair to the next, are in bytes.", floor)
}

// signature is that of a kernel whose heights are some parameters, with a number of blocks if that is not among them, and some last parameters.
func (k Kernel) signature(heights, blocks, last string) string {
	aScales, scales := "aScales *float32, ", "scales *float32, "
	if k.Float {
		aScales, scales = "", ""
	}
	if k.Corrections {
		scales = "corrections *int32, " + scales
	}
	result := "float32"
	if k.Bytes {
		result = "uint8"
	}
	return fmt.Sprintf("func(%s, a *%s, aStride int, %s%sw *%s, steps int, %sbias *float32, biasStep int, y *%s, yStride int, %s)",
		heights, k.Activation, aScales, blocks, k.Weight, scales, result, last)
}

// dispatch jumps to the code of a height, and writes that code for each of them.
func dispatch(maxRows int, generate func(rows int)) {
	jumpToRows(asm.Int("height"), maxRows)
	eachRows(maxRows, generate)
}

// jumpToRows jumps to the code of a height. That of the greatest follows.
func jumpToRows(height reg.GPVirtual, maxRows int) {
	for rows := 1; rows < maxRows; rows++ {
		CMPQ(height, U32(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
}

// eachRows writes the code of each height, the greatest first.
func eachRows(maxRows int, generate func(rows int)) {
	for rows := maxRows; rows > 0; rows-- {
		Label(fmt.Sprintf("rows%d", rows))
		generate(rows)
	}
}

// block holds the addresses of the rows of a block, of which every third has a register.
type block struct {
	Kernel
	rows   int
	stride reg.GPVirtual
	row    []reg.GPVirtual // of rows 0, 3, 6, 9
}

func newBlock(k Kernel, rows int) block {
	if k.StepBytes == 0 {
		k.StepBytes = 4
	}
	b := block{Kernel: k, rows: rows, stride: asm.Int("aStride")}
	for range (rows + 2) / 3 {
		b.row = append(b.row, GP64())
	}
	return b
}

func (b block) label(name string) string { return fmt.Sprintf("%s%d", name, b.rows) }

// at addresses the bytes of a row at a step of the current turn.
func (b block) at(row, step int) Mem {
	mem := Mem{Base: b.row[row/3], Disp: b.StepBytes * step}
	if row%3 > 0 {
		mem.Index, mem.Scale = b.stride, uint8(row%3)
	}
	return mem
}

// address computes the other addresses from that of row 0.
func (b block) address() {
	for i := 1; i < len(b.row); i++ {
		LEAQ(Mem{Base: b.row[i-1], Index: b.stride, Scale: 2}, b.row[i])
		ADDQ(b.stride, b.row[i])
	}
}

// multiply runs through the steps, from the weights at w on.
func (b block) multiply(w, k reg.GPVirtual, step func(step int)) {
	MOVQ(asm.Addr("w"), w)
	MOVQ(asm.Addr("steps"), k)
	Label(b.label("steps"))
	for i := range unroll {
		step(i)
	}
	ADDQ(U32(unroll*stepBytes), w)
	for _, r := range b.row {
		ADDQ(Imm(uint64(b.StepBytes*unroll)), r)
	}
	SUBQ(Imm(unroll), k)
	JNZ(LabelRef(b.label("steps")))
}

// next moves the address of row 0 from the end of its row to the start of the block that follows.
func (b block) next() {
	last, bytes := len(b.row)-1, GP64()
	if last > 0 {
		MOVQ(b.row[last], b.row[0])
	}
	MOVQ(asm.Addr("steps"), bytes)
	IMUL3Q(U32(b.StepBytes), bytes, bytes)
	SUBQ(bytes, b.row[0])
	for range b.rows - 3*last {
		ADDQ(b.stride, b.row[0])
	}
}

// advance steps over columns in the parameters that hold one number for each.
func (b block) advance(columns int, parameters ...string) {
	if b.Corrections {
		parameters = append(parameters, "corrections")
	}
	for _, parameter := range parameters {
		ADDQ(U32(4*columns), asm.Addr(parameter))
	}
}
