package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

const (
	defaultCalibrationBatch = 64
	maxCalibrationBatch     = 1024
	calibrationLength       = 256 // pieces of a sentence that are used
	calibrationLengthFactor = 3   // target tokens for each source token, at most
)

// calibrate translates a text with the model in float32, greedily, as Marian's calibration does, and returns an alpha for
// every product: 127/(mean + 1.1·deviation) of the largest magnitudes that met its weight, one for each time the product was
// computed. That is once for a batch in the encoder and once for each step of a batch in the decoder.
func calibrate(ctx context.Context, file *marian.File, textPath string, batch int,
	vocabularies [2]string) (map[string]float32, error) {
	loaded, err := model.Load(file, nil)
	if err != nil {
		return nil, modelError{err}
	}
	switch {
	case !loaded.HasEncoder():
		return nil, modelError{fmt.Errorf("%s: a language model has no source text to be calibrated with", file.Path)}
	case loaded.Sources() > 1:
		return nil, modelError{fmt.Errorf("%s: a model of several sources cannot be calibrated with a text", file.Path)}
	case vocabularies[0] == "" || vocabularies[1] == "":
		return nil, usageErrorf("--calibrate needs the model's vocabularies, and none lies beside it: give --vocab FILE")
	}
	source, target, err := openVocabularies(vocabularies[0], vocabularies[1])
	if err != nil {
		return nil, err
	}
	if source.Size() != loaded.SourceVocabulary || target.Size() != loaded.TargetVocabulary {
		return nil, modelError{fmt.Errorf("vocabularies of %d and %d pieces do not fit the model's %d and %d",
			source.Size(), target.Size(), loaded.SourceVocabulary, loaded.TargetVocabulary)}
	}
	weights, err := cpumodel.Load(loaded, cpumodel.Float32, cpumodel.Options{Suppress: target.Suppressed()})
	if err != nil {
		return nil, modelError{err}
	}
	c := &calibration{source: source, reversed: loaded.RightLeft, batch: batch, largest: map[string]*moments{}, together: map[string]float32{}}
	if err := c.run(ctx, weights.NewStepper(batch), target.EOS(), textPath); err != nil {
		return nil, err
	}
	return c.alphas(), nil
}

// A calibration gathers what the products of a model are given.
type calibration struct {
	source   vocab.Vocabulary
	reversed bool // the model reads sentences back to front
	batch    int  // sentences translated together
	largest  map[string]*moments
	together map[string]float32 // what has been observed of the present batch: a product may be computed part by part
}

func (c *calibration) run(ctx context.Context, stepper *cpumodel.Stepper, end search.Token, path string) error {
	decoder, err := search.NewDecoder([]search.Stepper{stepper}, nil, end)
	if err != nil {
		return err
	}
	stepper.Observe(c.observe)
	var waiting []*search.Sentence
	batches := 0
	translate := func() error {
		if ctx.Err() != nil {
			return errInterrupted
		}
		batches++
		err := c.translateBatch(decoder, waiting)
		waiting = waiting[:0]
		return err
	}
	err = eachLine(path, func(line string) error {
		if strings.TrimSpace(line) == "" {
			return nil
		}
		if waiting = append(waiting, c.sentence(line)); len(waiting) < c.batch {
			return nil
		}
		return translate()
	})
	if err == nil && len(waiting) > 0 {
		err = translate()
	}
	if err == nil && batches < 2 {
		err = inputError{fmt.Errorf("%s is too short: calibration takes some hundred lines at least", path)}
	}
	return err
}

func (c *calibration) sentence(line string) *search.Sentence {
	tokens := c.source.Encode(line, nil)
	tokens = tokens[:min(len(tokens), calibrationLength)]
	if c.reversed {
		slices.Reverse(tokens)
	}
	return &search.Sentence{
		Source:  search.Source{Tokens: append(tokens, c.source.EOS())},
		Options: search.Options{Beam: 1, MaxLengthFactor: calibrationLengthFactor},
	}
}

// translateBatch runs sentences through the model together; the translations themselves do not matter.
func (c *calibration) translateBatch(decoder *search.Decoder, sentences []*search.Sentence) error {
	decoder.Encode(sentences)
	c.settle()
	for _, sentence := range sentences {
		if !decoder.Start(sentence) {
			return errors.New("calibration: the decoder has no room for a sentence")
		}
	}
	for decoder.Active() > 0 {
		decoder.Step()
		c.settle()
	}
	return nil
}

func (c *calibration) observe(tensor string, largest float32) {
	c.together[tensor] = max(c.together[tensor], largest)
}

// settle takes what was observed of a batch as one observation.
func (c *calibration) settle() {
	for tensor, largest := range c.together {
		m := c.largest[tensor]
		if m == nil {
			m = new(moments)
			c.largest[tensor] = m
		}
		m.add(float64(largest))
	}
	clear(c.together)
}

// alphas are the multipliers of all weights that a converter quantises and that met anything but zeros.
func (c *calibration) alphas() map[string]float32 {
	alphas := make(map[string]float32)
	for name, m := range c.largest {
		ceiling := m.mean + 1.1*m.deviation()
		if marian.Quantized(name, marian.Browsermt) && ceiling > 0 && !math.IsInf(ceiling, 0) {
			alphas[name] = float32(127 / ceiling)
		}
	}
	return alphas
}

// moments are the mean and the spread of numbers that are seen once (Welford 1962).
type moments struct {
	n             int
	mean, squares float64
}

func (m *moments) add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.squares += d * (x - m.mean)
}

// deviation is the standard deviation of the numbers themselves, divided by n.
func (m *moments) deviation() float64 {
	if m.n == 0 {
		return 0
	}
	return math.Sqrt(m.squares / float64(m.n))
}
