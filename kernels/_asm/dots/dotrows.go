package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// chosen16 computes the sums of 16 rows of a table that ids choose:
//
//	sums[j] = Σ_d a[d]·table[ids[j]][d], 64 bytes of each row at a time
//
// Where the rows start is kept on the stack, since there are more of them than registers.
type chosen16 struct {
	ids, table, stride reg.GPVirtual // stride: bytes from row to row
	offsets            Mem           // 16 words: bytes from the table to the rows
}

func newChosen16() *chosen16 {
	return &chosen16{ids: asm.Int("ids"), table: asm.Int("table"), stride: asm.Int("stride"), offsets: AllocLocal(16 * 4)}
}

// place computes where the rows of ids start.
func (c *chosen16) place(ids reg.VecVirtual) {
	strides, offsets := ZMM(), ZMM()
	VPBROADCASTD(c.stride.As32(), strides)
	VPMULLD(strides, ids, offsets)
	VMOVDQU32(offsets, c.offsets)
}

// each calls body with the memory of each row at byte d.
func (c *chosen16) each(d reg.GPVirtual, body func(j int, m Mem)) {
	column := GP64()
	LEAQ(Mem{Base: c.table, Index: d, Scale: 1}, column)
	for j := range 16 {
		offset := GP64()
		MOVL(c.offsets.Offset(4*j), offset.As32())
		body(j, Mem{Base: column, Index: offset, Scale: 1})
	}
}

// zeros returns n registers of zeros.
func zeros(n int) []reg.VecVirtual {
	var v []reg.VecVirtual
	for range n {
		v = append(v, asm.AVX512.Zero()[0])
	}
	return v
}

// mask returns the mask of the first n lanes, all of them if n >= 16.
func mask(n reg.GPVirtual) reg.OpmaskVirtual {
	bits, count, k := GP32(), GP64(), K()
	MOVQ(U32(16), count)
	CMPQ(n, count)
	CMOVQLT(n, count)
	MOVL(U32(0xffffffff), bits)
	BZHIL(count.As32(), bits, bits)
	KMOVW(bits, k)
	return k
}

// gather loads 32 bits at base + 4·ids for the lanes of the mask. (A gather clears its mask, so it works on a copy.)
func gather(base reg.Register, ids reg.VecVirtual, lanes reg.OpmaskVirtual) reg.VecVirtual {
	k, v := K(), asm.AVX512.Zero()[0]
	KMOVW(lanes, k)
	VPGATHERDD(Mem{Base: base, Index: ids, Scale: 4}, k, v)
	return v
}

// groups generates a loop over n ids, 16 at a time: body computes the result of a group.
func (c *chosen16) groups(body func(lanes reg.OpmaskVirtual, ids reg.VecVirtual) reg.VecVirtual) {
	n, y := asm.Int("n"), asm.Int("y")
	Label("group")
	lanes, ids := mask(n), ZMM()
	VMOVDQU32_Z(Mem{Base: c.ids}, lanes, ids) // row 0 stands in for those that are missing of a last group
	c.place(ids)
	VMOVUPS(body(lanes, ids), lanes, Mem{Base: y})
	ADDQ(U32(64), y)
	ADDQ(U32(64), c.ids)
	SUBQ(U32(16), n)
	JG(LabelRef("group"))
	VZEROUPPER()
	RET()
}

// dotRowsInt8AVX512 computes y = float(Σ a·row + correction)·(aScale·scale) + bias.
func dotRowsInt8AVX512() {
	asm.Kernel("dotRowsInt8AVX512", "func(y *float32, a *uint8, aScale float32, table *int8, stride int, ids, corrections *int32, scales, bias *float32, n int)",
		"dotRowsInt8AVX512 computes dotRowsInt8Generic for n >= 1 ids. stride is a multiple of 64. The elements of ids, corrections, scales and bias",
		"are a multiple of 16. The table has less than 4 GiB.")
	c := newChosen16()
	a, at := asm.Int("a"), GP64()
	XORQ(at, at)
	c.groups(func(reg.OpmaskVirtual, reg.VecVirtual) reg.VecVirtual {
		sums := zeros(16)
		c.bytes(a, sums)
		v, scales := asm.SumEach(VPADDD, sums)[0], ZMM()
		VPADDD(Mem{Base: asm.Int("corrections"), Index: at, Scale: 1}, v, v)
		VCVTDQ2PS(v, v)
		VMOVUPS(Mem{Base: asm.Int("scales"), Index: at, Scale: 1}, scales)
		VMULPS_BCST(asm.Addr("aScale"), scales, scales)
		VMULPS(scales, v, v)
		VADDPS(Mem{Base: asm.Int("bias"), Index: at, Scale: 1}, v, v)
		ADDQ(U32(64), at)
		return v
	})
}

// bytes adds the products of a with 16 rows, 128 bytes at a time, then 64.
func (c *chosen16) bytes(a reg.GPVirtual, sums []reg.VecVirtual) {
	d, end := GP64(), GP64()
	XORQ(d, d)
	LEAQ(Mem{Base: c.stride, Disp: -64}, end)
	for _, step := range []int{128, 64} {
		loop, done := asm.Unique("bytes"), asm.Unique("done")
		if step == 64 {
			ADDQ(U32(64), end)
		}
		CMPQ(d, end)
		JGE(LabelRef(done))
		Label(loop)
		var activations []reg.VecVirtual
		for at := 0; at < step; at += 64 {
			activations = append(activations, ZMM())
			VMOVDQU32(Mem{Base: a, Index: d, Scale: 1, Disp: at}, activations[at/64])
		}
		c.each(d, func(j int, m Mem) {
			for i, v := range activations {
				VPDPBUSD(m.Offset(64*i), v, sums[j])
			}
		})
		ADDQ(U32(step), d)
		CMPQ(d, end)
		JLT(LabelRef(loop))
		Label(done)
	}
}

