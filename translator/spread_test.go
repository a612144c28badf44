package translator_test

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// told are models whose Steppers note how many cores they may use.
type told struct {
	translator.Models
	most atomic.Int32
}

func (m *told) NewSteppers(slots int) []search.Stepper {
	steppers := m.Models.NewSteppers(slots)
	for i := range steppers {
		steppers[i] = toldStepper{steppers[i].(spreader), m}
	}
	return steppers
}

type spreader interface {
	search.Stepper
	search.Spreader
	io.Closer
}

type toldStepper struct {
	spreader
	models *told
}

func (s toldStepper) Spread(cores int) {
	for {
		most := s.models.most.Load()
		if int32(cores) <= most || s.models.most.CompareAndSwap(most, int32(cores)) {
			break
		}
	}
	s.spreader.Spread(cores)
}

// one translates one sentence after the other.
func one(engine *translator.Engine, lines []string) []string {
	texts := make([]string, len(lines))
	for i, line := range lines {
		var pending sync.WaitGroup
		pending.Add(1)
		engine.Submit(job.Segment{Text: line, Done: func(r job.Result) { texts[i] = r.Text(); pending.Done() }})
		engine.Flush()
		pending.Wait()
	}
	return texts
}

// A sentence that comes alone has the cores of all workers that have nothing to do, up to the limit, and the translation of one core.
// Nothing is left of them when the engine is closed.
func TestSentenceCores(t *testing.T) {
	before := goleak.IgnoreCurrent()
	lines := sentences(40)
	want := translate(t, engineConfig(t, cpumodel.Int8), lines, nil)
	for _, c := range []struct{ workers, limit, most int }{{1, 0, 1}, {4, 0, 4}, {4, 1, 1}, {4, 3, 3}} {
		config := engineConfig(t, cpumodel.Int8)
		models := &told{Models: config.Models}
		config.Models, config.Batching.Workers, config.Batching.SentenceCores = models, c.workers, c.limit
		engine, err := translator.New(config)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range one(engine, lines) {
			if text != want[i].Text() {
				t.Errorf("%+v: line %d is %q, want %q", c, i, text, want[i].Text())
			}
		}
		engine.Close()
		if most := int(models.most.Load()); most != c.most {
			t.Errorf("%+v: a sentence had %d cores", c, most)
		}
	}
	goleak.VerifyNone(t, before)
}
