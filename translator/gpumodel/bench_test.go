//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	const vocabulary = 32_000 // which the lists are of, so that what they have in common is as short as in a real one
	description := strings.NewReplacer("rnn\ndec-cell: ssru", autoregression, "[70, 70]", fmt.Sprintf("[%d, %[1]d]", vocabulary)).Replace(string(small("")))
	s := newStepper(b, openDevice(b), randomModel(b, []byte(description)), rows)
	lengths, contexts := make([]int, rows), make([]search.Context, rows)
	for i := range lengths {
		lengths[i] = 20
	}
	sources := randomSources(lengths...)
	if shortlist {
		random := rand.New(rand.NewPCG(7, 8))
		for i := range sources {
			sources[i].Candidates = randomCandidates(random, vocabulary)
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

// randomCandidates are the hundred first tokens of a vocabulary and a few hundred others, as shortlists of sentences are.
func randomCandidates(random *rand.Rand, vocabulary int) []search.Token {
	const first, others = 100, 500
	candidates := make([]search.Token, 0, first+others)
	for token := range search.Token(first) {
		candidates = append(candidates, token)
	}
	for range others {
		candidates = append(candidates, first+random.Int32N(int32(vocabulary)-first))
	}
	slices.Sort(candidates)
	return slices.Compact(candidates)
}

// greedily says of rows that each goes on with its best token.
func greedily(rows int) search.Foresight {
	f := search.Foresight{Weight: 1, Ranks: make([]float32, rows)}
	for range rows {
		f.Prospects = append(f.Prospects, search.Prospect{Rows: 1, Width: 1, Given: search.NoToken})
	}
	return f
}
