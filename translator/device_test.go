package translator_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

var (
	errNoMemory = errors.New("no memory")
	errLost     = errors.New("lost")
)

// A fragile Stepper fails, with what a device would answer, when a fault says so: from then on its scores are NaN.
type fragile struct {
	search.Stepper
	fault   func() error
	err     error
	closed  *atomic.Int64
	onClose func()
}

func (f *fragile) fail() {
	if f.err == nil {
		f.err = f.fault()
	}
}

func (f *fragile) Err() error { return f.err }

func (f *fragile) Close() error {
	f.closed.Add(1)
	if f.onClose != nil {
		f.onClose()
	}
	return nil
}

func (f *fragile) Encode(sources []search.Source, contexts []search.Context) {
	f.fail()
	f.Stepper.Encode(sources, contexts)
}

func (f *fragile) Step(slots []search.Slot, tokens []search.Token, align bool) {
	f.Stepper.Step(slots, tokens, align)
	f.fail()
}

func (f *fragile) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	f.Stepper.Best(rows, banned, out)
	f.spoil(out)
}

func (f *fragile) Top(rows []int32, k int, banned [][]search.Token, out []search.Scored) {
	f.Stepper.Top(rows, k, banned, out)
	f.spoil(out)
}

func (f *fragile) Reorder(dst, src []search.Slot) {
	f.fail()
	f.Stepper.Reorder(dst, src)
}

func (f *fragile) spoil(out []search.Scored) {
	if f.err != nil {
		for i := range out {
			out[i] = search.Scored{Score: float32(math.NaN())}
		}
	}
}

// A shaky device fails at certain calls, counted over all of its Steppers.
type shaky struct {
	models         cpuModels
	faults         map[int64]error
	most           int // slots that it has memory for; 0 for any number
	calls          atomic.Int64
	opened, closed atomic.Int64
	lost           atomic.Bool
	onClose        func() // of its Steppers
}

func (s *shaky) device(workers int) translator.Device {
	return translator.Device{Name: "shaky", Workers: workers, Slots: 16, MiniBatchTokens: 300, Open: s.open,
		Fits: func(err error) bool { return errors.Is(err, errNoMemory) }}
}

func (s *shaky) open(slots int) ([]search.Stepper, error) {
	if s.most > 0 && slots > s.most {
		return nil, errNoMemory
	}
	s.opened.Add(1)
	return []search.Stepper{&fragile{Stepper: s.models.NewSteppers(slots)[0], fault: s.fault, closed: &s.closed, onClose: s.onClose}}, nil
}

func (s *shaky) fault() error {
	err := s.faults[s.calls.Add(1)]
	if err == errLost {
		s.lost.Store(true)
	}
	if s.lost.Load() {
		return errLost
	}
	return err
}

// every returns faults at calls that are n apart.
func every(n, last int64, err error) map[int64]error {
	faults := map[int64]error{}
	for call := n; call <= last; call += n {
		faults[call] = err
	}
	return faults
}

// Whatever fails and whenever, every line has its translation, once, and it is the one that there is without failures.
func TestDevicesFail(t *testing.T) {
	lines := sentences(100)
	config := engineConfig(t, cpumodel.Float32)
	config.Batching.Workers = 2
	for _, beam := range []int{1, 3} {
		config.Search.Beam = beam
		want := translate(t, config, lines, nil)
		for name, c := range map[string]struct {
			devices []*shaky
			least   int // failures
			last    bool
		}{
			"none":                  {devices: []*shaky{{}, {}}},
			"memory at the start":   {devices: []*shaky{{most: 6}}},
			"memory now and then":   {devices: []*shaky{{faults: every(17, 40, errNoMemory)}}, least: 2},
			"memory at once":        {devices: []*shaky{{faults: every(1, 2, errNoMemory)}}, least: 2},
			"no memory at all":      {devices: []*shaky{{faults: every(1, 1e4, errNoMemory)}}, least: 4, last: true},
			"one of two lost":       {devices: []*shaky{{faults: every(9, 9, errLost)}, {}}, least: 1},
			"lost":                  {devices: []*shaky{{faults: every(13, 13, errLost)}}, least: 2, last: true},
			"both lost, then none":  {devices: []*shaky{{faults: every(5, 5, errLost)}, {faults: every(30, 30, errLost)}}, least: 4, last: true},
			"memory, and then lost": {devices: []*shaky{{faults: map[int64]error{4: errNoMemory, 40: errLost}}}, least: 3, last: true},
		} {
			t.Run(name, func(t *testing.T) {
				broken, failures := config, failures{}
				broken.OnFailure = failures.add
				cpu := config.Models.(cpuModels)
				broken.Models, broken.Precise = nil, func() (translator.Models, error) { return cpu, nil }
				for _, d := range c.devices {
					d.models = cpu
					broken.Devices = append(broken.Devices, d.device(2))
				}
				sameTexts(t, translate(t, broken, lines, nil), want)
				if len(failures.all) < c.least || c.least == 0 && len(failures.all) > 0 {
					t.Errorf("failures: %+v", failures.all)
				}
				if last := slices.ContainsFunc(failures.all, func(f translator.Failure) bool { return f.Last }); last != c.last {
					t.Errorf("the processor took over: %v, want %v; failures: %+v", last, c.last, failures.all)
				}
				for i, d := range c.devices {
					if opened, closed := d.opened.Load(), d.closed.Load(); opened != closed {
						t.Errorf("device %d: %d Steppers were opened and %d closed", i, opened, closed)
					}
				}
			})
		}
	}
}

