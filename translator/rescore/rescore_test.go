package rescore

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

const vocabulary = 9

func fakeConfig(fakes *[]*fakeStepper) Config {
	return Config{
		Devices: []Device{{NewStepper: func(slots int) (search.Stepper, error) {
			f := newFakeStepper(vocabulary, slots)
			*fakes = append(*fakes, f)
			return f, nil
		}}},
		Sources: []vocab.Vocabulary{letters(vocabulary)}, Target: letters(vocabulary), MaxLength: 30,
	}
}

// naive scores one translation after the other, a token at a time.
func naive(config *Config, list List) []Score {
	source, cropped, err := config.source(list.Source)
	if err != nil {
		panic(err)
	}
	scores := make([]Score, len(list.Translations))
	for i, text := range list.Translations {
		tokens, cut := config.encode(config.Target, text)
		scores[i].Cropped = cropped || cut
		for j, token := range tokens {
			logProb := hashed(source, tokens[:j], token)
			scores[i].Words = append(scores[i].Words, logProb)
			scores[i].LogProb += float64(logProb)
		}
	}
	return scores
}

func randomLists(random *rand.Rand, n int) []List {
	word := func(most int) string {
		var b strings.Builder
		for range random.IntN(most) {
			b.WriteByte('a' + byte(random.IntN(3)))
		}
		return b.String()
	}
	lists := make([]List, n)
	for i := range lists {
		lists[i].Source = word(40)
		for range random.IntN(20) {
			lists[i].Translations = append(lists[i].Translations, word(40))
		}
	}
	return lists
}

func same(a, b Score) bool {
	return a.LogProb == b.LogProb && a.Cropped == b.Cropped && slices.Equal(a.Words, b.Words)
}

// Whatever the batches, slots and workers, each translation has the score that it has by itself.
func TestScoresAreThoseOfEachTranslationAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		var fakes []*fakeStepper
		config := fakeConfig(&fakes)
		config.Devices = slices.Repeat(config.Devices, 1+random.IntN(2))
		for i := range config.Devices {
			d := &config.Devices[i]
			d.Workers, d.Slots, d.MiniBatchTokens = 1+random.IntN(3), 1+random.IntN(30), 1+random.IntN(60)
		}
		if round%4 >= 2 { // devices that encode beside their steps
			for i := range config.Devices {
				config.Devices[i].Encoded, config.Devices[i].TopUp = random.IntN(200), random.Float64()
			}
		}
		config.RightLeft = round%2 == 1
		switch round % 3 {
		case 1:
			config.Sources = nil
		case 2:
			config.Sources = append(config.Sources, letters(vocabulary))
		}
		if round%5 == 0 { // a device that picks scores
			made := config.Devices[0].NewStepper
			config.Devices[0].NewStepper = func(slots int) (search.Stepper, error) {
				s, err := made(slots)
				return pickingStepper{s.(*fakeStepper)}, err
			}
		}
		scorer, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a Scorer is used again and again
			lists := randomLists(random, random.IntN(20))
			for i := range lists {
				if len(config.Sources) == 2 {
					lists[i].Source += "\tab"
				}
			}
			got, err := scorer.Score(context.Background(), lists)
			if err != nil {
				t.Fatal(err)
			}
			for i, list := range lists {
				if want := naive(&config, list); !slices.EqualFunc(got[i], want, same) {
					t.Fatalf("round %d: list %d %q scores\n%v\nwant\n%v", round, i, list, got[i], want)
				}
			}
		}
		for _, f := range fakes {
			if len(f.contexts) > 0 {
				t.Fatalf("round %d: %d contexts were not released", round, len(f.contexts))
			}
		}
	}
}

// An encodeWatcher is a fakeStepper that notes how many pieces are encoded at a time.
type encodeWatcher struct {
	*fakeStepper
	most int
}

func (s *encodeWatcher) Encode(sources []search.Source, contexts []search.Context) {
	s.fakeStepper.Encode(sources, contexts)
	pieces := 0
	for _, source := range s.contexts {
		pieces += len(source.Tokens)
	}
	s.most = max(s.most, pieces)
}

