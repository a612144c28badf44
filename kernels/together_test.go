package kernels

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// Matrices that were moved together give what they gave before, and lie in one block in their order.
func TestTogether(t *testing.T) { cputest.Each(t, testTogether) }

func testTogether(t *testing.T) {
	r := source(5)
	const rows, k, n = 3, 70, 45
	a8, scales := uint8s(r, rows*Int8Stride(k)), normals(r, rows)
	x, halves := normals(r, rows*k), make([]uint16, rows*BFloat16Stride(k))
	ToBFloat16(halves, x, k, rows, k)
	for _, count := range []int{0, 1, 7, 500} { // the last take more than a large page
		var matrices []Matrix
		var before [][]float32
		product := func(m Matrix) []float32 {
			y := make([]float32, rows*n)
			switch w := m.(type) {
			case *Int8Matrix:
				MulInt8(y, n, a8, scales, rows, w, nil, None)
			case *BFloat16Matrix:
				MulBFloat16(y, n, halves, rows, w, nil, None)
			case *Float32Matrix:
				MulFloat32(y, n, x, k, rows, w, nil, None)
			}
			return y
		}
		for i := range count {
			switch i % 4 {
			case 0:
				matrices = append(matrices, PackInt8(k, n, int8s(r, k*n), normals(r, n)))
			case 1:
				matrices = append(matrices, PackInt8(k, n, trained(r, k*n, 20), normals(r, n)))
			case 2:
				w := new(BFloat16Matrix)
				w.Pack(k, n, normals(r, k*n), n)
				matrices = append(matrices, w)
			default:
				matrices = append(matrices, PackFloat32(k, n, normals(r, k*n)))
			}
			before = append(before, product(matrices[i]))
		}
		matrices = append(matrices, PackInt16(0, 0, nil, nil))
		Together(matrices...)
		last := uintptr(0)
		for i, m := range matrices[:count] {
			if !slices.Equal(product(m), before[i]) {
				t.Fatalf("matrix %d of %d gives another product", i, count)
			}
			at := address(m)
			if at%64 != 0 || i > 0 && at < last {
				t.Fatalf("matrix %d of %d is at %#x, the one before at %#x", i, count, at, last)
			}
			last = at
		}
	}
}

func address(m Matrix) uintptr {
	switch w := m.(type) {
	case *Int8Matrix:
		return uintptr(unsafe.Pointer(&(*w.weights())[0]))
	case *BFloat16Matrix:
		return uintptr(unsafe.Pointer(&w.panels[0]))
	}
	return uintptr(unsafe.Pointer(&m.(*Float32Matrix).panels[0]))
}
