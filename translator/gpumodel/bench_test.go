//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/search"
)

// What a step of the decoder takes of the processor where the device answers at once, with the choice of tokens and the step that is run ahead, and how
// often it asks the device for something: an emulated device does nothing of it.
func BenchmarkHost(b *testing.B) {
	for _, c := range []struct {
		name, autoregression string
		shortlist            bool
	}{
		{"SSRU", "rnn\ndec-cell: ssru", false}, {"SSRU-with-shortlist", "rnn\ndec-cell: ssru", true}, {"self-attention", "self-attention", false},
	} {
		for _, rows := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", c.name, rows), func(b *testing.B) { benchmarkHost(b, c.autoregression, c.shortlist, rows) })
		}
	}
}

func benchmarkHost(b *testing.B, autoregression string, shortlist bool, rows int) {
	description := strings.Replace(string(small("")), "rnn\ndec-cell: ssru", autoregression, 1)
	s := newStepper(b, openDevice(b), randomModel(b, []byte(description)), rows)
	lengths, contexts := make([]int, rows), make([]search.Context, rows)
	for i := range lengths {
		lengths[i] = 20
	}
	sources := randomSources(lengths...)
	for i := range sources {
		if shortlist {
			sources[i].Candidates = []search.Token{0, 2, 3, 9, 20, 33, 40, 69}
		}
	}
	s.Encode(sources, contexts)
	slots, tokens, all := make([]search.Slot, rows), make([]search.Token, rows), make([]int32, rows)
	for i := range slots {
		slots[i], all[i] = search.Slot(i), int32(i)
	}
	best, foresight := make([]search.Scored, rows), greedily(rows)
	const words = 25 // of a translation
	step := func(number int) {
		for i := range slots {
			if number%words == 0 {
				s.Begin(slots[i], contexts[i])
				tokens[i] = search.NoToken
			} else {
				tokens[i] = best[i].Token
			}
		}
		s.Step(slots, tokens, false)
		s.Foresee(foresight)
		s.Best(all, nil, best)
	}
	emulated.MeasureHost(b, library(b, emulated.Unwatched), 2*words, step) // the first ones take memory and capture graphs
}

// greedily says of rows that each goes on with its best token.
func greedily(rows int) search.Foresight {
	f := search.Foresight{Weight: 1, Ranks: make([]float32, rows)}
	for range rows {
		f.Prospects = append(f.Prospects, search.Prospect{Rows: 1, Width: 1, Given: search.NoToken})
	}
	return f
}
