//go:build (amd64 || arm64) && !purego

package kernels

import "math"

// callBytes bounds the bytes of weights that a call of assembly reads: few rows take as long as these, and from memory a core may
// read no more than 10 GB in a second. From four rows on, callWork allows no more anyway.
const callBytes = 1 << 20

// partsPerCall returns how many panels, or other parts of some weights of a size in bytes, to multiply with rows in one call that
// does at most so many multiply-accumulates.
func partsPerCall(work, rows, weights, size int) int {
	return max(1, min(work/(rows*weights), callBytes/(weights*size)))
}

// panelColumns is the width of the panels of both kinds of matrix.
const panelColumns = 32

// blocks is how rows are cut into blocks of nearly equal height: the first ones, up to row split, are one row higher.
type blocks struct{ height, higher, lower, split int }

func cutBlocks(rows, limit int) blocks {
	n := (rows + limit - 1) / limit
	b := blocks{height: rows / n, higher: rows % n}
	b.lower, b.split = n-b.higher, b.higher*(b.height+1)
	return b
}

// evenPart returns the size of the next part if n are cut into nearly equal parts of at most limit.
func evenPart(n, limit int) int {
	parts := (n + limit - 1) / limit
	return (n + parts - 1) / parts
}

// nextPanels returns how many panels to multiply in one call, at most limit, from the given one on, and which of their
// columns exist. An incomplete last panel goes alone.
func nextPanels(panel, limit, columns int) (n int, mask uint32) {
	return nextParts(panel, limit, columns, panelColumns)
}

// nextParts is nextPanels for parts of any width up to 32, and for wider ones if all of their columns exist.
func nextParts(part, limit, columns, width int) (n int, mask uint32) {
	whole, rest := columns/width, columns%width
	if part < whole {
		return min(limit, whole-part), 1<<width - 1
	}
	return 1, 1<<rest - 1
}

// noBias is the bias of every pair of panels of a matrix without one.
var noBias [2 * panelColumns]float32

// panelBias returns the bias from a column on, and the bytes from a panel to the next.
func panelBias(bias []float32, column int) (first *float32, step int) {
	return partBias(bias, column, panelColumns)
}

// partBias is panelBias for parts of any width up to 64.
func partBias(bias []float32, column, width int) (first *float32, step int) {
	if bias == nil {
		return &noBias[0], 0
	}
	return &bias[column], 4 * width
}

// floorOf returns what the results of a product are at least.
func floorOf(act Activation) float32 {
	if act == Rectified {
		return 0
	}
	return float32(math.Inf(-1))
}