// failures collects what an engine tells of.
type failures struct {
	mutex sync.Mutex
	all   []translator.Failure
}

func (f *failures) add(failure translator.Failure) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.all = append(f.all, failure)
}

func sameTexts(t *testing.T, have, want []job.Result) {
	t.Helper()
	for i := range want {
		if have[i].Err != nil || have[i].Text() != want[i].Text() || have[i].Flags != want[i].Flags {
			t.Fatalf("line %d is %q, %v, %v, want %q, %v", i, have[i].Text(), have[i].Flags, have[i].Err, want[i].Text(), want[i].Flags)
		}
	}
}

// Where nothing can take over, every line fails, those that come later as well, and says why.
func TestNothingTakesOver(t *testing.T) {
	config := engineConfig(t, cpumodel.Float32)
	d := &shaky{models: config.Models.(cpuModels), faults: every(3, 3, errLost)}
	config.Devices = []translator.Device{d.device(1)}
	engine, err := translator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	for range 2 {
		var all sync.WaitGroup
		for _, line := range sentences(40) {
			all.Add(1)
			engine.Submit(job.Segment{Text: line, Done: func(r job.Result) {
				if r.Err == nil || !errors.Is(r.Err, errLost) || !strings.Contains(r.Err.Error(), "float32") {
					t.Errorf("%q: %v", line, r.Err)
				}
				all.Done()
			}})
		}
		engine.Flush()
		all.Wait()
	}
}

// A device that has no memory even for one sentence is an error at the start.
func TestDeviceWithoutMemory(t *testing.T) {
	config := engineConfig(t, cpumodel.Float32)
	config.Search.Beam = 4
	fits := &shaky{models: config.Models.(cpuModels)}
	d := &shaky{models: config.Models.(cpuModels), most: 3}
	config.Devices = []translator.Device{fits.device(1), d.device(1)}
	if _, err := translator.New(config); !errors.Is(err, errNoMemory) {
		t.Errorf("got %v", err)
	}
	if fits.opened.Load() != fits.closed.Load() {
		t.Error("a Stepper was not closed")
	}
}

// Closing an engine while its devices fail fails what is left, once.
func TestCloseWhileDevicesFail(t *testing.T) {
	config := engineConfig(t, cpumodel.Float32)
	cpu := config.Models.(cpuModels)
	config.Precise = func() (translator.Models, error) { return cpu, nil }
	for call := range int64(12) {
		d := &shaky{models: cpu, faults: map[int64]error{1 + call: errNoMemory, 4 + call: errLost}}
		config.Devices = []translator.Device{d.device(2)}
		engine, err := translator.New(config)
		if err != nil {
			t.Fatal(err)
		}
		lines := sentences(60)
		done := make([]atomic.Int64, len(lines))
		for i, line := range lines {
			engine.Submit(job.Segment{Text: line, Done: func(job.Result) { done[i].Add(1) }})
		}
		engine.Flush()
		engine.Close()
		for i := range done {
			if n := done[i].Load(); n != 1 {
				t.Fatalf("line %d was done %d times", i, n)
			}
		}
	}
}

