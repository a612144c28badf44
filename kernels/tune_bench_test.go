package kernels

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPanels multiplies rows with all matrices of an encoder like the demo model's, one after another, so that weights come from
// where they do in a translation; with one panel at a time and with two in turns.
func BenchmarkPanels(b *testing.B) {
	r := source(1)
	var matrices []Matrix
	work := 0
	for range 6 {
		for _, size := range [][2]int{{256, 768}, {256, 256}, {256, 1536}, {1536, 256}} {
			k, n := size[0], size[1]
			matrices = append(matrices, PackInt8(k, n, int8s(r, k*n), normals(r, n)))
			work += k * n
		}
	}
	Together(matrices...)
	input := newTuningInput(tunedShapesOf(matrices, Matrix.hasDouble))
	for _, rows := range []int{24, 57, 96} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			var took [2]time.Duration
			for b.Loop() {
				for variant, from := range [2]int{never, 1} {
					begin := time.Now()
					for _, m := range matrices {
						*m.from() = from
						_, n := m.size()
						m.multiply(input, rows, n)
					}
					took[variant] += time.Since(begin)
				}
			}
			total := float64(b.N) * float64(work) * float64(rows) / 1e9
			b.ReportMetric(total/took[0].Seconds(), "GMAC/s-one")
			b.ReportMetric(total/took[1].Seconds(), "GMAC/s-two")
			b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "ratio")
		})
	}
}
