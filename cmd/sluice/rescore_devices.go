package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
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
func (m *scoringModel) place(loaded *model.Model, f *scorerFlags, precision string, config rescore.Config, logger *slog.Logger) error {
	if f.device.wanted() {
		err := m.placeOnGPUs(loaded, f, precision, config, logger)
		if err == nil {
			return nil
		}
		if f.device.demanded {
			return demandedError(err)
		}
		logger.Warn("scoring on the CPU", "model", m.path, "reason", err)
	}
	return m.placeOnProcessor(loaded, precision, config)
}

func (m *scoringModel) placeOnProcessor(loaded *model.Model, precision string, config rescore.Config) (err error) {
	if config.NewStepper, err = packForScoring(loaded, precision); err != nil {
		return err
	}
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

func (m *scoringModel) placeOnGPUs(loaded *model.Model, f *scorerFlags, precision string, config rescore.Config, logger *slog.Logger) error {
	e := &ensemble{files: []*marian.File{m.file}, models: []*model.Model{loaded}, scoring: true}
	if err := e.chooseGPUs(f.onDevices(precision), f.device, logger); err != nil {
		return err
	}
	m.gpus = &scoringGPUs{gpus: e.gpus, streams: f.streams, slots: f.slots, tokens: f.miniBatchWords, config: config, logger: logger,
		loaded: loaded, path: m.path}
	m.gpus.choose()
	if err := m.openOnGPUs(); err != nil {
		m.gpus.close()
		m.gpus = nil
		return err
	}
	return nil
}

// scoringGPUs are where a model scores until all of them have failed. The processor scores what float16 cannot hold, in float32, and
// everything once no GPU is left.
type scoringGPUs struct {
	gpus    []*gpu // that have not failed
	streams int
	slots   int
	tokens  int            // source pieces that are encoded together
	config  rescore.Config // of the processor's workers
	logger  *slog.Logger
	loaded  *model.Model
	path    string
	precise *rescore.Scorer // by the processor; nil as long as nobody has needed it
}

func (g *scoringGPUs) close() {
	if g.precise != nil {
		g.precise.Close()
	}
	closeGPUs(g.gpus)
}

// choose fills in what the options leave open.
func (g *scoringGPUs) choose() {
	first := g.gpus[0].worker(g.gpus[0].usualLoad(g.streams, g.slots), &batchFlags{miniBatchWords: g.tokens})
	g.streams, g.slots, g.tokens = first.Workers, first.Slots, first.MiniBatchTokens
	for _, gpu := range g.gpus {
		g.logger.Info("scoring on "+gpu.name(), "model", g.path, "device", gpu.device.Properties(), "streams", g.streams, "slots", g.slots)
	}
}

// onGPUs is the configuration of a Scorer that works on the GPUs, the workers of each one after another.
func (g *scoringGPUs) onGPUs() rescore.Config {
	c, made := g.config, 0
	c.Workers, c.Slots, c.MiniBatchTokens = g.streams*len(g.gpus), g.slots, g.tokens
	c.NewStepper = func(slots int) (search.Stepper, error) {
		on := g.gpus[made/g.streams]
		made++
		return on.weights[0].NewStepper(slots)
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
	err := on.placeOnProcessor(m.gpus.loaded, "float32", m.gpus.config)
	return on.scorer, err
}

// leastScoringTokens is the number of source pieces encoded together from which on nothing is won by halving it: one sentence has more.
const leastScoringTokens = 32

// giveWay does with less what a GPU had no memory for, or without a GPU that failed otherwise.
func (g *scoringGPUs) giveWay(failed *rescore.DeviceError) {
	number := failed.Worker / g.streams
	on := g.gpus[number]
	if errors.Is(failed.Err, cuda.ErrOutOfMemory) && (g.slots > 1 || g.tokens > leastScoringTokens) {
		g.slots, g.tokens = max(g.slots/2, 1), max(g.tokens/2, 1)
		g.logger.Warn(on.name()+" has no memory left: scoring goes on with less", "model", g.path, "slots", g.slots, "reason", failed.Err)
		return
	}
	g.logger.Error(on.name()+" has failed", "model", g.path, "reason", failed.Err)
	on.close()
	g.gpus = append(g.gpus[:number:number], g.gpus[number+1:]...)
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
