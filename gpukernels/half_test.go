package gpukernels

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Every Half comes back from float32 as it was.
func TestHalfRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := Half(i)
		x := h.Float32()
		if x != x {
			if back := ToHalf(x); back.Float32() == back.Float32() {
				t.Errorf("%04x is NaN, and comes back as %04x", i, back)
			}
		} else if back := ToHalf(x); back != h {
			t.Errorf("%04x is %v, and comes back as %04x", i, x, back)
		}
	}
}

// No Half is nearer than the chosen one; of two that are as near, it is the even one.
func TestToHalfIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float32Range(-65519, 65519).Draw(t, "x")
		h := ToHalf(x)
		distance := math.Abs(float64(h.Float32()) - float64(x))
		for _, other := range []Half{h - 1, h + 1} {
			d := math.Abs(float64(other.Float32()) - float64(x))
			if d < distance || d == distance && h&1 == 1 {
				t.Errorf("%v becomes %v, though %v is as near", x, h.Float32(), other.Float32())
			}
		}
	})
}

func TestToHalfSpecial(t *testing.T) {
	infinity := float32(math.Inf(1))
	for _, c := range []struct {
		x    float32
		want Half
	}{
		{0, 0}, {float32(math.Copysign(0, -1)), 0x8000}, {1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff}, {65519.996, 0x7bff}, {65520, 0x7c00},
		{infinity, 0x7c00}, {-infinity, 0xfc00}, {0x1p-24, 1}, {0x1p-25, 0}, {0x1.8p-25, 1}, {0x1p-14, 0x400}, {0x1.ff8p-15, 0x3ff},
		{0x1.ffcp-15, 0x400},
	} {
		if have := ToHalf(c.x); have != c.want {
			t.Errorf("%v becomes %04x, want %04x", c.x, have, c.want)
		}
	}
}
