package translator_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// overflowing are models whose arithmetic overflows at the third piece of sentences that begin with a certain piece.
type overflowing struct {
	translator.Models
	first search.Token
}

func (m overflowing) NewSteppers(slots int) []search.Stepper {
	steppers := m.Models.NewSteppers(slots)
	for i, s := range steppers {
		steppers[i] = &overflowingStepper{
			Stepper: s, first: m.first, broken: map[search.Context]bool{}, context: make([]search.Context, slots), steps: make([]int, slots),
		}
	}
	return steppers
}

type overflowingStepper struct {
	search.Stepper
	first   search.Token
	broken  map[search.Context]bool
	context []search.Context // of each slot
	steps   []int            // of each slot
	slots   []search.Slot    // of the last Step
}

func (s *overflowingStepper) Encode(sources []search.Source, contexts []search.Context) {
	s.Stepper.Encode(sources, contexts)
	for i := range sources {
		s.broken[contexts[i]] = sources[i].Tokens[0] == s.first
	}
}

func (s *overflowingStepper) Begin(slot search.Slot, context search.Context) {
	s.Stepper.Begin(slot, context)
	s.context[slot], s.steps[slot] = context, 0
}

func (s *overflowingStepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	s.Stepper.Step(slots, tokens, align)
	s.slots = append(s.slots[:0], slots...)
	for _, slot := range slots {
		s.steps[slot]++
	}
}

// spoil turns the answers about a row that overflows into what a Stepper answers then.
func (s *overflowingStepper) spoil(rows []int32, k int, out []search.Scored) {
	for i, row := range rows {
		if slot := s.slots[row]; s.broken[s.context[slot]] && s.steps[slot] >= 3 {
			for j := range k {
				out[i*k+j].Score = float32(math.NaN())
			}
		}
	}
}

func (s *overflowingStepper) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	s.Stepper.Best(rows, banned, out)
	s.spoil(rows, 1, out)
}

func (s *overflowingStepper) Top(rows []int32, k int, banned [][]search.Token, out []search.Scored) {
	s.Stepper.Top(rows, k, banned, out)
	s.spoil(rows, k, out)
}

// Sentences whose arithmetic overflows are translated in float32, flagged and counted. Where that does not help they fail, and their
// neighbours never notice.
func TestOverflow(t *testing.T) {
	lines := slices.Repeat([]string{"A dog runs through the snow.", "Two men are talking.", "A boy in a red shirt.", "The house is old."}, 4)
	breaks := func(line string) bool { return strings.HasPrefix(line, "Two") }
	beams := []int{1, 4}
	if testing.Short() {
		beams = beams[:1]
	}
	for _, beam := range beams {
		config := engineConfig(t, cpumodel.Int8)
		config.Search.Beam = beam
		want := translate(t, config, lines, nil)
		float32s := engineConfig(t, cpumodel.Float32)
		float32s.Search.Beam = beam
		precise := translate(t, float32s, lines, nil)
		broken := overflowing{config.Models, config.Text.Source.Encode("Two men", nil)[0]}
		config.Models = broken
		errNone := errors.New("no file")
		for name, c := range map[string]struct {
			precise func() (translator.Models, error)
			err     string
		}{
			"helps":     {func() (translator.Models, error) { return float32s.Models, nil }, ""},
			"overflows": {func() (translator.Models, error) { return overflowing{float32s.Models, broken.first}, nil }, "gives no numbers"},
			"fails":     {func() (translator.Models, error) { return nil, errNone }, "in float32: no file"},
			"none":      {nil, "gives no numbers"},
		} {
			config.Precise = c.precise
			for i, got := range translate(t, config, lines, nil) {
				expected := want[i]
				if breaks(lines[i]) && c.err == "" {
					expected = precise[i]
					expected.Flags |= job.NonFinite
				}
				switch {
				case breaks(lines[i]) && c.err != "":
					if got.Err == nil || !strings.Contains(got.Err.Error(), c.err) || got.Flags&job.Failed == 0 {
						t.Errorf("%s, beam %d: %q gave %+v", name, beam, lines[i], got)
					}
				case !reflect.DeepEqual(got, expected):
					t.Errorf("%s, beam %d: %q gave %+v, want %+v", name, beam, lines[i], got, expected)
				}
			}
		}
		checkPreciseCount(t, config, float32s.Models, lines)
	}
}

