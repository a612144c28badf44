//go:build (!amd64 && !arm64) || purego

package kernels

func gatherPanels(w *Int8Matrix, t *Int8Rows, ids []int32) { gatherColumns(w, t, ids, 0) }

func pick(dst, src []float32, places []int32) (bad bool) { return pickGeneric(dst, src, places) }
