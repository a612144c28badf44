package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/rescore"
	"github.com/sluice-mt/sluice/translator/search"
)

// onDevices is what the options say about devices, in the words of the commands that translate.
func (f *scorerFlags) onDevices(precision string) *modelFlags {
	return &modelFlags{devices: f.devices, streams: f.streams, precision: precision, gpuProducts: gpukernels.OwnProducts.String(), outside: f.said}
}

// place readies a model for GPUs, if they are asked for and can be used, and for the processor otherwise.
func (o *scorerOpener) place(ctx context.Context, m *scoringModel, loaded *model.Model, precision string, config rescore.Config) error {
	threads := rescore.Device{Workers: o.threads, Slots: o.slots, MiniBatchTokens: o.miniBatchWords}
	if o.device.wanted() {
		err := o.placeOnGPUs(ctx, m, loaded, precision, config, threads)
		if err == nil {
			return nil
		}
		if o.device.demanded {
			return demandedError(err)
		}
		o.logger.Warn("scoring on the CPU", "model", m.path, "reason", err)
	}
	return m.placeOnProcessor(loaded, precision, config, threads)
}

func (m *scoringModel) placeOnProcessor(loaded *model.Model, precision string, config rescore.Config, threads rescore.Device) (err error) {
	var chosen cpumodel.Precision
	if threads.NewStepper, chosen, err = packForScoring(loaded, precision); err != nil {
		return err
	}
	m.inFloat32 = chosen == cpumodel.Float32
	config.Devices = []rescore.Device{threads}
	m.scorer, err = m.newScorer(config)
	return err
}

func (m *scoringModel) newScorer(config rescore.Config) (*rescore.Scorer, error) {
	scorer, err := rescore.New(config)
	if errors.Is(err, rescore.ErrConfig) {
		return nil, modelError{fmt.Errorf("%s: %w", m.path, err)}
	}
	return scorer, err
}

func (o *scorerOpener) placeOnGPUs(ctx context.Context, m *scoringModel, loaded *model.Model, precision string, config rescore.Config, threads rescore.Device) error {
	e := &ensemble{files: []*marian.File{m.file}, models: []*model.Model{loaded}, int8: o.onDevices(precision).quantisation(), scoring: true}
	if err := e.chooseGPUs(o.onDevices(precision), o.device, &o.opened, o.logger); err != nil {
		return err
	}
	m.inFloat32 = true
	m.gpus = &scoringGPUs{config: config, threads: threads, logger: o.logger, loaded: loaded, path: m.path}
	for _, g := range e.gpus {
		m.gpus.add(g, g.worker(o.loadOf(ctx, e, g), &batchFlags{miniBatchWords: o.miniBatchWords}))
	}
	if err := m.openOnGPUs(); err != nil {
		m.gpus.close()
		m.gpus, m.inFloat32 = nil, false
		return err
	}
	return nil
}

// loadOf is the load of a GPU with the streams and slots that were asked for. Where no streams were, it is measured, if there is a place to remember
// it.
func (o *scorerOpener) loadOf(ctx context.Context, e *ensemble, g *gpu) gpuLoad {
	var tuner *tuner
	if o.streams == 0 && o.tuneKernels {
		tuner = newTuner(o.logger)
	}
	if tuner == nil {
		return g.usualLoad(o.streams, o.slots)
	}
	m := e.models[0]
	trial := &loadTrial{gpu: g, vocabulary: m.SourceVocabulary, further: m.FurtherVocabularies, scores: m.TargetVocabulary, limit: loadTime,
		logger: o.logger}
	return trial.choose(ctx, tuner, e.loadKey(g.multiplied(), "given translations", g.room(), o.slots), o.slots)
}

// scoringGPUs are where a model scores until all of them have failed. The processor scores what float16 cannot hold, in float32, and
// everything once no GPU is left.
type scoringGPUs struct {
	gpus    []*scoringGPU // that have not failed
	config  rescore.Config
	threads rescore.Device // the processor's workers
	logger  *slog.Logger
	loaded  *model.Model
	path    string
	precise *rescore.Scorer // by the processor; nil as long as nobody has needed it
}

// A scoringGPU is a GPU with what a model has of its memory.
type scoringGPU struct {
	*gpu
	streams int               // workers
	budget  translator.Budget // of each
}

// fewestScored is with how many prefixes at a time a worker goes on while another one can be given up: fewer leave a GPU idle.
const fewestScored = 16

// less takes less of the memory: of more than the usual streams first, then of the budget, and of that with little of it when one stream is left.
// It reports false if there is no less.
func (g *scoringGPU) less() bool {
	if g.streams > usualStreams || g.streams > 1 && g.budget.Slots <= fewestScored {
		g.streams = max(g.streams/2, 1)
		return true
	}
	smaller, ok := g.budget.Half(1)
	if ok {
		g.budget = smaller
	}
	return ok
}

// add lets the model score on a GPU, with the workers that the engine would have there.
func (g *scoringGPUs) add(on *gpu, workers translator.Device) {
	g.gpus = append(g.gpus, &scoringGPU{on, workers.Workers, translator.Budget{Slots: workers.Slots, Tokens: workers.MiniBatchTokens, Encoded: workers.Encoded}})
	g.logger.Info("scoring on "+on.name(), "model", g.path, "device", on.device.Properties(), "streams", workers.Workers, "slots", workers.Slots)
}

