package cpu

import "testing"

func TestInitialLevelIsLimitedByTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		detected Level
		limit    string
		want     Level
	}{
		{AVX512, "", AVX512},
		{AVX512, "avx2", AVX2},
		{AVX512, "AVX-512", AVX512},
		{AVX2, "avx512", AVX2},
		{AVX2, "generic", Generic},
		{AVX2, "nonsense", AVX2},
	} {
		if got := initial(c.detected, c.limit); got != c.want {
			t.Errorf("%v limited to %q is %v, want %v", c.detected, c.limit, got, c.want)
		}
	}
}

func TestLimitRestores(t *testing.T) {
	before := Active()
	restore := Limit(Generic)
	if Active() != Generic {
		t.Errorf("limited to %v", Active())
	}
	restore()
	if Active() != before {
		t.Errorf("restored to %v, want %v", Active(), before)
	}
	defer Limit(AVX512)()
	if Active() > Detected() {
		t.Errorf("%v is in use, the processor has %v", Active(), Detected())
	}
}

func TestLevelNames(t *testing.T) {
	for l := Generic; l <= AVX512; l++ {
		if got, err := ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("level %v parses as %v, %v", l, got, err)
		}
	}
	if Level(7).String() != "level 7" {
		t.Error(Level(7).String())
	}
}