// dotRowsFloat32AVX512 computes y = Σ x·row + bias with striped sums.
func dotRowsFloat32AVX512() {
	asm.Kernel("dotRowsFloat32AVX512", "func(y, x, table *float32, stride int, ids *int32, n int, bias *float32)",
		"dotRowsFloat32AVX512 computes dotRowsFloat32Generic for n >= 1 ids. stride is in bytes: 4 times the elements of a row, of which there is one at least. bias may be nil.",
		"The table has less than 4 GiB.")
	c := newChosen16()
	x := asm.Int("x")
	c.groups(func(lanes reg.OpmaskVirtual, ids reg.VecVirtual) reg.VecVirtual {
		sums := zeros(16)
		dots(c.stride, x, sums, c.each)
		return addBias(asm.SumEach(VADDPS, sums)[0], ids, lanes)
	})
}

// addBias adds the elements of the bias that ids choose, if there is one.
func addBias(result, ids reg.VecVirtual, lanes reg.OpmaskVirtual) reg.VecVirtual {
	noBias := asm.Unique("noBias")
	bias, biases := asm.Int("bias"), asm.AVX512.Zero()[0]
	TESTQ(bias, bias)
	JZ(LabelRef(noBias))
	VMOVAPS(gather(bias, ids, lanes), biases)
	Label(noBias)
	VADDPS(biases, result, result) // zero too: it makes 0 of -0
	return result
}

// dotRowsBFloat16AVX512 is dotRowsFloat32AVX512 for a table of bfloat16, which are widened as they are read.
func dotRowsBFloat16AVX512() {
	asm.Kernel("dotRowsBFloat16AVX512", "func(y, x *float32, table *uint16, stride int, ids *int32, n, k int, bias *float32)",
		"dotRowsBFloat16AVX512 computes dotRowsBFloat16Generic for n >= 1 ids and k >= 1. stride is in bytes: of k elements, padded to a multiple of 16.",
		"bias may be nil. The table has less than 4 GiB.")
	c := newChosen16()
	x, k := asm.Int("x"), asm.Int("k")
	full, odd := GP64(), GP64()
	MOVQ(k, odd)
	ANDQ(Imm(15), odd)
	rest := mask(odd)
	MOVQ(k, full)
	ANDQ(I8(-16), full)
	ADDQ(full, full) // bytes
	c.groups(func(lanes reg.OpmaskVirtual, ids reg.VecVirtual) reg.VecVirtual {
		sums, d, elements := zeros(16), GP64(), ZMM()
		widened := func(m Mem) reg.VecVirtual {
			weights := ZMM()
			VPMOVZXWD(m, weights)
			VPSLLD(Imm(16), weights, weights)
			return weights
		}
		loop, tail, done := asm.Unique("loop"), asm.Unique("tail"), asm.Unique("done")
		XORQ(d, d) // bytes of a row of the table, half as many as those of x
		CMPQ(d, full)
		JGE(LabelRef(tail))
		Label(loop)
		VMOVUPS(Mem{Base: x, Index: d, Scale: 2}, elements)
		c.each(d, func(j int, m Mem) { VFMADD231PS(widened(m), elements, sums[j]) })
		ADDQ(Imm(32), d)
		CMPQ(d, full)
		JLT(LabelRef(loop))
		Label(tail)
		TESTQ(odd, odd)
		JZ(LabelRef(done))
		VMOVUPS_Z(Mem{Base: x, Index: d, Scale: 2}, rest, elements)
		c.each(d, func(j int, m Mem) { VFMADD231PS(widened(m), elements, rest, sums[j]) })
		Label(done)
		return addBias(asm.SumEach(VADDPS, sums)[0], ids, lanes)
	})
}

// dots adds to each of the sums the product of x with a row, 16 elements at a time: bytes of x in all.
func dots(bytes reg.GPVirtual, x reg.Register, sums []reg.VecVirtual, each func(d reg.GPVirtual, body func(j int, m Mem))) {
	loop, tail, done := asm.Unique("loop"), asm.Unique("tail"), asm.Unique("done")
	d, full := GP64(), GP64()
	MOVQ(bytes, full)
	ANDQ(I8(-64), full)
	XORQ(d, d)
	CMPQ(d, full)
	JGE(LabelRef(tail))
	Label(loop)
	elements := ZMM()
	VMOVUPS(Mem{Base: x, Index: d, Scale: 1}, elements)
	each(d, func(j int, m Mem) { VFMADD231PS(m, elements, sums[j]) })
	ADDQ(U32(64), d)
	CMPQ(d, full)
	JLT(LabelRef(loop))
	Label(tail)
	rest := GP64()
	MOVQ(bytes, rest)
	SUBQ(full, rest)
	JZ(LabelRef(done))
	SHRQ(Imm(2), rest)
	k := mask(rest)
	VMOVUPS_Z(Mem{Base: x, Index: d, Scale: 1}, k, elements)
	each(d, func(j int, m Mem) { VFMADD231PS(m, elements, k, sums[j]) })
	Label(done)
}
