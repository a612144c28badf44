package kernels

import "github.com/sluice-mt/sluice/internal/hugepage"

const (
	sparseStrip     = 64 // columns that are multiplied together at least
	sparseWide      = 4  // strips that are multiplied together where registers have room for them
	sparseMultipleK = 64 // what k is a multiple of: activations are looked at so many at a time
	// maxSparseK bounds the inner dimension: lists of that length are on the stack.
	maxSparseK = 4 << 10
	// sparsePad is how much longer than k the lists of a row are.
	sparsePad = 64
)

// int8Sparse are the weights of an Int8Matrix once more, for activations of which many are zeros: what a ReLU lets pass, of which four
// fifths are nothing in the encoders of students.
//
// A product then lists the activations that are something, row by row, and multiplies the rows of the matrix which they are for. The
// weights lie in these rows, columns in an order that depends on the kernel.
type int8Sparse struct {
	weights []int8 // [k][stride]
	stride  int
	share   nonzeroShare // for which lists pay, 0 if a rule has to say: see Tuning
}

// packInt8Sparse packs k×n row-major weights, nil if the kernels are not made for the shape.
func packInt8Sparse(k, n int, weights []int8) *int8Sparse {
	if k == 0 || n == 0 || k%sparseMultipleK != 0 || n%sparseStrip != 0 || k > maxSparseK {
		return nil
	}
	s := &int8Sparse{weights: hugepage.Make[int8](k * n), stride: n}
	for i := range k {
		for j, q := range weights[i*n : (i+1)*n] {
			s.weights[i*n+sparsePlace(j)] = q
		}
	}
	return s
}

// listInt8Generic lists the places of a row of activations that are something, and in values what they are. No activation may be negative. The
// lists have room for sparsePad more than the row, and end with four zeros that are not counted.
func listInt8Generic(ks []uint16, values, a []uint8) (n int) {
	for i, v := range a {
		ks[n], values[n] = uint16(i), v-int8Zero
		if v != int8Zero {
			n++
		}
	}
	clear(ks[n : n+4])
	clear(values[n : n+4])
	return n
}

// countInt8Generic counts the activations that are something. It reports false if there is one below zero.
func countInt8Generic(a []uint8) (nonzero int, ok bool) {
	for _, v := range a {
		if v < int8Zero {
			return 0, false
		}
		if v != int8Zero {
			nonzero++
		}
	}
	return nonzero, true
}

// columns returns those from first to end, nil if the kernels are not made for so many. They share the memory of all.
func (s *int8Sparse) columns(first, end int) *int8Sparse {
	if first%sparseStrip != 0 || (end-first)%sparseStrip != 0 || first == end {
		return nil
	}
	part := *s
	part.weights = s.weights[first : len(s.weights)-s.stride+end]
	return &part
}

// nonzeroShare is which share of activations may be something, in thousandths, for lists of them to pay.
type nonzeroShare int

// pays reports whether a product should go by lists, given how many of all activations are something.
func (share nonzeroShare) pays(nonzero, all int) bool { return 1000*nonzero <= int(share)*all }
