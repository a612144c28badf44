package paritytest

import (
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// A device is the models of a recording, ready to run on the CPU. With noise, their log-probabilities are moved a little.
type device struct {
	weights []*cpumodel.Weights
	noise   *noise
}

// NewSteppers makes one Stepper for each model.
func (d *device) NewSteppers(slots int) []search.Stepper {
	var steppers []search.Stepper
	for _, weights := range d.weights {
		stepper := search.Stepper(weights.NewStepper(slots))
		if d.noise != nil {
			stepper = &noisyStepper{Stepper: stepper, noise: d.noise}
		}
		steppers = append(steppers, stepper)
	}
	return steppers
}

// A setup is a recording's models and vocabularies.
type setup struct {
	device device
	gpu    translator.Models // in place of device, if it is not nil
	text   translator.Text
}

// open loads what a recording was made with.
func (r *recording) open(t *testing.T) *setup {
	t.Helper()
	s := new(setup)
	s.text = translator.Text{Source: openVocab(t, r.vocabs[0]), Target: openVocab(t, r.vocabs[len(r.vocabs)-1]), KeepPieces: true, MaxLength: 1000}
	for _, name := range r.models {
		file, err := marian.Open(sharedtest.Path(t, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		m, err := model.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		precision := cpumodel.Float32
		if r.int8 || r.quantised() {
			precision = cpumodel.Int8
		}
		options := cpumodel.Options{Suppress: []search.Token{s.text.Target.Unk()}}
		if r.target != "" { // the scorer knows no better translation of an unknown word
			options.Suppress = nil
		}
		for i := 1; i < m.Sources(); i++ {
			s.text.Further = append(s.text.Further, openVocab(t, r.vocabs[i]))
		}
		weights, err := cpumodel.Load(m, precision, options)
		if err != nil {
			t.Fatal(err)
		}
		s.device.weights = append(s.device.weights, weights)
		s.text.RightLeft = m.RightLeft
	}
	if r.shortlist != "" {
		var err error
		s.text.Shortlist, err = shortlist.Open(sharedtest.Path(t, r.shortlist), shortlist.Options{
			Parameters: shortlist.Defaults(), Shared: true, Source: s.text.Source, Target: s.text.Target,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func openVocab(t *testing.T, name string) vocab.Vocabulary {
	t.Helper()
	v, err := vocab.Open(sharedtest.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// translate returns the results for the lines.
func (s *setup) translate(t *testing.T, r *recording, lines []string, disturbance *noise) []job.Result {
	t.Helper()
	cpu := s.device
	cpu.noise = disturbance
	models := translator.Models(&cpu)
	if s.gpu != nil {
		models = s.gpu
	}
	engine, err := translator.New(translator.Config{
		Models: models, Weights: r.weights, Text: s.text, Search: r.options, KeepRepetition: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	results := make([]job.Result, len(lines))
	var waiting sync.WaitGroup
	for i, line := range lines {
		waiting.Add(1)
		engine.Submit(job.Segment{Text: line, Done: func(result job.Result) {
			results[i] = result
			waiting.Done()
		}})
	}
	engine.Flush()
	waiting.Wait()
	for i, result := range results {
		if result.Err != nil {
			t.Fatalf("line %d: %v", i+1, result.Err)
		}
	}
	return results
}
