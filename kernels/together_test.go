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
	x := normals(r, rows*k)
	for _, count := range []int{0, 1, 7, 500} { // the last take more than a large page
		var matrices []Matrix
		var before [][]float32
		product := func(m Matrix) []float32 {
			y := make([]float32, rows*n)
			if w, ok := m.(*Int8Matrix); ok {
				MulInt8(y, n, a8, scales, rows, w, nil, None)
			} else {
				MulFloat32(y, n, x, k, rows, m.(*Float32Matrix), nil, None)
			}
			return y
		}
		for i := range count {
			switch i % 3 {
			case 0:
				matrices = append(matrices, PackInt8(k, n, int8s(r, k*n), normals(r, n)))
			case 1:
				matrices = append(matrices, PackInt8(k, n, trained(r, k*n, 20), normals(r, n)))
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
	if w, ok := m.(*Int8Matrix); ok {
		return uintptr(unsafe.Pointer(&(*w.weights())[0]))
	}
	return uintptr(unsafe.Pointer(&m.(*Float32Matrix).panels[0]))
}