// While sentences that overflow are searched in float32, the worker goes on with all others.
func TestOthersGoOnWhileSomeAreSearchedInFloat32(t *testing.T) {
	config := engineConfig(t, cpumodel.Int8)
	config.Batching.Workers = 1
	config.Models = overflowing{config.Models, config.Text.Source.Encode("Two men", nil)[0]}
	held := make(chan struct{})
	config.Precise = func() (translator.Models, error) {
		<-held
		return engineConfig(t, cpumodel.Float32).Models, nil
	}
	engine, err := translator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	others, overflowed := make(chan job.Result, 40), make(chan job.Result, 4)
	for i := range 40 {
		if i%10 == 0 {
			engine.Submit(job.Segment{Text: "Two men are talking.", Done: func(r job.Result) { overflowed <- r }})
		}
		engine.Submit(job.Segment{Text: "The house is old.", Done: func(r job.Result) { others <- r }})
	}
	engine.Flush()
	for range 40 {
		if r := <-others; r.Err != nil || r.Flags != 0 {
			t.Errorf("%+v", r)
		}
	}
	if len(overflowed) > 0 {
		t.Error("a sentence was searched in float32 without a model")
	}
	close(held)
	for range 4 {
		if r := <-overflowed; r.Err != nil || r.Flags != job.NonFinite {
			t.Errorf("%+v", r)
		}
	}
}

// repeating are models that say the same word for ever, unless it is forbidden.
type repeating struct {
	translator.Models
	word search.Token
}

func (m repeating) NewSteppers(slots int) []search.Stepper {
	steppers := m.Models.NewSteppers(slots)
	for i, s := range steppers {
		steppers[i] = repeatingStepper{s, m.word}
	}
	return steppers
}

type repeatingStepper struct {
	search.Stepper
	word search.Token
}

func (s repeatingStepper) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	s.Stepper.Best(rows, banned, out)
	for i := range rows {
		if i >= len(banned) || !slices.Contains(banned[i], s.word) {
			out[i] = search.Scored{Token: s.word}
		}
	}
}

// A translation in float32 that repeats itself is searched for again without repetition, and flagged, as others are; or left as it is if that is wanted.
func TestRepetitionInFloat32(t *testing.T) {
	config := engineConfig(t, cpumodel.Int8)
	config.Models = overflowing{config.Models, config.Text.Source.Encode("Two men", nil)[0]}
	word := config.Text.Target.Encode("Haus", nil)[0]
	float32s := engineConfig(t, cpumodel.Float32).Models
	config.Precise = func() (translator.Models, error) { return repeating{float32s, word}, nil }
	repeats := func() bool {
		t.Helper()
		got := translate(t, config, []string{"Two men are talking in front of the old house, while a dog runs through the snow."}, nil)[0]
		if got.Err != nil || got.Flags&(job.NonFinite|job.Repetition) != job.NonFinite|job.Repetition {
			t.Fatalf("%+v", got)
		}
		words := strings.Fields(got.Text())
		return len(slices.Compact(words)) == 1
	}
	if repeats() {
		t.Error("a translation repeats itself")
	}
	if config.KeepRepetition = true; !repeats() {
		t.Error("a translation does not repeat itself")
	}
}

func checkPreciseCount(t *testing.T, config translator.Config, models translator.Models, lines []string) {
	t.Helper()
	config.Precise = func() (translator.Models, error) { return models, nil }
	engine, err := translator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	done := make(chan job.Result)
	for _, line := range lines {
		go engine.Submit(job.Segment{Text: line, Done: func(r job.Result) { go func() { done <- r }() }})
	}
	flagged := 0
	for range lines {
		if r := <-done; r.Flags&job.NonFinite != 0 {
			flagged++
		}
	}
	if counted := engine.Stats().Precise; counted != 4 || flagged != 4 {
		t.Errorf("%d sentences were counted, %d flagged, of 4 that overflow", counted, flagged)
	}
}