func (g *scoringGPUs) close() {
	if g.precise != nil {
		g.precise.Close()
	}
	for _, on := range g.gpus {
		on.close()
	}
}

// onGPUs is the configuration of a Scorer that works on the GPUs.
func (g *scoringGPUs) onGPUs() rescore.Config {
	c := g.config
	for _, on := range g.gpus {
		c.Devices = append(c.Devices, rescore.Device{Workers: on.streams, Slots: on.budget.Slots, TopUp: gpumodel.TopUp, MiniBatchTokens: on.budget.Tokens,
			Encoded: on.budget.Encoded, NewStepper: func(slots int) (search.Stepper, error) { return on.weights[0].NewStepper(slots) }})
	}
	return c
}

// openOnGPUs makes a Scorer on the GPUs that are left. Those that fail meanwhile are given up; if none is left then, the error is that of
// the last.
func (m *scoringModel) openOnGPUs() error {
	for {
		var err error
		var failed *rescore.DeviceError
		if m.scorer, err = m.newScorer(m.gpus.onGPUs()); !errors.As(err, &failed) {
			return err
		}
		if m.gpus.giveWay(failed); len(m.gpus.gpus) == 0 {
			return fmt.Errorf("score with %s: %w", m.path, failed.Err)
		}
	}
}

// goOn makes a Scorer that does without what has failed: with less, on other GPUs, or on the processor. The one that there was must be closed.
func (m *scoringModel) goOn(failed *rescore.DeviceError) error {
	m.scorer = nil
	if m.gpus.giveWay(failed); len(m.gpus.gpus) > 0 {
		if err := m.openOnGPUs(); len(m.gpus.gpus) > 0 {
			return err
		}
	}
	return m.goOnTheProcessor()
}

// goOnTheProcessor takes the processor's Scorer, or makes it.
func (m *scoringModel) goOnTheProcessor() (err error) {
	m.gpus.logger.Error("no GPU is left: the CPU goes on, in float32", "model", m.path)
	if m.scorer, m.gpus.precise = m.gpus.precise, nil; m.scorer != nil {
		return nil
	}
	m.scorer, err = m.onProcessor()
	return err
}

// onProcessor makes a Scorer in float32.
func (m *scoringModel) onProcessor() (*rescore.Scorer, error) {
	on := scoringModel{path: m.path}
	err := on.placeOnProcessor(m.gpus.loaded, "float32", m.gpus.config, m.gpus.threads)
	return on.scorer, err
}

// giveWay does with less what a GPU had no memory for, or without a GPU that failed otherwise.
func (g *scoringGPUs) giveWay(failed *rescore.DeviceError) {
	on := g.gpus[failed.Device]
	if errors.Is(failed.Err, cuda.ErrOutOfMemory) && on.less() {
		g.logger.Warn(on.name()+" has no memory left: scoring goes on with less", "model", g.path, "streams", on.streams, "slots", on.budget.Slots,
			"reason", failed.Err)
		return
	}
	g.logger.Error(on.name()+" has failed", "model", g.path, "reason", failed.Err)
	on.close()
	g.gpus = slices.Delete(g.gpus, failed.Device, failed.Device+1)
}

// score scores lists. What a GPU could not finish is scored again, with less or elsewhere.
func (m *scoringModel) score(ctx context.Context, lists []rescore.List) ([][]rescore.Score, error) {
	for {
		scores, err := m.scorer.Score(ctx, lists)
		var failed *rescore.DeviceError
		if !errors.As(err, &failed) {
			if err == nil && m.gpus != nil && len(m.gpus.gpus) > 0 {
				err = m.scorePrecisely(ctx, lists, scores)
			}
			return scores, err
		}
		m.scorer.Close() // what is lost cannot be closed
		if err := m.goOn(failed); err != nil {
			return nil, err
		}
	}
}

// scorePrecisely scores on the processor what has no score, since float16 cannot hold what becomes of it.
func (m *scoringModel) scorePrecisely(ctx context.Context, lists []rescore.List, scores [][]rescore.Score) error {
	var again []rescore.List
	var places []*rescore.Score
	for i := range lists {
		list := rescore.List{Source: lists[i].Source}
		for j := range scores[i] {
			if !isFinite(scores[i][j].LogProb) {
				list.Translations = append(list.Translations, lists[i].Translations[j])
				places = append(places, &scores[i][j])
			}
		}
		if len(list.Translations) > 0 {
			again = append(again, list)
		}
	}
	if len(again) == 0 {
		return nil
	}
	if m.gpus.precise == nil {
		var err error
		if m.gpus.precise, err = m.onProcessor(); err != nil {
			return err
		}
		m.gpus.logger.Warn("numbers are too large for the GPU's arithmetic: the CPU scores such hypotheses, in float32", "model", m.path)
	}
	precise, err := m.gpus.precise.Score(ctx, again)
	if err != nil {
		return err
	}
	for _, list := range precise {
		for i := range list {
			*places[0], places = list[i], places[1:]
		}
	}
	return nil
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
