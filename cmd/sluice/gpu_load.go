package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// How many workers keep a GPU busy, and with how many hypotheses each, is measured where nobody has said it: when a model is loaded onto a
// kind of GPU for the first time, with random sentences. It is remembered as the tuning of products is. No translation depends on it.

const (
	// loadTime is how long that takes at most, but for the step that is made when it is over.
	loadTime = 300 * time.Millisecond
	// loadTrials is by how many loads the time is divided.
	loadTrials = 6
	// loadVersion changes with the engine, of which old measurements say nothing, and with how loads are compared.
	loadVersion = 6
	// loadGain is how much better a load must be than one that was tried before it: what is less is chance.
	loadGain = 1.03
	// mostLoadSlots bounds the hypotheses of a worker.
	mostLoadSlots = 2048
)

// A gpuLoad is how a GPU is kept busy.
type gpuLoad struct {
	Streams int `json:"streams"` // workers
	Slots   int `json:"slots"`   // hypotheses of each
}

// usualStreams is the number of workers that is not measured: while one prepares its next step on the processor, another one's is computed.
const usualStreams = 2

// A loadSearch looks for the load with which a GPU does most.
type loadSearch struct {
	over func() bool                             // the time for it
	try  func(gpuLoad) (rate float64, err error) // hypotheses advanced a second
	fits func(gpuLoad) bool                      // there is memory for it
}

// find begins with the usual load, tries other numbers of streams, and with the best of them other numbers of slots unless they are given.
// Nothing is tried any more when the time is over.
func (s *loadSearch) find(usual gpuLoad, slotsGiven bool) (gpuLoad, error) {
	best, most := usual, 0.0
	better := func(l gpuLoad) (bool, error) {
		if !s.fits(l) || s.over() {
			return false, nil
		}
		rate, err := s.try(l)
		if err != nil || rate <= most*loadGain {
			return false, err
		}
		best, most = l, rate
		return true, nil
	}
	for _, streams := range []int{usual.Streams, usual.Streams / 2, 2 * usual.Streams} {
		if _, err := better(gpuLoad{streams, usual.Slots}); err != nil {
			return usual, err
		}
	}
	if slotsGiven || most == 0 {
		return best, nil
	}
	move := func(next func(slots int) int) error { // as long as that is better
		for {
			slots := next(best.Slots)
			if slots < 1 || slots > mostLoadSlots {
				return nil
			}
			if moved, err := better(gpuLoad{best.Streams, slots}); err != nil || !moved {
				return err
			}
		}
	}
	err := move(func(slots int) int { return 2 * slots })
	if err == nil && best.Slots == usual.Slots {
		err = move(func(slots int) int { return slots / 2 })
	}
	if err != nil {
		return usual, err
	}
	return best, nil
}

// A loadTrial is what a GPU tries loads with: the models, and how is searched.
type loadTrial struct {
	gpu        *gpu
	options    search.Options
	weights    []float32
	end        search.Token
	vocabulary int   // of the source; less than 2 for language models, which score without one
	further    []int // those of further sources
	scores     int   // the vocabulary of given translations that are scored; 0: sentences are translated
	limit      time.Duration
	logger     *slog.Logger
}

// warmUpSteps is after how many steps of a worker its graphs have been captured and its buffers have grown.
const warmUpSteps = 12

// rate returns how many hypotheses a load advances in a second, measured for some time; 0 if there is no memory for it, or ctx is done before.
func (t *loadTrial) rate(ctx context.Context, l gpuLoad, took time.Duration) (rate float64, err error) {
	workers, err := t.open(l)
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, w.close())
		}
		if errors.Is(err, cuda.ErrOutOfMemory) {
			rate, err = 0, nil
		}
	}()
	if err != nil {
		return 0, err
	}
	var warm, all sync.WaitGroup
	var stop atomic.Bool
	var advanced atomic.Int64
	begin := make(chan struct{})
	for _, w := range workers {
		warm.Add(1)
		all.Go(func() {
			for step := 0; step < warmUpSteps && ctx.Err() == nil; step++ {
				w.busyStep()
			}
			warm.Done()
			<-begin
			for !stop.Load() {
				advanced.Add(w.busyStep())
			}
		})
	}
	warm.Wait()
	began := time.Now()
	close(begin)
	inTime := false
	select {
	case <-time.After(took):
		inTime = true
	case <-ctx.Done():
	}
	stop.Store(true)
	all.Wait()
	if inTime {
		rate = float64(advanced.Load()) / time.Since(began).Seconds()
	}
	for _, w := range workers {
		err = errors.Join(err, w.failure())
	}
	return rate, err
}

// A busyWorker always has something to do.
type busyWorker interface {
	busyStep() (advanced int64) // makes one step, and returns how many hypotheses it advanced
	failure() error             // the first of the device
	close() error
}

