//go:build !purego

package kernels

import (
	"math"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// gathersPanels says whether there is assembly for a table of that size: its places are signed numbers of 32 bits.
func gathersPanels(t *Int8Rows) bool {
	return cpu.Active() == cpu.AVX512 && len(t.rows) <= math.MaxInt32
}

//go:noinline
func gatherPanel(w *Int8Matrix, t *Int8Rows, ids []int32, first int) {
	gatherPanelAVX512(&w.panels[first*w.steps*4], &t.rows[0], t.stride, &ids[0], w.steps)
}

func pick(dst, src []float32, places []int32) (bad bool) {
	level := cpu.Active()
	if level == cpu.Generic || len(places) == 0 || len(src) == 0 || len(src) > math.MaxInt32 {
		return pickGeneric(dst, src, places)
	}
	for len(places) > 0 && !bad {
		n := min(len(places), callElements)
		bad = pickCall(level, dst, src, places[:n])
		dst, places = dst[n:], places[n:]
	}
	return bad
}

//go:noinline
func pickCall(level cpu.Level, dst, src []float32, places []int32) (bad bool) {
	if level == cpu.AVX2 {
		return pickAVX2(&dst[0], &src[0], &places[0], len(places), len(src)) != 0
	}
	return pickAVX512(&dst[0], &src[0], &places[0], len(places), len(src)) != 0
}
