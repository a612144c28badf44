package cpumodel

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// A stage is what one part of the model does in a benchmark. Its fastest run is reported, in percent of the ceiling that is
// measured beside it: on a machine that others use too, that is what the code can do.
func stage(b *testing.B, s *Stepper, run func()) {
	run()
	fastest, macs := time.Duration(1<<62), int64(0)
	for b.Loop() {
		before, begin := s.Stats().MACs, time.Now()
		run()
		if took := time.Since(begin); took < fastest {
			fastest, macs = took, s.Stats().MACs-before
		}
	}
	rate := float64(macs) / fastest.Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(fastest.Nanoseconds())/1e3, "best-µs")
	b.ReportMetric(rate/1e9, "GMAC/s")
	b.ReportMetric(100*rate/kernels.Int8Peak(20*time.Millisecond), "%peak")
}

func benchStepper(b testing.TB, slots int) *Stepper {
	w, err := Load(loadModel(b, "ende-tiny/model.intgemm.alphas.bin"), Int8, Options{IgnoreAlphas: true})
	if err != nil {
		b.Fatal(err)
	}
	return w.NewStepper(slots)
}

// benchSources are sentences of a length, with shortlists of which half is frequent words.
func benchSources(s *Stepper, random *rand.Rand, count, length int) []search.Source {
	sources := make([]search.Source, count)
	for i := range sources {
		sources[i].Tokens = append(randomTokens(random, length-1, s.Vocabulary()), 0)
		candidates := randomTokens(random, 33*length, s.Vocabulary())
		for j := range candidates {
			if j%4 > 0 {
				candidates[j] = search.Token(float64(s.Vocabulary()) * random.Float64() * random.Float64() * random.Float64() * random.Float64())
			}
		}
		slices.Sort(candidates)
		sources[i].Candidates = slices.Compact(candidates)
	}
	return sources
}

func BenchmarkEncode(b *testing.B) {
	s, random := benchStepper(b, 64), rand.New(rand.NewPCG(1, 1))
	sources := benchSources(s, random, 10, 26)
	contexts := make([]search.Context, len(sources))
	stage(b, s, func() {
		s.Encode(sources, contexts)
		for _, c := range contexts {
			s.Release(c)
		}
	})
}

func BenchmarkStep(b *testing.B) {
	for _, output := range []bool{false, true} {
		b.Run(map[bool]string{false: "decoder", true: "decoder+output"}[output], func(b *testing.B) {
			const n = 57
			s, random := benchStepper(b, n), rand.New(rand.NewPCG(1, 1))
			sources, contexts := benchSources(s, random, n, 26), make([]search.Context, n)
			s.Encode(sources, contexts)
			slots, rows, tokens, best := make([]search.Slot, n), make([]int32, n), randomTokens(random, n, s.Vocabulary()), make([]search.Scored, n)
			for i := range slots {
				slots[i], rows[i] = search.Slot(i), int32(i)
				s.Begin(slots[i], contexts[i])
			}
			stage(b, s, func() {
				s.Step(slots, tokens, false)
				if output {
					s.Best(rows, nil, best)
				}
				for i := range s.slots {
					s.slots[i].position = 3
				}
			})
		})
	}
}
