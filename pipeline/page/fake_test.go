package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/translator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A stage is a pipeline and its source, as a test sets them.
type stage struct {
	mutex sync.Mutex
	stats pipeline.Stats
	lanes []pipeline.LaneState
	lag   map[string]int64
	done  int64 // of 1000 bytes of input; below 0 nobody knows
}

func newStage(lanes int) *stage {
	s := &stage{lag: map[string]int64{}, done: -1}
	for i := range lanes {
		name := fmt.Sprintf("reviews/%04d", i)
		s.lanes = append(s.lanes, pipeline.LaneState{
			Name: name, Committed: job.Position{Record: int64(1000 + i), Offset: int64(2000 + i)}, InFlight: i % 7, Age: time.Duration(i) * time.Millisecond,
		})
		s.lag[name] = int64(i * 3)
	}
	return s
}

func (s *stage) set(change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change()
}

func (s *stage) Stats() pipeline.Stats {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.stats
}

func (s *stage) Lanes() []pipeline.LaneState {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]pipeline.LaneState{}, s.lanes...)
}

func (s *stage) Credits() (used, total int64) { return 5 << 20, 64 << 20 }

func (s *stage) Lag() map[string]int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.lag) == 0 {
		return nil
	}
	return maps.Clone(s.lag)
}

func (s *stage) Input() (done, total int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.done < 0 {
		return 0, 0
	}
	return s.done, 1000
}

func (s *stage) config(engine Engine) Config {
	return Config{
		Job: Job{
			Name: "reviews-en-de", Source: "reviews (group reviews-en-de)", Sink: "reviews.de", Version: "v1.2.3",
			Settings: []jobfile.Setting{{Path: "name", Value: "reviews-en-de"}, {Path: "source.kafka.sasl.password", Value: "(hidden)"}},
			Model:    Model{Paths: []string{"models/ende-tiny/model.bin"}, Precision: "int8", Fingerprint: "00ff", MadeOf: map[string]string{"beam-size": "1"}, Kernels: []string{"int8: AVX-512 VNNI"}},
		},
		Pipeline: func() Pipeline { return s }, Lag: s.Lag, Input: s.Input, Engine: engine,
	}
}

// An oracle answers what is tried when it is told to.
type oracle struct {
	mutex   sync.Mutex
	stats   translator.Stats
	waiting []job.Segment
	hold    bool
}

func (o *oracle) Stats() translator.Stats {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.stats
}

func (o *oracle) Submit(segment job.Segment) {
	o.mutex.Lock()
	o.waiting = append(o.waiting, segment)
	hold := o.hold
	o.mutex.Unlock()
	if !hold {
		o.answerAll()
	}
}

func (o *oracle) Flush() {}

func (o *oracle) answerAll() {
	o.mutex.Lock()
	segments := o.waiting
	o.waiting = nil
	o.mutex.Unlock()
	for _, segment := range segments {
		if strings.Contains(segment.Text, "poison") {
			segment.Done(job.Result{Err: errors.New("poisoned"), Flags: job.Failed})
			continue
		}
		segment.Done(job.Result{
			SourcePieces: []string{"▁a", "▁b", "</s>"}, Flags: job.Split,
			Hypotheses: []job.Hypothesis{{
				Text: strings.ToUpper(segment.Text), Finished: true, Pieces: []string{"▁X", "▁Y", "</s>"}, Score: -0.5,
				WordScores: []float32{-0.1, -0.2, -0.3}, Alignment: [][]float32{{0.9, 0.1, 0}, {0.2, 0.75, 0.05}, {0, 0, 1}},
			}},
		})
	}
}

func newPage(t *testing.T, config Config) *Page {
	t.Helper()
	p := New(config)
	t.Cleanup(p.Close)
	return p
}

func get(t *testing.T, p http.Handler, path string, into any) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
		}
	}
	return w
}
