//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/search"
)

// What is encoded for later does not hold up a step whose sentences were encoded before. A step with sentences of many encodes, more than can be told
// apart, gives what each sentence gives alone.
func TestEncodes(t *testing.T) {
	d := openDevice(t)
	kinds := []string{"post-norm", "s2s", "self-attention", "two sources"}
	if testing.Short() { // as in other modes
		kinds = kinds[:2]
	}
	for _, kind := range kinds {
		m := randomModel(t, describe(descriptions[kind]))
		const sentences = openEncodes/2 + 2 // those of two sources are two encodes
		s, alone := newStepper(t, d, m, sentences), newStepper(t, d, m, sentences)
		sources := randomSources(7, 4, 6, 3, 5, 9)[:sentences]
		var want []search.Scored
		var early []search.Context // so that no buffer grows later on, which waits for all that there is
		for i := range sources {
			early = append(early, begin(s, sources[i], search.Slot(i)))
			firstChoices(s, search.Slot(i))
			begin(alone, sources[i], search.Slot(i))
			want = append(want, firstChoices(alone, search.Slot(i))...)
		}
		for _, context := range early {
			s.Release(context)
		}
		first := begin(s, sources[0], 0)
		second := begin(s, sources[1], 1)
		if !isEncoded(t, s, second) { // as where an encoder is quick
			if have := firstChoices(s, 0); !slices.Equal(have, want[:1]) {
				t.Errorf("%s: the first sentence gives %v, want %v", kind, have, want[:1])
			}
			if isEncoded(t, s, second) {
				t.Errorf("%s: a step waited for a sentence that it does not have, want it not to", kind)
			}
			s.Begin(0, first)
		}
		slots := []search.Slot{1, 0}
		for i := 2; i < sentences; i++ {
			begin(s, sources[i], search.Slot(i))
			slots = slices.Insert(slots, 0, search.Slot(i))
		}
		slices.Reverse(want)
		if have := firstChoices(s, slots...); !slices.Equal(have, want) {
			t.Errorf("%s: all sentences give %v, want %v", kind, have, want)
		}
	}
}

// begin encodes a sentence, and puts it into a slot.
func begin(s *Stepper, source search.Source, slot search.Slot) search.Context {
	contexts := make([]search.Context, 1)
	s.Encode([]search.Source{source}, contexts)
	s.Begin(slot, contexts[0])
	return contexts[0]
}

// firstChoices returns the best tokens after a first step of slots.
func firstChoices(s *Stepper, slots ...search.Slot) []search.Scored {
	choices, rows := make([]search.Scored, len(slots)), make([]int32, len(slots))
	for i := range rows {
		rows[i] = int32(i)
	}
	s.Step(slots, slices.Repeat([]search.Token{search.NoToken}, len(slots)), false)
	s.Top(rows, 1, nil, choices)
	return choices
}

// isEncoded says whether the device has encoded a sentence.
func isEncoded(t *testing.T, s *Stepper, c search.Context) (done bool) {
	t.Helper()
	must(t, s.w.device.bound(func() (err error) {
		done, err = s.encodes.end(s.contexts[c].encode).Done()
		return err
	}))
	return done
}

// What the decoder asks for comes before what the encoder does.
func TestDecoderComesFirst(t *testing.T) {
	at := library(t, emulated.Unwatched)
	newStepper(t, openDevice(t), randomModel(t, small("")), 2)
	made := emulated.Priorities(t, at, 2) // the encoder's stream is the last one
	if len(made) != 2 || made[1] >= made[0] {
		t.Errorf("streams of encoder and decoder have the priorities %v, want a smaller one for the decoder", made)
	}
}
