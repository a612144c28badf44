//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/search"
)

// What a step of the decoder takes of the processor where the device answers at once, with the choice of tokens, and how often it asks the device for
// something: an emulated device does nothing of it. Nothing is foreseen, so that each step is asked for once.
func BenchmarkHost(b *testing.B) {
	for _, c := range []struct{ name, autoregression string }{
		{"SSRU", "rnn\ndec-cell: ssru"}, {"self-attention", "self-attention"},
	} {
		for _, rows := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", c.name, rows), func(b *testing.B) { benchmarkHost(b, c.autoregression, rows) })
		}
	}
}

func benchmarkHost(b *testing.B, autoregression string, rows int) {
	description := strings.Replace(string(small("")), "rnn\ndec-cell: ssru", autoregression, 1)
	s := newStepper(b, openDevice(b), randomModel(b, []byte(description)), rows)
	lengths, contexts := make([]int, rows), make([]search.Context, rows)
	for i := range lengths {
		lengths[i] = 20
	}
	s.Encode(randomSources(lengths...), contexts)
	slots, tokens, all := make([]search.Slot, rows), make([]search.Token, rows), make([]int32, rows)
	for i := range slots {
		slots[i], all[i] = search.Slot(i), int32(i)
	}
	best := make([]search.Scored, rows)
	const words = 25 // of a translation
	step := func(number int) {
		for i := range slots {
			if number%words == 0 {
				s.Begin(slots[i], contexts[i])
				tokens[i] = search.NoToken
			} else {
				tokens[i] = 1
			}
		}
		s.Step(slots, tokens, false)
		s.Best(all, nil, best)
	}
	emulated.MeasureHost(b, library(b, emulated.Unwatched), 3, step) // the first ones take memory and capture graphs
}
