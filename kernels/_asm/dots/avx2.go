package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// rows256 generates a loop over the rows that ids choose, several at a time, then one by one.
type rows256 struct {
	base, ids, stride reg.GPVirtual
	row               []reg.GPVirtual
	// ahead is how many lines of each row are fetched while the group before it is computed: few rows at a time, which lie anywhere in a table
	// that the second-level cache does not hold, would not keep the memory busy.
	ahead int
}

// loop calls body with the addresses of as many rows as each of the sizes says, in row. body stores their results at the
// address of parameter y.
func (c *rows256) loop(body func(), sizes ...int) {
	c.base, c.ids, c.stride = asm.Int("base"), asm.Int("ids"), asm.Int("stride")
	for _, rows := range sizes {
		group, next := asm.Unique("group"), asm.Unique("next")
		Label(group)
		CMPQ(asm.Addr("n"), U32(rows))
		JLT(LabelRef(next))
		if c.ahead > 0 && rows == sizes[0] {
			c.fetch(rows)
		}
		c.row = nil
		for j := range rows {
			c.row = append(c.row, c.address(j))
		}
		body()
		ADDQ(U32(4*rows), c.ids)
		ADDQ(U32(4*rows), asm.Addr("y"))
		SUBQ(U32(rows), asm.Addr("n"))
		JMP(LabelRef(group))
		Label(next)
	}
	VZEROUPPER()
	RET()
}

// address computes the address of the row that the j-th of the ids that are left chooses.
func (c *rows256) address(j int) reg.GPVirtual {
	address := GP64()
	MOVLQSX(Mem{Base: c.ids, Disp: 4 * j}, address)
	IMULQ(c.stride, address)
	ADDQ(c.base, address)
	return address
}

// fetch asks for the rows after the next ones, if there are as many.
func (c *rows256) fetch(rows int) {
	done := asm.Unique("fetched")
	CMPQ(asm.Addr("n"), U32(2*rows))
	JLT(LabelRef(done))
	for j := range rows {
		address := c.address(rows + j)
		for line := range c.ahead {
			PREFETCHT0(Mem{Base: address, Disp: 64 * line})
		}
	}
	Label(done)
}

// dotsInt8AVX2 sums the products of a row of activations with chosen rows, 32 bytes at a time.
//
// VPMADDUBSW multiplies unsigned bytes with signed ones and adds two neighbours in 16 bits, where 255·127·2 does not fit. The
// magnitude of q = a - 128 is at most 128, so it fits if the weight takes the sign:
//
//	q·w = |q|·w            where q is not negative
//	q·w = |q|·(^w) + |q|   where it is, since -w is ^w + 1
//
// The last |q| are the same for all rows: their sums start at them.
func dotsInt8AVX2() {
	asm.Kernel("dotsInt8AVX2", "func(y *int32, a *uint8, base *int8, ids *int32, stride, n int)",
		"dotsInt8AVX2 stores Σ (a-128)·row for the rows that start ids[i]·stride bytes from base. Rows have stride bytes, a multiple of 32.")
	a, d, stride := asm.Int("a"), GP64(), asm.Int("stride")
	ones, start, signed, zero := YMM(), YMM(), YMM(), YMM()
	VPCMPEQW(ones, ones, ones)
	VPABSB(ones, signed)
	VPSLLW(Imm(7), signed, signed) // 0x80 in each byte
	VPSRLW(Imm(15), ones, ones)
	VPXOR(zero, zero, zero)
	VPXOR(start, start, start)
	// take splits the next activations into magnitudes and ones where they are negative.
	take := func() (magnitudes, negative reg.VecVirtual) {
		magnitudes, negative = YMM(), YMM()
		VPXOR(Mem{Base: a, Index: d, Scale: 1}, signed, magnitudes)
		VPCMPGTB(magnitudes, zero, negative)
		VPABSB(magnitudes, magnitudes)
		return magnitudes, negative
	}
	each := func(name string, body func()) {
		loop := asm.Unique(name)
		XORQ(d, d)
		Label(loop)
		body()
		ADDQ(Imm(32), d)
		CMPQ(d, stride)
		JLT(LabelRef(loop))
	}
	each("negative", func() {
		magnitudes, negative := take()
		VPAND(negative, magnitudes, magnitudes)
		VPSADBW(zero, magnitudes, magnitudes)
		VPADDD(magnitudes, start, start)
	})
	c := &rows256{ahead: 4}
	c.loop(func() {
		var sums []reg.VecVirtual
		for range c.row {
			sums = append(sums, YMM())
		}
		for _, s := range sums {
			VMOVDQA(start, s)
		}
		each("bytes", func() {
			magnitudes, negative := take()
			for i, row := range c.row {
				weights := YMM()
				VPXOR(Mem{Base: row, Index: d, Scale: 1}, negative, weights)
				VPMADDUBSW(weights, magnitudes, weights)
				VPMADDWD(ones, weights, weights)
				VPADDD(weights, sums[i], sums[i])
			}
		})
		for len(sums) >= 4 {
			VPHADDD(sums[1], sums[0], sums[0])
			VPHADDD(sums[3], sums[2], sums[2])
			VPHADDD(sums[2], sums[0], sums[0]) // one row in each lane, in both halves
			storeRows(4, len(c.row)-len(sums), sums[0])
			sums = sums[4:]
		}
		for range sums {
			VPHADDD(sums[0], sums[0], sums[0])
			VPHADDD(sums[0], sums[0], sums[0])
			storeRows(1, 0, sums[0])
		}
	}, 8, 4, 1)
}

