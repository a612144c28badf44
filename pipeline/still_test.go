package pipeline

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
)

// A slowTranslator translates one segment after the other, in the order in which they come.
type slowTranslator struct {
	each   time.Duration
	stop   int    // it answers so many and then no more; 0 for all
	forget string // the text that it never answers

	mutex    sync.Mutex
	queue    []job.Segment
	working  bool
	answered int
}

func (s *slowTranslator) Flush() {}

func (s *slowTranslator) Submit(segment job.Segment) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if segment.Text == s.forget {
		return
	}
	s.queue = append(s.queue, segment)
	s.next()
}

// next begins with the next segment. The lock is held.
func (s *slowTranslator) next() {
	if s.working || len(s.queue) == 0 || s.stop > 0 && s.answered == s.stop {
		return
	}
	s.working = true
	time.AfterFunc(s.each, s.answer)
}

func (s *slowTranslator) answer() {
	s.mutex.Lock()
	segment := s.queue[0]
	s.queue, s.working = s.queue[1:], false
	s.answered++
	s.next()
	s.mutex.Unlock()
	segment.Done(job.Result{Hypotheses: []job.Hypothesis{{Text: "<" + segment.Text + ">"}}})
}

// Behind a slow translator and a long queue every record is old, and a lane may wait for others for long. That is no standstill.
func TestSlownessIsNoStandstill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := newMemorySink()
		p := New(Config{Stall: 30 * time.Second}, &memorySource{lanes: 4, records: 500, batch: 500}, sink, &slowTranslator{each: time.Second})
		watched := make(chan []LaneState, 1)
		time.AfterFunc(20*time.Minute, func() { watched <- p.Lanes() })
		if err := p.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lane := (<-watched)[0]; lane.Age < 19*time.Minute || lane.Still > time.Second {
			t.Errorf("a record is %v old, and has stood still for %v", lane.Age, lane.Still)
		}
		checkComplete(t, sink, 4, 500)
	})
}

func TestStandstills(t *testing.T) {
	for name, c := range map[string]struct {
		translator *slowTranslator
		records    int
		lane       string
	}{
		"a translator that stops":            {&slowTranslator{each: time.Second, stop: 100}, 500, "lane"},
		"a translator that forgets a record": {&slowTranslator{each: time.Second, forget: "lane2 1"}, 4000, "lane2"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				config := Config{Stall: 30 * time.Second, Overtaken: 1000}
				// A pause passes once both lanes have handed over what they have read, so that neither gets ahead by chance.
				source := &memorySource{lanes: 2, records: c.records, batch: 100, pause: time.Second}
				start := time.Now()
				err := New(config, source, newMemorySink(), c.translator).Run(t.Context())
				if !errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), " of "+c.lane) {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			})
		})
	}
}

// checkComplete checks that each lane has all records.
func checkComplete(t *testing.T, sink *memorySink, lanes, records int) {
	t.Helper()
	checkPrefix(t, sink)
	if len(sink.durable) != lanes {
		t.Errorf("%d lanes were written", len(sink.durable))
	}
	for lane, outputs := range sink.durable {
		if len(outputs) != records {
			t.Errorf("%s: %d records of %d", lane, len(outputs), records)
		}
	}
}
