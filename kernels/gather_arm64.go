//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// gatherPanels fills whole panels by assembly, the rest in Go.
func gatherPanels(w *Int8Matrix, t *Int8Rows, ids []int32) {
	whole := 0
	if cpu.Active() != cpu.Generic && w.steps > 0 {
		for ; whole+int8Panel <= len(ids); whole += int8Panel {
			gatherPanel(w, t, ids[whole:], whole)
		}
	}
	gatherColumns(w, t, ids[whole:], whole)
}

//go:noinline
func gatherPanel(w *Int8Matrix, t *Int8Rows, ids []int32, first int) {
	gatherPanelNEON(&w.panels[first*w.steps*4], &t.rows[0], t.stride, &ids[0], w.steps)
}

// pick is plain Go: NEON loads elements one by one, too.
func pick(dst, src []float32, places []int32) (bad bool) { return pickGeneric(dst, src, places) }
