//go:build !race

package vocab

import "testing"

// TestAllocations runs without the race detector only, under which pools drop what they hold.
func TestAllocations(t *testing.T) {
	for _, model := range ownModels {
		v := mustOpen(t, model)
		ids, text := make([]int32, 0, 1000), make([]byte, 0, 10_000)
		if n := testing.AllocsPerRun(1000, func() { ids = v.Encode(sample, ids[:0]) }); n > 0 {
			t.Errorf("%s: Encode allocates %v times", model, n)
		}
		ids = v.Encode("The farmers' markets of größere Städte 日本", ids[:0]) // which needs no cleaning
		if n := testing.AllocsPerRun(1000, func() { text = v.Decode(ids, text[:0]) }); n > 0 {
			t.Errorf("%s: Decode allocates %v times", model, n)
		}
	}
}
