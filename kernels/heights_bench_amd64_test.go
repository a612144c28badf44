//go:build !purego

package kernels

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// BenchmarkHeights multiplies rows with all matrices of an encoder like the demo model's, one after another, so that weights come from where
// they do in a translation, in blocks of each height that registers allow, in turns. It reports the fastest turn of each.
func BenchmarkHeights(b *testing.B) {
	for _, shape := range [][2]int{{256, 256}, {256, 768}, {256, 1536}, {1536, 256}} {
		for _, rows := range []int{34, 96} {
			for _, way := range heightWays() {
				b.Run(fmt.Sprintf("%dx%d/rows=%d/%s", shape[0], shape[1], rows, way.name), func(b *testing.B) {
					benchHeights(b, shape[0], shape[1], rows, way)
				})
			}
		}
	}
}

// A heightWay is a way to multiply in blocks of up to so many rows.
type heightWay struct {
	name          string
	lowest, limit int
	multiply      func(c *mulInt8Call, rows, height int)
}

func heightWays() []heightWay {
	panels := func(lowest, limit int) heightWay {
		return heightWay{"one", lowest, limit, func(c *mulInt8Call, rows, height int) { c.panels(0, rows, 0, height) }}
	}
	pairs := heightWay{"two", 2, mulInt8RowsDouble, func(c *mulInt8Call, rows, height int) { c.pairs(0, rows, c.w.N, height) }}
	switch cpu.Integer() {
	case cpu.AVX512VNNI:
		return []heightWay{panels(4, mulInt8Rows), pairs}
	case cpu.AVXVNNI:
		return []heightWay{panels(2, mulInt8RowsAVX2)}
	case cpu.AVX2, cpu.AVX512:
		steps := make([]uint8, chainBytes)
		return []heightWay{{"chains", 2, chainRows, func(c *mulInt8Call, rows, height int) {
			call := chainCall{c, steps, 1, height}
			call.rows(0, rows)
		}}}
	}
	return nil
}

func benchHeights(b *testing.B, k, n, rows int, way heightWay) {
	const layers = 6
	r := source(1)
	var matrices []Matrix
	for range layers * 2048 * 256 / (k * n) { // what an encoder has in all
		w, _ := benchInt8(r, k, n, 1)
		matrices = append(matrices, w)
	}
	Together(matrices...)
	_, a := benchInt8(r, k, n, rows)
	scales, y := normals(r, rows), make([]float32, rows*apart(n))
	fastest := make([]float64, way.limit+1) // seconds
	for height := range fastest {
		fastest[height] = math.Inf(1)
	}
	for b.Loop() {
		for height := way.lowest; height <= way.limit; height++ {
			begin := time.Now()
			for _, m := range matrices {
				c := mulInt8Call{y: y, yStride: apart(n), a: a, aStride: Int8Stride(k), aScales: scales, w: m.(*Int8Matrix), floor: floorOf(None), level: cpu.Integer()}
				way.multiply(&c, rows, height)
			}
			fastest[height] = min(fastest[height], time.Since(begin).Seconds())
		}
	}
	b.ReportMetric(0, "ns/op")
	for height := way.lowest; height <= way.limit; height++ {
		b.ReportMetric(float64(len(matrices))*float64(k*n*rows)/fastest[height]/1e9, fmt.Sprintf("GMAC/s-%d", height))
	}
}