// Where there is memory, the next sentences are encoded while others are decoded, and never more than there is memory for.
func TestEncodingAhead(t *testing.T) {
	lists := make([]List, 40)
	for i := range lists {
		lists[i] = List{Source: "abc", Translations: []string{strings.Repeat("a", 1+i%7)}} // four pieces
	}
	for _, c := range []struct {
		memory, want int // most pieces that are encoded at a time
	}{
		{0, 16}, {23, 16}, {24, 20}, {28, 24}, {32, 28}, {1000, 32},
	} {
		var fakes []*fakeStepper
		config := fakeConfig(&fakes)
		d := &config.Devices[0]
		d.Slots, d.TopUp, d.MiniBatchTokens, d.Encoded = 4, 0.25, 4, c.memory
		scorer, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		watch := &encodeWatcher{fakeStepper: fakes[0]}
		scorer.workers[0].stepper = watch
		if _, err := scorer.Score(t.Context(), lists); err != nil {
			t.Fatal(err)
		}
		if watch.most != c.want {
			t.Errorf("memory for %d pieces: %d are encoded at a time, want %d", c.memory, watch.most, c.want)
		}
	}
}

// The last sentences are left to workers that could begin with them.
func TestTheLastAreLeftToOthers(t *testing.T) {
	s := &supply{trees: make([]*tree, 10), others: 2}
	for range 3 {
		s.next()
	}
	if !s.spares(3) || s.spares(4) {
		t.Errorf("of 7 sentences a worker beside 2 others that decodes 3 may take some: %v; one that decodes 4: %v", s.spares(3), s.spares(4))
	}
	for range 20 {
		s.next()
	}
	if s.spares(0) {
		t.Error("there are no sentences any more, but a worker may take some")
	}
}

// Every prefix is decoded once, however many translations begin with it.
func TestPrefixesAreShared(t *testing.T) {
	var fakes []*fakeStepper
	scorer, err := New(fakeConfig(&fakes))
	if err != nil {
		t.Fatal(err)
	}
	list := List{Source: "abc", Translations: []string{"abcd", "abce", "abcd", "ab", "b"}}
	if _, err := scorer.Score(context.Background(), []List{list}); err != nil {
		t.Fatal(err)
	}
	// The empty prefix, a, ab, abc, abcd, abce, b.
	if got := fakes[0].stepped; got != 7 {
		t.Errorf("%d rows were decoded, want 7", got)
	}
}

func TestRightLeftModelsReadBackwards(t *testing.T) {
	var fakes []*fakeStepper
	config := fakeConfig(&fakes)
	config.RightLeft = true
	scorer, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	got, err := scorer.Score(context.Background(), []List{{Source: "abc", Translations: []string{"de"}}})
	if err != nil {
		t.Fatal(err)
	}
	source := search.Source{Tokens: []search.Token{3, 2, 1, 0}}
	want := []float32{hashed(source, nil, 5), hashed(source, []search.Token{5}, 4), hashed(source, []search.Token{5, 4}, 0)}
	if !slices.Equal(got[0][0].Words, want) {
		t.Errorf("the words score %v, want %v", got[0][0].Words, want)
	}
}

func TestNumbersThatAreNoneAreToldByTheScore(t *testing.T) {
	var fakes []*fakeStepper
	scorer, err := New(fakeConfig(&fakes))
	if err != nil {
		t.Fatal(err)
	}
	fakes[0].spoiled = true
	got, err := scorer.Score(context.Background(), []List{{Source: "a", Translations: []string{"b"}}})
	if err != nil || !math.IsNaN(got[0][0].LogProb) {
		t.Errorf("the score is %v, error %v; want NaN", got, err)
	}
}

// A run that was interrupted leaves nothing behind, no question that nobody has read the answer to among it.
func TestInterruption(t *testing.T) {
	for _, picks := range []bool{false, true} {
		checkInterruption(t, picks)
	}
}

func checkInterruption(t *testing.T, picks bool) {
	t.Helper()
	var fakes []*fakeStepper
	config := fakeConfig(&fakes)
	config.Devices[0].Slots = 4
	scorer, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	interrupting := &interruptingStepper{fakeStepper: fakes[0], cancel: cancel, after: 3}
	scorer.workers[0].stepper = interrupting
	if picks {
		scorer.workers[0].stepper = interruptingPicker{pickingStepper{fakes[0]}, interrupting}
	}
	lists := randomLists(rand.New(rand.NewPCG(3, 4)), 30)
	if _, err := scorer.Score(ctx, lists); !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	if len(fakes[0].contexts) > 0 || len(fakes[0].answers) > 0 {
		t.Errorf("%d contexts were not released, and %d answers not read", len(fakes[0].contexts), len(fakes[0].answers))
	}
	got, err := scorer.Score(context.Background(), lists)
	if err != nil {
		t.Fatal(err)
	}
	for i, list := range lists {
		if !slices.EqualFunc(got[i], naive(&config, list), same) {
			t.Errorf("list %d has other scores after an interruption", i)
		}
	}
}

