//go:build (amd64 || arm64) && !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// roundToBFloat16 rounds as many elements as dst has: all but the last ones with assembly.
func roundToBFloat16(dst []uint16, x []float32) {
	if cpu.Active() != cpu.Generic {
		for whole := len(dst) &^ 15; whole > 0; {
			n := min(whole, callElements)
			roundBFloat16Call(dst, x, n)
			dst, x, whole = dst[n:], x[n:], whole-n
		}
	}
	roundToBFloat16Generic(dst, x)
}

// packBFloat16 packs a panel: all but an odd row with assembly, if it has all columns.
func packBFloat16(panel []uint16, b []float32, stride, k, columns int) {
	if cpu.Active() == cpu.Generic || columns < bfloat16Panel {
		packBFloat16Generic(panel, b, stride, k, columns)
		return
	}
	const most = callElements / (2 * bfloat16Panel) // pairs of a call
	for pair := 0; pair < k/2; pair += most {
		packBFloat16Call(panel[pair*bfloat16Panel*2:], b[2*pair*stride:], stride, min(most, k/2-pair))
	}
	if k%2 == 1 {
		packBFloat16Generic(panel[(k-1)*bfloat16Panel:], b[(k-1)*stride:], stride, 1, columns)
	}
}

// What is transposed with assembly is rounded first, to a tile that stays in the first-level cache: pairs of elements are words of 32 bits then, and
// blocks of eight by eight words are transposed as they are.
const (
	wordBlock  = 8
	tileWords  = 64 * bfloat16Panel
	tilePairs  = tileWords / bfloat16Panel // of a panel
	tileLength = 2 * tileWords / wordBlock // elements of each of eight rows
)

// packBFloat16Transposed packs rows as columns of a panel: eight of them at a time with assembly, but for what their length is beyond a multiple of 16.
func packBFloat16Transposed(panel []uint16, b []float32, stride, k, columns int) {
	whole, length := columns&^(wordBlock-1), k&^15
	if cpu.Active() == cpu.Generic || whole == 0 || length == 0 {
		packBFloat16TransposedGeneric(panel, b, stride, k, columns)
		return
	}
	var tile [2 * tileWords]uint16
	for first := 0; first < whole; first += wordBlock {
		for from := 0; from < length; from += tileLength {
			n := min(tileLength, length-from)
			for j := range wordBlock {
				roundToBFloat16(tile[j*tileLength:][:n], b[(first+j)*stride+from:])
			}
			transposeWords(panel[from*bfloat16Panel+2*first:], 2*bfloat16Panel, 2*wordBlock*bfloat16Panel, tile[:], tileLength, 2*wordBlock, n/(2*wordBlock))
		}
	}
	if k > length {
		packBFloat16TransposedGeneric(panel[length*bfloat16Panel:], b[length:], stride, k-length, whole)
	}
	if columns > whole {
		packBFloat16TransposedGeneric(panel[2*whole:], b[whole*stride:], stride, k, columns-whole)
	}
}

// toBFloat16Transposed rounds columns to rows: 32 of them at a time with assembly, but for what their length is beyond a multiple of 16.
func toBFloat16Transposed(dst []uint16, stride int, x []float32, xStride, rows, k int) {
	whole, length := rows&^(bfloat16Panel-1), k&^15
	if cpu.Active() == cpu.Generic || whole == 0 || length == 0 {
		toBFloat16TransposedGeneric(dst, stride, x, xStride, rows, k)
		return
	}
	var tile [2 * tileWords]uint16
	for first := 0; first < whole; first += bfloat16Panel {
		for from := 0; from < length; from += 2 * tilePairs {
			pairs := min(tilePairs, (length-from)/2)
			packBFloat16Call(tile[:], x[from*xStride+first:], xStride, pairs)
			for j := 0; j < bfloat16Panel; j += wordBlock {
				transposeWords(dst[(first+j)*stride+from:], stride, 2*wordBlock, tile[2*j:], 2*bfloat16Panel, 2*wordBlock*bfloat16Panel, pairs/wordBlock)
			}
		}
	}
	if k > length {
		toBFloat16TransposedGeneric(dst[length:], stride, x[length*xStride:], xStride, whole, k-length)
	}
	if rows > whole {
		toBFloat16TransposedGeneric(dst[whole*stride:], stride, x[whole:], xStride, rows-whole, k)
	}
}
