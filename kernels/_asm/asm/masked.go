package asm

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Lanes moves the lanes of 256-bit registers that exist: all eight, or those of a mask.
type Lanes struct {
	mask reg.Register // nil if all eight exist
}

// WithLanes emits code twice: once for when bits first to first + 7 of a word are all set, and once for when they are not. On some
// processors moves under a mask are slow, stores above all. mask is a register for them.
func WithLanes(word Mem, first int, mask reg.Register, code func(Lanes)) {
	part, done, missing := Unique("part"), Unique("done"), GP32()
	MOVL(word, missing)
	NOTL(missing)
	TESTL(U32(0xff<<first), missing)
	JNZ(LabelRef(part))
	code(Lanes{})
	JMP(LabelRef(done))
	Label(part)
	LanesOfBits(word, first, mask)
	code(Lanes{mask})
	Label(done)
}

// Load loads the lanes that exist, zeros into the others.
func (l Lanes) Load(m Mem, v reg.Register) {
	if l.mask == nil {
		VMOVUPS(m, v)
		return
	}
	VMASKMOVPS(m, l.mask, v)
}

// Store stores the lanes that exist.
func (l Lanes) Store(v reg.Register, m Mem) {
	if l.mask == nil {
		VMOVUPS(v, m)
		return
	}
	VMASKMOVPS(v, l.mask, m)
}
