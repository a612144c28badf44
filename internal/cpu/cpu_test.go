package cpu

import (
	"slices"
	"testing"
)

func TestInitialLevelIsLimitedByTheEnvironment(t *testing.T) {
	for _, l := range Levels() {
		want := l
		for !Has(want) {
			want--
		}
		for _, name := range []string{l.String(), lower(l)} {
			if got := initial(name); got != want {
				t.Errorf("limited to %q the level is %v, want %v", name, got, want)
			}
		}
	}
	for _, limit := range []string{"", "nonsense"} {
		if got := initial(limit); got != Detected() {
			t.Errorf("limited to %q the level is %v, the processor has %v", limit, got, Detected())
		}
	}
}

// lower is the name of a level as it is usually written in the environment.
func lower(l Level) string {
	return map[Level]string{Generic: "generic", AVX2: "avx2", AVXVNNI: "avxvnni", AVX512: "avx512", AVX512VNNI: "avx512vnni",
		NEON: "neon", SDOT: "sdot", SMMLA: "smmla"}[l]
}

func TestALevelOfAnotherArchitectureIsNoLimit(t *testing.T) {
	for l := Generic; l <= SMMLA; l++ {
		if !slices.Contains(Levels(), l) && initial(l.String()) != Detected() {
			t.Errorf("%v limits this build, which does not have it, to %v", l, initial(l.String()))
		}
	}
}

func TestLimitRestores(t *testing.T) {
	before := Integer()
	restore := Limit(Generic)
	if Active() != Generic || Integer() != Generic {
		t.Errorf("limited to %v and %v", Active(), Integer())
	}
	restore()
	if Integer() != before {
		t.Errorf("restored to %v, want %v", Integer(), before)
	}
	for _, l := range Levels() {
		restore := Limit(l)
		if Integer() > l || !Has(Integer()) {
			t.Errorf("limited to %v, %v is in use", l, Integer())
		}
		if Active() != Integer().Family() {
			t.Errorf("at %v other kernels use %v", Integer(), Active())
		}
		restore()
	}
}

func TestEveryLevelIncludesItsFamily(t *testing.T) {
	for _, l := range Levels() {
		if Has(l) && !Has(l.Family()) {
			t.Errorf("the processor has %v, but not %v", l, l.Family())
		}
		if l.Family().Family() != l.Family() {
			t.Errorf("%v is the family of %v, but of another family itself", l.Family(), l)
		}
	}
}

func TestLevelNames(t *testing.T) {
	for l := Generic; l <= SMMLA; l++ {
		if got, err := ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("level %v parses as %v, %v", l, got, err)
		}
	}
	if Level(17).String() != "level 17" {
		t.Error(Level(17).String())
	}
}
