package asm

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Tail selects the first lanes of a V: those of a row whose length is not a multiple of 16.
type Tail struct {
	isa  ISA
	k    reg.OpmaskVirtual // AVX-512
	mask V                 // AVX2: all ones in the lanes
}

// Tail prepares the tail for the elements that remain of n after blocks of 16.
func (a ISA) Tail(n reg.GPVirtual) Tail {
	t := Tail{isa: a}
	rest := GP64()
	MOVQ(n, rest)
	ANDQ(Imm(15), rest)
	if a == AVX512 {
		t.k = K()
		mask := GP32()
		MOVL(U32(0xffffffff), mask)
		BZHIL(rest.As32(), mask, mask)
		KMOVW(mask, t.k)
		return t
	}
	table := GP64()
	LEAQ(tailTable(), table)
	NEGQ(rest)
	t.mask = a.Load(Mem{Base: table, Index: rest, Scale: 4, Disp: 64})
	return t
}

var tailTableMem *Mem

// tailTable is 16 words of ones, then 16 of zeros.
func tailTable() Mem {
	if tailTableMem == nil {
		m := GLOBL("tail", RODATA|NOPTR)
		for i := range 32 {
			word := uint32(0)
			if i < 16 {
				word = 0xffffffff
			}
			DATA(4*i, U32(word))
		}
		tailTableMem = &m
	}
	return *tailTableMem
}

// Load loads the lanes of the tail, zeros into the others.
func (t Tail) Load(m Mem) V {
	v := t.isa.New()
	if t.isa == AVX512 {
		VMOVUPS_Z(m, t.k, v[0])
		return v
	}
	for i := range v {
		VMASKMOVPS(m.Offset(32*i), t.mask[i], v[i])
	}
	return v
}

// Store stores the lanes of the tail.
func (t Tail) Store(v V, m Mem) {
	if t.isa == AVX512 {
		VMOVUPS(v[0], t.k, m)
		return
	}
	for i := range v {
		VMASKMOVPS(v[i], t.mask[i], m.Offset(32*i))
	}
}

// Keep returns v with zeros outside of the tail.
func (t Tail) Keep(v V) V {
	if t.isa == AVX512 {
		kept := t.isa.New()
		VMOVAPS_Z(v[0], t.k, kept[0])
		return kept
	}
	return t.isa.And(v, t.mask)
}

// loadOr loads the lanes of the tail, c into the others.
func (t Tail) loadOr(m Mem, c Const) V {
	v := t.isa.Register(c)
	if t.isa == AVX512 {
		VMOVUPS(m, t.k, v[0])
		return v
	}
	loaded := t.Load(m)
	for i := range v {
		VBLENDVPS(t.mask[i], loaded[i], v[i], v[i])
	}
	return v
}

// LanesOfBits sets the lanes of a 256-bit register to ones for which bits first, first + 1, … of a word are set.
func LanesOfBits(word Mem, first int, lanes reg.Register) {
	bit := bitOfLane(first)
	VBROADCASTSS(word, lanes)
	VPAND(bit, lanes, lanes)
	VPCMPEQD(bit, lanes, lanes)
}

// bitOfLane has bit first + i set in lane i.
func bitOfLane(first int) Mem {
	m, ok := bitsOfLanes[first]
	if !ok {
		m = GLOBL(fmt.Sprintf("bit_of_lane_%d", first), RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(1<<(first+i)))
		}
		bitsOfLanes[first] = m
	}
	return m
}

var bitsOfLanes = map[int]Mem{}
