package kernels

import (
	"fmt"
	"math"
	"math/bits"
)

// MaxChosen returns the largest of the chosen elements of x, and whether all of them are finite. Bit i%64 of chosen[i/64] says whether
// x[i] is chosen; bits of elements that x does not have panic. Where nothing is chosen, the largest is -MaxFloat32. Where something
// that is chosen is not finite, it can be anything.
func MaxChosen(x []float32, chosen []uint64) (largest float32, finite bool) {
	words := (len(x) + 63) / 64
	need(len(chosen), words, "words of chosen elements")
	if rest := len(x) % 64; rest > 0 && chosen[words-1]>>rest != 0 {
		panic(fmt.Sprintf("kernels: an element after the %d that there are is chosen", len(x)))
	}
	largest, magnitude := maxChosen(x, chosen[:words])
	return largest, magnitude < infinityBits
}

// infinityBits are the bits of infinity. Those of NaN, without the sign, are a larger number.
const infinityBits = 0x7f800000

// maxChosenGeneric returns the largest chosen element and the largest magnitude of one, in bits.
func maxChosenGeneric(x []float32, chosen []uint64) (largest float32, magnitude uint32) {
	largest = -math.MaxFloat32
	for i, word := range chosen {
		for ; word != 0; word &= word - 1 {
			v := x[i*64+bits.TrailingZeros64(word)]
			largest = max(largest, v)
			magnitude = max(magnitude, math.Float32bits(v)&^(1<<31))
		}
	}
	return largest, magnitude
}
