package optimiser

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func config() Config {
	return Config{Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 0.01}
}

// TestAdam compares a few steps with the definition, in float64.
func TestAdam(t *testing.T) {
	c := config()
	c.WarmUp, c.InvSqrt, c.ClipNorm, c.Smoothing = 4, 6, 0.5, 0.01
	const n = chunkSize + 100
	random := rand.New(rand.NewPCG(1, 2))
	values, exact := make([]float32, n), make([]float64, n)
	for i := range values {
		values[i] = random.Float32()
		exact[i] = float64(values[i])
	}
	average := slices.Clone(exact)
	m, v := make([]float64, n), make([]float64, n)
	o := New(c, values)
	for step := 1; step <= 10; step++ {
		gradients := [][]float32{make([]float32, n), make([]float32, n), make([]float32, n)}
		sum, norm := make([]float64, n), 0.0
		for i := range n {
			for _, g := range gradients {
				g[i] = float32(random.NormFloat64())
				sum[i] += float64(g[i])
			}
			sum[i] *= 0.01
			norm += sum[i] * sum[i]
		}
		norm = math.Sqrt(norm)
		report, err := o.Step(gradients, 0.01)
		if err != nil {
			t.Fatal(err)
		}
		rate := 0.01 * min(1, float64(step)/4) * math.Sqrt(6/float64(max(step, 6)))
		if math.Abs(report.Norm-norm) > 1e-5*norm || math.Abs(report.Rate-rate) > 1e-12 {
			t.Fatalf("step %d: norm %v, rate %v; want %v, %v", step, report.Norm, report.Rate, norm, rate)
		}
		weight := max(0.01, 1-float64(step+1)/float64(step+10))
		for i := range n {
			g := sum[i] * min(1, 0.5/norm)
			m[i] = 0.9*m[i] + 0.1*g
			v[i] = 0.98*v[i] + 0.02*g*g
			exact[i] -= rate * m[i] / (1 - math.Pow(0.9, float64(step))) / (math.Sqrt(v[i]/(1-math.Pow(0.98, float64(step)))) + 1e-9)
			average[i] += weight * (exact[i] - average[i])
			if math.Abs(float64(values[i])-exact[i]) > 2e-5 || math.Abs(float64(o.Best()[i])-average[i]) > 2e-5 {
				t.Fatalf("step %d, element %d: %v, average %v; want %v, %v", step, i, values[i], o.Best()[i], exact[i], average[i])
			}
			if gradients[0][i] != 0 || gradients[2][i] != 0 {
				t.Fatal("a gradient is left")
			}
		}
	}
}

// TestNotFinite: a step with a NaN changes nothing but the counts.
func TestNotFinite(t *testing.T) {
	values := []float32{1, 2, 3}
	o := New(config(), values)
	good := func() [][]float32 { return [][]float32{{1, 1, 1}} }
	if _, err := o.Step(good(), 1); err != nil {
		t.Fatal(err)
	}
	before, mean := slices.Clone(values), slices.Clone(o.Mean)
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		gradients := [][]float32{{1, bad, 1}}
		if _, err := o.Step(gradients, 1); !errors.Is(err, ErrNotFinite) {
			t.Fatalf("error %v", err)
		}
		if !slices.Equal(values, before) || !slices.Equal(o.Mean, mean) || o.Updates != 1 || gradients[0][1] != 0 {
			t.Errorf("%v changed something", bad)
		}
	}
	if o.NotFinite != 2 || o.Consecutive != 2 {
		t.Errorf("%d skipped, %d at a time", o.NotFinite, o.Consecutive)
	}
	if _, err := o.Step(good(), 1); err != nil || o.Consecutive != 0 || o.NotFinite != 2 {
		t.Errorf("after that: %v, %+v", err, o.Counts)
	}
}

// TestLowering skips steps: too many at a time, or with few good ones between them, lower the rate.
func TestLowering(t *testing.T) {
	c := config()
	c.Lower, c.LowerAfter = 0.5, 3
	o := New(c, []float32{1, 2, 3})
	step := func(skip bool) float64 {
		v := float32(1)
		if skip {
			v = float32(math.NaN())
		}
		report, _ := o.Step([][]float32{{1, v, 1}}, 1)
		return report.Rate / c.Rate(max(o.Updates, 1))
	}
	for round, want := range []float64{1, 1, 0.5, 0.5, 0.5, 0.25} {
		step(true)
		if got := step(false); math.Abs(got-want) > 1e-12 {
			t.Errorf("after %d skipped steps the rate is multiplied by %v, want %v", round+1, got, want)
		}
	}
	for round := range 8 {
		step(true)
		for range forgetAfter {
			step(false)
		}
		if o.Lowered != 2 {
			t.Fatalf("lowered %d times, though %d skipped steps were far apart", o.Lowered, round+1)
		}
	}
}

// TestOutliers skips a gradient that is far larger than those before, unless such gradients go on.
func TestOutliers(t *testing.T) {
	c := config()
	c.MaxGrowth = 10
	o := New(c, []float32{1, 2, 3})
	step := func(size float32) error {
		_, err := o.Step([][]float32{{size, size, size}}, 1)
		return err
	}
	if err := step(1e6); err != nil {
		t.Fatalf("the first step: %v", err)
	}
	for i := range 2 * normsAtLeast {
		if err := step(1 + float32(i%5)); err != nil {
			t.Fatal(err)
		}
	}
	values := slices.Clone(o.values)
	if err := step(1e3); !errors.Is(err, ErrOutlier) || !slices.Equal(values, o.values) || o.NotFinite != 1 {
		t.Errorf("an outlier: %v, %+v", err, o.Counts)
	}
	if err := step(5); err != nil {
		t.Errorf("after the outlier: %v", err)
	}
	skipped := 0
	for step(1e3) != nil {
		if skipped++; skipped > 1000 {
			t.Fatal("large gradients never become the usual ones")
		}
	}
	if skipped < 10 {
		t.Errorf("after %d large gradients they are the usual ones", skipped)
	}
}

// TestWhatIsNotClippedIsNoOutlier follows gradients that are next to nothing by larger ones, as where a text is learnt by heart.
func TestWhatIsNotClippedIsNoOutlier(t *testing.T) {
	c := config()
	c.MaxGrowth, c.ClipNorm = 10, 1
	o := New(c, []float32{1, 2, 3})
	for i := range 4 * normsAtLeast {
		size := float32(1e-9)
		if i > 2*normsAtLeast && i%20 == 0 {
			size = 0.1
		}
		if _, err := o.Step([][]float32{{size, size, size}}, 1); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if _, err := o.Step([][]float32{{1, 1, 1}}, 1); !errors.Is(err, ErrOutlier) {
		t.Errorf("one that is clipped: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"optimizer-params": func(c *Config) { c.Beta2 = 1 }, "third": func(c *Config) { c.Epsilon = 0 },
		"learn-rate": func(c *Config) { c.LearnRate = math.NaN() }, "lr-warmup": func(c *Config) { c.WarmUp = -1 },
		"clip-norm": func(c *Config) { c.ClipNorm = -1 }, "exponential-smoothing": func(c *Config) { c.Smoothing = 2 },
		"max-norm-growth": func(c *Config) { c.MaxGrowth = 0.5 }, "lr-lower": func(c *Config) { c.Lower, c.LowerAfter = 1.5, 1 },
	} {
		c := config()
		change(&c)
		if err := c.Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	c := config()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
