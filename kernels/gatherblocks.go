//go:build (amd64 || arm64) && !purego

package kernels

// gatherPanels fills whole panels by assembly, the rest in Go.
func gatherPanels(w *Int8Matrix, t *Int8Rows, ids []int32) {
	whole := 0
	if w.steps > 0 && gathersPanels(t) {
		for ; whole+int8Panel <= len(ids); whole += int8Panel {
			gatherPanel(w, t, ids[whole:], whole)
		}
	}
	gatherColumns(w, t, ids[whole:], whole)
}
