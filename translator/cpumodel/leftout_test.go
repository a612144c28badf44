package cpumodel

import (
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// Of the demo model's multiply-accumulates a part is left out, and counted, where there are kernels for that; what is counted in all stays the same.
func TestLeftOut(t *testing.T) {
	var want int64
	cputest.Each(t, func(t *testing.T) {
		c := student(t, "model.npz", Int8, 8)
		s := c.weights.NewStepper(8)
		c.translateWith(s, false, c.sources)
		stats := s.Stats()
		if want == 0 {
			want = stats.MACs
		}
		if stats.MACs != want || want == 0 {
			t.Errorf("%d multiply-accumulates, and %d with the first kind of processor", stats.MACs, want)
		}
		share := float64(stats.LeftOut) / float64(stats.MACs)
		if lists := cpu.Assembly && cpu.Integer() != cpu.Generic && cpu.Integer().Family() != cpu.NEON; lists && (share < 0.02 || share > 0.35) || !lists && share != 0 {
			t.Errorf("%.3f of them are left out", share)
		}
	})
}
