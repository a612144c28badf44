package kernels

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// Where the result may be an input, every input is tried as the result.
func TestResultMayBeAnInput(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		for _, kernel := range []struct {
			name   string
			inputs int // that the result may be; the slices follow the result
			run    func(s [7][]float32)
		}{
			{"Add", 2, func(s [7][]float32) { Add(s[0], s[1], s[2]) }},
			{"Scale", 1, func(s [7][]float32) { Scale(s[0], s[1], 1.3) }},
			{"SSRU", 2, func(s [7][]float32) { SSRU(s[3], s[0], s[1], s[2]) }},
			{"SRU", 4, func(s [7][]float32) { SRU(s[5], s[0], s[1], s[2], s[3], s[4]) }},
			{"GatedSum", 4, func(s [7][]float32) { GatedSum(s[0], s[1], s[2], s[3], s[4]) }},
			{"Highway", 3, func(s [7][]float32) { Highway(s[0], s[1], s[2], s[3]) }},
			{"LayerNorm", 2, func(s [7][]float32) { LayerNorm(s[0], s[1], s[2], s[3], s[4], 1, len(s[0]), 1e-6) }},
			{"RMSNorm", 2, func(s [7][]float32) { RMSNorm(s[0], s[1], s[2], s[3], 1, len(s[0]), 1e-6) }},
		} {
			for _, n := range []int{1, 5, 16, 37, 130, 256} {
				r := source(uint64(n))
				var content [7][]float32
				for i := range content {
					content[i] = normals(r, n)
				}
				copied := func() (s [7][]float32) {
					for i := range s {
						s[i] = slices.Clone(content[i])
					}
					return s
				}
				apart := copied()
				kernel.run(apart)
				for input := 1; input <= kernel.inputs; input++ {
					s := copied()
					s[0] = s[input]
					kernel.run(s)
					if !slices.Equal(s[0], apart[0]) {
						t.Errorf("%s of %d elements into its input %d gives another result", kernel.name, n, input)
					}
				}
			}
		}
	})
}

// Activations may start at any byte, and results at any element.
func TestSlicesNeedNoAlignment(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(1)
		const rows, k, n = 5, 100, 70
		w, table := PackInt8(k, n, int8s(r, k*n), normals(r, n)), PackInt8Rows(n, k, int8s(r, k*n), normals(r, n))
		words, wf := PackInt16(k, n, int16s(r, k*n, 300), normals(r, n)), PackFloat32(k, n, normals(r, k*n))
		a, aScales, x := uint8s(r, rows*Int8Stride(k)), normals(r, rows), normals(r, rows*k)
		a16, ids := int16s(r, rows*Int16Stride(k), 300), []int32{3, 1, 4, 1, 5, 69, 0}
		for shift := range 17 {
			agree(t, fmt.Sprintf("%d elements off", shift), func(g *arena) []float32 {
				off := guard(g, append(make([]uint8, shift), a...))[shift:]
				scales, y := guard(g, append(make([]float32, shift), aScales...))[shift:], guard(g, make([]float32, rows*n+shift))[shift:]
				MulInt8(y, n, off, scales, rows, w, nil, None)
				result := slices.Clone(y)
				DotRowsInt8(y, off, scales[0], choose(table, ids, nil))
				result = append(result, y[:len(ids)]...)
				MulInt16(y, n, guard(g, append(make([]int16, shift), a16...))[shift:], scales, rows, words, nil, None)
				result = append(result, y...)
				off32 := guard(g, append(make([]float32, shift), x...))[shift:]
				MulFloat32(y, n, off32, k, rows, wf, nil, None)
				AccumulateFloat32(y, n, off32, k, rows, wf)
				result = append(result, y...)
				LayerNorm(off32, off32, nil, guard(g, x[:k]), nil, rows, k, 1e-6)
				return append(result, off32...)
			})
		}
	})
}