type interruptingStepper struct {
	*fakeStepper
	cancel context.CancelFunc
	after  int
}

func (s *interruptingStepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	if s.after--; s.after == 0 {
		s.cancel()
	}
	s.fakeStepper.Step(slots, tokens, align)
}

// An interruptingPicker is one that gives the scores of single tokens.
type interruptingPicker struct {
	pickingStepper
	interrupting *interruptingStepper
}

func (s interruptingPicker) Step(slots []search.Slot, tokens []search.Token, align bool) {
	s.interrupting.Step(slots, tokens, align)
}

// A fragileStepper is a fakeStepper on a device that fails in its first step, or goes on once another one's has failed.
type fragileStepper struct {
	*fakeStepper
	fails, failed bool
	anyFailed     chan struct{}
	closed        bool
}

var errLost = errors.New("the device is lost")

func (s *fragileStepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	s.fakeStepper.Step(slots, tokens, align)
	switch {
	case !s.fails:
		<-s.anyFailed
	case !s.failed:
		s.failed = true
		close(s.anyFailed)
	}
}

func (s *fragileStepper) Err() error {
	if s.failed {
		return errLost
	}
	return nil
}

func (s *fragileStepper) Close() error { s.closed = true; return nil }

// It is told which device has failed, and everything is given back.
func TestFailuresOfDevicesAreTold(t *testing.T) {
	var made []*fragileStepper
	var fakes []*fakeStepper
	config := fakeConfig(&fakes)
	anyFailed := make(chan struct{})
	good := func(slots int) (search.Stepper, error) {
		s := &fragileStepper{fakeStepper: newFakeStepper(vocabulary, slots), fails: len(made) == 2, anyFailed: anyFailed}
		made = append(made, s)
		return s, nil
	}
	config.Devices = []Device{{NewStepper: good, Workers: 1, Slots: 4}, {NewStepper: good, Workers: 2, Slots: 5}}
	scorer, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	lists := randomLists(rand.New(rand.NewPCG(5, 6)), 200)
	_, err = scorer.Score(context.Background(), lists)
	var failed *DeviceError
	if !errors.As(err, &failed) || failed.Device != 1 || !errors.Is(err, errLost) {
		t.Errorf("the error is %v, want that of device 1", err)
	}
	if err := scorer.Close(); err != nil {
		t.Error(err)
	}
	for i, s := range made {
		if !s.closed || len(s.contexts) > 0 {
			t.Errorf("worker %d is closed: %v, and has %d contexts", i, s.closed, len(s.contexts))
		}
	}

	for i, slots := range []int{4, 5, 5} {
		if made[i].Slots() != slots {
			t.Errorf("worker %d has %d slots, want %d", i, made[i].Slots(), slots)
		}
	}

	made = nil
	config.Devices[1].NewStepper = func(slots int) (search.Stepper, error) {
		if len(made) == 2 {
			return nil, errLost
		}
		return good(slots)
	}
	if _, err := New(config); !errors.As(err, &failed) || failed.Device != 1 || !errors.Is(err, errLost) {
		t.Errorf("the error is %v, want that of device 1", err)
	}
	for i, s := range made {
		if !s.closed {
			t.Errorf("worker %d is not closed", i)
		}
	}
}

func TestErrors(t *testing.T) {
	var fakes []*fakeStepper
	config := fakeConfig(&fakes)
	config.Target = letters(vocabulary + 1)
	if _, err := New(config); !errors.Is(err, ErrConfig) {
		t.Errorf("a vocabulary of another size: error %v", err)
	}
	config = fakeConfig(&fakes)
	config.MaxLength = 1
	if _, err := New(config); !errors.Is(err, ErrConfig) {
		t.Errorf("no room for a piece: error %v", err)
	}
	if _, err := New(Config{MaxLength: 9}); !errors.Is(err, ErrConfig) {
		t.Errorf("no model: error %v", err)
	}
	config = fakeConfig(&fakes)
	config.Sources = append(config.Sources, letters(vocabulary))
	scorer, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	lists := []List{{Source: "a\tb"}, {Source: "no tab", Translations: []string{"a"}}}
	var about *ListError
	if _, err := scorer.Score(context.Background(), lists); !errors.Is(err, ErrSources) || !errors.As(err, &about) || about.List != 1 {
		t.Errorf("a source too few: error %v", err)
	}
}
