package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// How many workers keep a GPU busy, and with how many hypotheses each, is measured where nobody has said it: when a model is loaded onto a
// kind of GPU for the first time, with random sentences. It is remembered as the tuning of products is. No translation depends on it.

const (
	// loadTime is about how long that takes.
	loadTime = 300 * time.Millisecond
	// loadTrials is by how many loads the time is divided.
	loadTrials = 6
	// loadVersion changes with the engine, of which old measurements say nothing, and with how loads are compared.
	loadVersion = 1
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
	now  func() time.Time
	try  func(gpuLoad) (rate float64, err error) // hypotheses advanced a second
	fits func(gpuLoad) bool                      // there is memory for it
}

// find begins with the usual load, tries other numbers of streams, and with the best of them other numbers of slots unless they are given.
// What would begin after the limit is not tried.
func (s *loadSearch) find(usual gpuLoad, slotsGiven bool, limit time.Duration) (gpuLoad, error) {
	end := s.now().Add(limit)
	best, most := usual, 0.0
	better := func(l gpuLoad) (bool, error) {
		if !s.fits(l) || s.now().After(end) {
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
	vocabulary int // of the source
	limit      time.Duration
	logger     *slog.Logger
}

// warmUpSteps is after how many steps of a worker its graphs have been captured and its buffers have grown.
const warmUpSteps = 12

// rate returns how many hypotheses a load advances in a second, measured for some time; 0 if there is no memory for it.
func (t *loadTrial) rate(l gpuLoad, took time.Duration) (rate float64, err error) {
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
	for number, w := range workers {
		warm.Add(1)
		all.Go(func() {
			sources := randomSources(rand.New(rand.NewPCG(2018, uint64(number))), l.Slots, t.vocabulary)
			for range warmUpSteps {
				w.busyStep(sources)
			}
			warm.Done()
			<-begin
			for !stop.Load() {
				advanced.Add(w.busyStep(sources))
			}
		})
	}
	warm.Wait()
	began := time.Now()
	close(begin)
	time.Sleep(took)
	stop.Store(true)
	all.Wait()
	rate = float64(advanced.Load()) / time.Since(began).Seconds()
	for _, w := range workers {
		err = errors.Join(err, w.failure())
	}
	return rate, err
}

// open makes the workers of a load.
func (t *loadTrial) open(l gpuLoad) (workers []*gpuWorker, err error) {
	for range l.Streams {
		steppers, err := t.gpu.steppers(l.Slots)
		if err != nil {
			return workers, err
		}
		w, err := newGPUWorker(steppers, t.weights, t.end, t.options)
		if err != nil {
			return workers, err
		}
		workers = append(workers, w)
	}
	return workers, nil
}

// busyStep makes one step of a decoder that always has something to do, and returns how many hypotheses it advanced.
func (w *gpuWorker) busyStep(sources []search.Source) int64 {
	w.refill(sources)
	advanced := w.decoder.Slots() - w.decoder.Free()
	w.decoder.Step()
	return int64(advanced)
}

// find returns the best load that it finds, and whether it measured any: a device on which one sentence takes half of the time, an emulated
// one perhaps, has the usual load, and so has one without memory for any.
func (t *loadTrial) find(usual gpuLoad, slotsGiven bool) (best gpuLoad, measured bool, err error) {
	begin := time.Now()
	if err := t.translateOne(); err != nil {
		return usual, false, err
	}
	took := time.Since(begin)
	if 2*took > t.limit {
		return usual, false, nil
	}
	try := func(l gpuLoad) (rate float64, err error) {
		rate, err = t.rate(l, t.limit/loadTrials/2)
		measured = measured || rate > 0
		return rate, err
	}
	s := loadSearch{time.Now, try, t.gpu.fits}
	best, err = s.find(usual, slotsGiven, t.limit-took)
	return best, measured && err == nil, err
}

// translateOne translates one sentence.
func (t *loadTrial) translateOne() error {
	source := randomSources(rand.New(rand.NewPCG(2018, 4)), 1, t.vocabulary)
	workers, err := t.open(gpuLoad{1, slotsOf(source[0], t.options)})
	for _, w := range workers {
		w.translate(source)
		err = errors.Join(err, w.failure(), w.close())
	}
	return err
}

// fits says whether the GPU has memory for a load of all models.
func (g *gpu) fits(l gpuLoad) bool {
	for _, weights := range g.weights {
		if !weights.Fits(l.Streams, l.Slots*len(g.weights)) {
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

// A loadFile is the file that remembers loads of a kind of GPU, with one driver.
type loadFile struct {
	path string
	kind gpuAndDriver
}

type gpuAndDriver struct {
	Device string `json:"device"`
	Driver string `json:"driver"`
}

// knownLoads is the content of the file: loads by what they were measured with.
type knownLoads struct {
	Version int `json:"version"`
	gpuAndDriver
	Loads map[string]gpuLoad `json:"loads"`
}

// loadsOfGPU returns the file for a kind of GPU, beside that for the processor.
func (t *tuner) loadsOfGPU(kind gpuAndDriver) *loadFile {
	return &loadFile{t.fileOf("gpu-loads", kind), kind}
}

// read returns what is known, nothing if the file cannot be understood.
func (f *loadFile) read() map[string]gpuLoad {
	var known knownLoads
	err := readTuning(f.path, &known)
	if err != nil || known.Version != loadVersion || known.gpuAndDriver != f.kind || known.Loads == nil {
		return map[string]gpuLoad{}
	}
	return known.Loads
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
		slots, _ = g.weights[0].Batch(streams)
	}
	return gpuLoad{streams, slots}
}

// chooseLoad returns the load of a GPU for which no number of streams was asked for; slots is the number that was, or 0. It is measured
// where there is a place to remember it.
func (p *engineParts) chooseLoad(g *gpu, slots int, logger *slog.Logger) gpuLoad {
	tuner, m := p.models.tuner, p.models.models[0]
	if tuner == nil || m.SourceVocabulary < 2 || len(m.FurtherVocabularies) > 0 {
		return g.usualLoad(0, slots)
	}
	trial := &loadTrial{gpu: g, options: p.config.Search, weights: p.config.Weights, end: p.config.Text.Target.EOS(), vocabulary: m.SourceVocabulary,
		limit: loadTime, logger: logger}
	trial.options.MaxLengthFactor = 1
	return trial.remembered(tuner.loadsOfGPU(gpuAndDriver{g.device.Properties().String(), g.driver.Version().String()}), p.loadKey(g.room(), slots), slots)
}

// remembered returns the load that a file has for a key, and measures it if the file does not say. That happens with the new file open:
// where there can be none, nothing is measured. A device that fails meanwhile has the usual load: the engine, which finds that out again,
// knows what to do.
func (t *loadTrial) remembered(file *loadFile, key string, slots int) gpuLoad {
	loads := file.read()
	if known := loads[key]; known.possible(slots) && t.gpu.fits(known) {
		return known
	}
	best := t.gpu.usualLoad(0, slots)
	err := writeTuning(file.path, func() any {
		begin := time.Now()
		var measured bool
		var err error
		if best, measured, err = t.find(best, slots > 0); measured {
			loads[key] = best
		}
		t.logger.Debug("tried how "+t.gpu.name()+" is kept busy", "took", time.Since(begin).Round(time.Millisecond), "measured", measured, "error", err,
			"file", file.path)
		return knownLoads{loadVersion, file.kind, loads} // of two that measure at a time, the last one stays
	})
	if err != nil {
		t.logger.Debug("how a GPU is kept busy is not remembered", "error", err)
	}
	return best
}

// loadKey names what a load depends on, beside the GPU: the models' shapes, the arithmetic, how is searched, the slots that were asked for, and
// those that there is room for, or what is found beside another process that has the memory would be taken when that has gone.
func (p *engineParts) loadKey(room, slots int) string {
	sum := sha256.New()
	for _, m := range p.models.models {
		_ = json.NewEncoder(sum).Encode(m.Architecture) // plain fields, which can always be written
	}
	o := p.config.Search
	return fmt.Sprintf("models %x, %v, beam %d, scores %v, samples %v, slots %d, room for %d", sum.Sum(nil)[:6], p.models.onGPU, o.Beam, o.Scores || o.WordScores,
		o.Sampling, slots, room)
}
