//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// gathersPanels says whether there is assembly for a table.
func gathersPanels(*Int8Rows) bool { return cpu.Active() != cpu.Generic }

//go:noinline
func gatherPanel(w *Int8Matrix, t *Int8Rows, ids []int32, first int) {
	gatherPanelNEON(&w.panels[first*w.steps*4], &t.rows[0], t.stride, &ids[0], w.steps)
}

// pick is plain Go: NEON loads elements one by one, too.
func pick(dst, src []float32, places []int32) (bad bool) { return pickGeneric(dst, src, places) }