// open makes the workers of a load.
func (t *loadTrial) open(l gpuLoad) (workers []busyWorker, err error) {
	for number := range l.Streams {
		steppers, err := t.gpu.steppers(l.Slots)
		if err != nil {
			return workers, err
		}
		sources := t.sources(number, l.Slots)
		if t.scores > 0 {
			w, err := newBusyScorer(steppers[0].(*gpumodel.Stepper), sources, t.scores)
			if err != nil {
				return workers, err
			}
			workers = append(workers, w)
			continue
		}
		w, err := newGPUWorker(steppers, t.weights, t.end, t.options)
		if err != nil {
			return workers, err
		}
		workers = append(workers, &busyTranslator{w, supply{sources: sources, endless: true}})
	}
	return workers, nil
}

// A busyTranslator translates the same sentences again and again.
type busyTranslator struct {
	*gpuWorker
	from supply
}

func (w *busyTranslator) busyStep() int64 { return int64(w.step(&w.from)) }

// find returns the best load that it finds, and whether it measured any: a slow device, an emulated one perhaps, has the usual load, and so has
// one without memory for any. It ends when the time for it is over, or ctx is done, after the step that is made then. No step is much longer
// than those before it, which were short enough: see approach.
func (t *loadTrial) find(ctx context.Context, usual gpuLoad, slotsGiven bool) (best gpuLoad, measured bool, err error) {
	limited, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	if inTime, err := t.approach(limited, usual); err != nil || !inTime {
		return usual, false, cmp.Or(err, ctx.Err())
	}
	try := func(l gpuLoad) (rate float64, err error) {
		rate, err = t.rate(limited, l, t.limit/loadTrials/2)
		measured = measured || rate > 0
		return rate, err
	}
	s := loadSearch{func() bool { return limited.Err() != nil }, try, t.gpu.fits}
	best, err = s.find(usual, slotsGiven)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return usual, false, err
	}
	return best, measured, nil
}

// approachGrowth is how many times as many hypotheses each of the steps has that lead to the usual load.
const approachGrowth = 8

// approach makes steps with one sentence, and then with more, until there are as many hypotheses as a worker of the usual load has. It reports
// false if the next of them could outlast the time: a step takes at most as many times as long as it has more hypotheses.
func (t *loadTrial) approach(ctx context.Context, usual gpuLoad) (inTime bool, err error) {
	end, _ := ctx.Deadline()
	slots := 1
	if t.scores == 0 {
		slots = slotsOf(t.sources(0, 1)[0], t.options)
	}
	for {
		begin := time.Now()
		if err := t.fewSteps(ctx, slots); err != nil || ctx.Err() != nil {
			return false, err
		}
		if slots >= usual.Slots {
			return true, nil
		}
		if now := time.Now(); now.Add(approachGrowth * now.Sub(begin)).After(end) {
			return false, nil
		}
		slots = min(approachGrowth*slots, usual.Slots)
	}
}

// fewSteps makes two steps of a worker: the first encodes the sentences, and the second is like all others.
func (t *loadTrial) fewSteps(ctx context.Context, slots int) error {
	workers, err := t.open(gpuLoad{1, slots})
	for _, w := range workers {
		for step := 0; step < 2 && ctx.Err() == nil; step++ {
			w.busyStep()
		}
		err = errors.Join(err, w.failure(), w.close())
	}
	return err
}

// sources are what a worker translates, or of what it scores translations.
func (t *loadTrial) sources(worker, count int) []search.Source {
	if t.vocabulary < 2 {
		return slices.Repeat([]search.Source{{Tokens: []search.Token{0}}}, count)
	}
	return randomText{rand.New(rand.NewPCG(2018, uint64(worker))), t.vocabulary, t.further, usualSpread}.sources(count)
}

// multiplied says what multiplies for each model.
func (g *gpu) multiplied() string {
	var by []string
	for _, weights := range g.weights {
		by = append(by, weights.Multiplied())
	}
	return strings.Join(by, ", ")
}

// fits says whether the GPU has memory for a load of all models.
func (g *gpu) fits(l gpuLoad) bool {
	for _, weights := range g.weights {
		if !weights.Fits(g.sharedBy(l.Streams), l.Slots) {
			return false
		}
	}
	return true
}

// room is for how many slots of each of the usual workers the GPU has memory, as a power of two: twice as many as any trial has, at most.
func (g *gpu) room() int {
	slots := 1
	for slots < 2*mostLoadSlots && g.fits(gpuLoad{usualStreams, 2 * slots}) {
		slots *= 2
	}
	return slots
}

// gpuAndDriver is what the speed of loads depends on.
type gpuAndDriver struct {
	Device string `json:"device"`
	Driver string `json:"driver"`
}