// A worker whose device has failed gives its sentences back. If the engine is closed just then, they fail too.
func TestCloseBeforeSentencesAreGivenBack(t *testing.T) {
	for _, fault := range []error{errNoMemory, errLost} {
		config := engineConfig(t, cpumodel.Float32)
		cpu := config.Models.(cpuModels)
		config.Precise = func() (translator.Models, error) { return cpu, nil }
		var engine *translator.Engine
		started, closed, once := make(chan struct{}), make(chan struct{}), sync.Once{}
		d := &shaky{models: cpu, faults: map[int64]error{5: fault}, onClose: func() {
			once.Do(func() {
				<-started
				go func() { engine.Close(); close(closed) }()
				var refused atomic.Bool
				for !refused.Load() { // until the engine takes nothing more
					engine.Submit(job.Segment{Text: "A dog.", Done: func(r job.Result) {
						if errors.Is(r.Err, translator.ErrClosed) {
							refused.Store(true)
						}
					}})
				}
			})
		}}
		config.Devices = []translator.Device{d.device(1)}
		var err error
		if engine, err = translator.New(config); err != nil {
			t.Fatal(err)
		}
		lines := sentences(60)
		done := make([]atomic.Int64, len(lines))
		for i, line := range lines {
			engine.Submit(job.Segment{Text: line, Done: func(job.Result) { done[i].Add(1) }})
		}
		engine.Flush()
		close(started)
		<-closed
		for i := range done {
			if n := done[i].Load(); n != 1 {
				t.Fatalf("%v: line %d was done %d times", fault, i, n)
			}
		}
	}
}

// A watched Stepper of one model, for greedy search, counts what its worker has encoded.
type watched struct {
	search.Stepper
	pieces  map[search.Context]int // of what is encoded
	begun   map[search.Context]bool
	held    int // pieces
	most    int // that were held
	inHaste int // mini-batches that were encoded while slots waited
	ahead   int // those that were encoded before any did
}

func (w *watched) Encode(sources []search.Source, contexts []search.Context) {
	if waiting := len(w.pieces) - len(w.begun); waiting < w.Slots()-len(w.begun) {
		w.inHaste++
	} else {
		w.ahead++
	}
	w.Stepper.Encode(sources, contexts)
	for i, context := range contexts {
		w.pieces[context] = len(sources[i].Tokens)
		w.held += len(sources[i].Tokens)
	}
	w.most = max(w.most, w.held)
}

func (w *watched) Begin(slot search.Slot, context search.Context) {
	w.begun[context] = true
	w.Stepper.Begin(slot, context)
}

func (w *watched) Release(context search.Context) {
	w.held -= w.pieces[context]
	delete(w.pieces, context)
	delete(w.begun, context)
	w.Stepper.Release(context)
}

// Where a device encodes ahead, fewer slots wait, no more is encoded than there is memory for, and the translations are the same.
func TestDeviceEncodesAhead(t *testing.T) {
	lines := sentences(300)
	config := engineConfig(t, cpumodel.Float32)
	config.Text.MaxLength = 300 // more than any has
	config.Batching.Latency = time.Hour
	want := translate(t, config, lines, nil)
	models := config.Models.(cpuModels)
	run := func(encoded int) *watched {
		w := &watched{pieces: map[search.Context]int{}, begun: map[search.Context]bool{}}
		config.Devices = []translator.Device{{Name: "watched", Workers: 1, Slots: 16, MiniBatchTokens: 300, Encoded: encoded,
			Open: func(slots int) ([]search.Stepper, error) {
				w.Stepper = models.NewSteppers(slots)[0]
				return []search.Stepper{w}, nil
			}}}
		sameTexts(t, translate(t, config, lines, nil), want)
		if w.held != 0 || len(w.pieces) != 0 {
			t.Errorf("%d pieces are still encoded when all is translated, want none", w.held)
		}
		return w
	}
	without := run(0)
	if without.ahead > 0 {
		t.Errorf("%d mini-batches were encoded ahead, want none", without.ahead)
	}
	limit := without.most + 100
	limited, unlimited := run(limit), run(1e6)
	if limited.most > limit {
		t.Errorf("%d pieces were encoded at a time, want no more than %d", limited.most, limit)
	}
	if unlimited.most <= limit {
		t.Errorf("without a limit %d pieces were encoded at a time, want more than %d, or the limit is none", unlimited.most, limit)
	}
	for _, w := range []*watched{limited, unlimited} {
		if w.ahead == 0 || w.inHaste >= without.inHaste {
			t.Errorf("%d mini-batches were encoded ahead, and %d while slots waited, want some and fewer than %d", w.ahead, w.inHaste, without.inHaste)
		}
	}
	t.Logf("mini-batches while slots waited: %d, %d with a limit, %d without one; pieces at a time: %d, %d, %d", without.inHaste, limited.inHaste, unlimited.inHaste,
		without.most, limited.most, unlimited.most)
}