// finishDotsAVX2 turns the sums of products with chosen rows into results.
func finishDotsAVX2() {
	asm.Kernel("finishDotsAVX2", "func(y *float32, corrections *int32, scales, bias *float32, n int, aScale float32)",
		"finishDotsAVX2 computes y = float(sum + correction)·(aScale·scale) + bias for the n sums of 32 bits that are in y. corrections may be nil.")
	isa := asm.AVX2
	y, corrections, scales, bias := asm.Int("y"), asm.Int("corrections"), asm.Int("scales"), asm.Int("bias")
	row, aScale := isa.NewRow(asm.Int("n")), isa.Splat(asm.Addr("aScale"))
	finish := func(correct bool) {
		row.Each(func(b asm.Block) {
			v := b.Load(y)
			if correct {
				for i, correction := range b.Load(corrections) {
					VPADDD(correction, v[i], v[i])
				}
			}
			for i := range v {
				VCVTDQ2PS(v[i], v[i])
			}
			v = isa.Mul(v, isa.Mul(b.Load(scales), aScale))
			b.Store(isa.Add(v, b.Load(bias)), y)
		})
		VZEROUPPER()
		RET()
	}
	TESTQ(corrections, corrections)
	JZ(LabelRef("corrected"))
	finish(true)
	Label("corrected")
	finish(false)
}

// storeRows stores for each row, from one of the group on, the lane of the lower half added to that of the upper.
func storeRows(rows, from int, v reg.VecVirtual) {
	high, y := XMM(), asm.Int("y")
	VEXTRACTF128(Imm(1), v, high)
	VPADDD(high, v.AsX(), high)
	if rows == 1 {
		VMOVSS(high, Mem{Base: y, Disp: 4 * from})
		return
	}
	VMOVUPS(high, Mem{Base: y, Disp: 4 * from})
}

// dotsFloat32AVX2 computes striped dot products, FMA within each stripe, with chosen rows.
func dotsFloat32AVX2() {
	asm.Kernel("dotsFloat32AVX2", "func(y, x, base *float32, ids *int32, stride, n, k int)",
		"dotsFloat32AVX2 stores dotGeneric of x and the rows of k >= 1 elements that start ids[i]·stride bytes from base.")
	striped256(func(b asm.Block, sum, x asm.V, row reg.GPVirtual) { b.FMA(sum, x, row) })
}

// dotsBFloat16AVX2 is dotsFloat32AVX2 for rows of bfloat16, which are widened as they are read.
func dotsBFloat16AVX2() {
	asm.Kernel("dotsBFloat16AVX2", "func(y, x *float32, base *uint16, ids *int32, stride, n, k int)",
		"dotsBFloat16AVX2 stores dotGeneric of x and the rows of k >= 1 bfloat16, padded to a multiple of 16, that start ids[i]·stride bytes from base.")
	striped256(func(b asm.Block, sum, x asm.V, row reg.GPVirtual) {
		weights := asm.AVX2.New()
		for i := range weights {
			VPMOVZXWD(Mem{Base: row, Index: b.Index(), Scale: 2, Disp: 16 * i}, weights[i])
			VPSLLD(Imm(16), weights[i], weights[i])
		}
		b.FMAOf(sum, x, weights)
	})
}

// striped256 generates the body of striped dot products with chosen rows. add adds to a sum the product of a block of x with that of a row.
func striped256(add func(b asm.Block, sum, x asm.V, row reg.GPVirtual)) {
	isa := asm.AVX2
	x, k := asm.Int("x"), asm.Int("k")
	elements := isa.NewRow(k)
	c := &rows256{}
	c.loop(func() {
		var sums []asm.V
		for range c.row {
			sums = append(sums, isa.Zero())
		}
		elements.Each(func(b asm.Block) {
			v := b.Load(x)
			for i, row := range c.row {
				add(b, sums[i], v, row)
			}
		})
		if len(sums) == 1 {
			y := asm.Int("y")
			VMOVSS(isa.Sum(sums[0]), Mem{Base: y})
			return
		}
		y := asm.Int("y")
		VMOVUPS(sumFour(sums), Mem{Base: y})
	}, 4, 1)
}

// sumFour sums the stripes of four V in the fixed tree, one in each lane of the result.
func sumFour(v []asm.V) reg.VecVirtual {
	var four []reg.VecVirtual // 4 stripes each
	for _, s := range v {
		high := XMM()
		VADDPS(s[1], s[0], s[0])
		VEXTRACTF128(Imm(1), s[0], high)
		VADDPS(high, s[0].AsX(), high)
		four = append(four, high)
	}
	for i := 0; i < 4; i += 2 {
		high := XMM()
		VUNPCKHPD(four[i+1], four[i], high)
		VUNPCKLPD(four[i+1], four[i], four[i])
		VADDPS(high, four[i], four[i])
	}
	odd := XMM()
	VSHUFPS(Imm(0xdd), four[2], four[0], odd)
	VSHUFPS(Imm(0x88), four[2], four[0], four[0])
	VADDPS(odd, four[0], four[0])
	return four[0]
}
