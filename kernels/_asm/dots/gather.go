package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/sluice-mt/sluice/kernels/_asm/asm"
)

// gatherPanelAVX512 makes a panel of 32 columns of chosen rows of a table: four weights of each, then the next four.
func gatherPanelAVX512() {
	asm.Kernel("gatherPanelAVX512", "func(panel, table *int8, stride int, ids *int32, steps int)",
		"gatherPanelAVX512 packs 32 rows of a table, of stride bytes each, as a panel of steps times four weights. The table has less than 2 GiB.")
	panel, table, ids, steps := asm.Int("panel"), asm.Int("table"), asm.Int("ids"), asm.Int("steps")
	stride, low, high := ZMM(), ZMM(), ZMM()
	VPBROADCASTD(asm.Addr("stride"), stride)
	VPMULLD(Mem{Base: ids}, stride, low)
	VPMULLD(Mem{Base: ids, Disp: 64}, stride, high)
	all := GP32()
	MOVL(U32(0xffff), all)
	Label("step")
	for half, offsets := range []reg.VecVirtual{low, high} {
		lanes, weights := K(), asm.AVX512.Zero()[0]
		KMOVW(all, lanes)
		VPGATHERDD(Mem{Base: table, Index: offsets, Scale: 1}, lanes, weights)
		VMOVDQU32(weights, Mem{Base: panel, Disp: 64 * half})
	}
	ADDQ(Imm(4), table)
	ADDQ(U32(128), panel)
	DECQ(steps)
	JNZ(LabelRef("step"))
	VZEROUPPER()
	RET()
}

// pick gathers elements that places name. Places are compared with the number of elements as numbers without sign; where one
// is too large nothing is read.
func pick(isa asm.ISA) {
	asm.Kernel("pick"+isa.String(), "func(dst, src *float32, places *int32, n, limit int) int",
		"pick"+isa.String()+" computes pickGeneric for n >= 1 places among limit elements. It returns something other than 0 if a place is not.")
	dst, src, places, bad := asm.Int("dst"), asm.Int("src"), asm.Int("places"), GP32()
	last := GP64()
	MOVQ(asm.Addr("limit"), last)
	DECQ(last)
	limit := isa.New()
	for i := range limit {
		VMOVD(last.As32(), limit[i].AsX())
		VPBROADCASTD(limit[i].AsX(), limit[i])
	}
	XORL(bad, bad)
	isa.NewRow(asm.Int("n")).Each(func(b asm.Block) {
		place := b.Load(places)
		v := isa.Zero()
		if isa == asm.AVX512 {
			beyond, within := K(), K()
			VPCMPUD(Imm(6), limit[0], place[0], beyond)
			KNOTW(beyond, within)
			VGATHERDPS(Mem{Base: src, Index: place[0], Scale: 4}, within, v[0])
			bits := GP32()
			KMOVW(beyond, bits)
			ORL(bits, bad)
		} else {
			for i := range v {
				within, bits := YMM(), GP32()
				VPMINUD(limit[i], place[i], within)
				VPCMPEQD(within, place[i], within)
				VMOVMSKPS(within, bits)
				XORL(Imm(0xff), bits)
				ORL(bits, bad)
				VGATHERDPS(within, Mem{Base: src, Index: place[i], Scale: 4}, v[i])
			}
		}
		b.Store(v, dst)
	})
	wide := GP64()
	MOVL(bad, wide.As32())
	Store(wide, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