// loadsOfGPU returns the file for the loads of a kind of GPU, beside that for the processor.
func (t *tuner) loadsOfGPU(kind gpuAndDriver) *measurements[gpuAndDriver, gpuLoad] {
	return &measurements[gpuAndDriver, gpuLoad]{t.fileOf("gpu-loads", kind), loadVersion, kind}
}

// possible says whether a load that was read can have been written, for as many slots as were asked for, or any.
func (l gpuLoad) possible(slots int) bool {
	return l.Streams >= 1 && l.Streams <= 2*usualStreams && l.Slots >= 1 && (l.Slots <= mostLoadSlots || l.Slots == slots) && (slots == 0 || l.Slots == slots)
}

// usualLoad is the load with the streams and slots that were asked for, and of what is 0 the number that is not measured.
func (g *gpu) usualLoad(streams, slots int) gpuLoad {
	if streams == 0 {
		streams = usualStreams
	}
	if slots == 0 {
		slots, _ = g.weights[0].Batch(g.sharedBy(streams))
	}
	return gpuLoad{streams, slots}
}

// chooseLoad returns the load of a GPU for which no number of streams was asked for; slots is the number that was, or 0. It is measured
// where there is a place to remember it.
func (p *engineParts) chooseLoad(ctx context.Context, g *gpu, slots int, logger *slog.Logger) gpuLoad {
	tuner, trial := p.models.tuner, p.loadTrial(g, logger)
	if tuner == nil || trial == nil {
		return g.usualLoad(0, slots)
	}
	return trial.choose(ctx, tuner, p.loadKey(g.multiplied(), g.room(), slots), slots)
}

// choose returns the load that is remembered for a key, or that it finds.
func (t *loadTrial) choose(ctx context.Context, tuner *tuner, key string, slots int) gpuLoad {
	kind := gpuAndDriver{t.gpu.device.Properties().String(), t.gpu.driver.Version().String()}
	return t.remembered(ctx, tuner.loadsOfGPU(kind), key, slots)
}

// loadTrial returns what loads are tried with; nil for models whose input random sentences are not like: language models.
func (p *engineParts) loadTrial(g *gpu, logger *slog.Logger) *loadTrial {
	m := p.models.models[0]
	if slices.Min(append([]int{m.SourceVocabulary}, m.FurtherVocabularies...)) < 2 {
		return nil
	}
	trial := &loadTrial{gpu: g, options: p.config.Search, weights: p.config.Weights, end: p.config.Text.Target.EOS(), vocabulary: m.SourceVocabulary,
		further: m.FurtherVocabularies, limit: loadTime, logger: logger}
	trial.options.MaxLengthFactor = 1
	return trial
}

// remembered returns the load that a file has for a key, and measures it if the file does not say. A device that fails meanwhile has the usual
// load: the engine, which finds that out again, knows what to do.
func (t *loadTrial) remembered(ctx context.Context, file *measurements[gpuAndDriver, gpuLoad], key string, slots int) gpuLoad {
	loads := file.read()
	if known := loads[key]; known.possible(slots) && t.gpu.fits(known) {
		return known
	}
	best := t.gpu.usualLoad(0, slots)
	err := file.write(func() map[string]gpuLoad {
		begin := time.Now()
		var measured bool
		var err error
		if best, measured, err = t.find(ctx, best, slots > 0); measured {
			loads[key] = best
		}
		t.logger.Debug("tried how "+t.gpu.name()+" is kept busy", "took", time.Since(begin).Round(time.Millisecond), "measured", measured, "error", err,
			"file", file.path)
		return loads
	})
	if err != nil {
		t.logger.Debug("how a GPU is kept busy is not remembered", "error", err)
	}
	return best
}

// loadKey names what a load depends on, beside the GPU: that of the models, and how is searched.
func (p *engineParts) loadKey(multiplied string, room, slots int) string {
	o := p.config.Search
	return p.models.loadKey(multiplied, fmt.Sprintf("beam %d, scores %v, samples %v", o.Beam, o.Scores || o.WordScores, o.Sampling), room, slots)
}

// loadKey names what a load depends on, beside the GPU: the models' shapes, the arithmetic, what multiplies, the work, the slots that were
// asked for, and those that there is room for, or what is found beside another process that has the memory would be taken when that has gone.
func (e *ensemble) loadKey(multiplied, work string, room, slots int) string {
	sum := sha256.New()
	for _, m := range e.models {
		_ = json.NewEncoder(sum).Encode(m.Architecture) // plain fields, which can always be written
	}
	return fmt.Sprintf("models %x, %v, alphas %v, products by %s, %s, slots %d, room for %d", sum.Sum(nil)[:6], e.onGPU, !e.int8.ignoreAlphas,
		multiplied, work, slots, room)
}
