package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

// A sink that stalls in one lane, holding whatever that lane may have, does not keep the other lanes from getting on.
func TestStalledLaneLeavesTheOthersTheirPart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		source, sink := &memorySource{lanes: 64, records: 500, batch: 50}, newMemorySink()
		sink.stall = map[string]struct{}{"lane1": {}, "lane2": {}}
		config := Config{Memory: 100_000, Lanes: 64, Stall: time.Hour}
		err := New(config, source, sink, newShuffler(100)).Run(t.Context())
		if !errors.Is(err, ErrStalled) {
			t.Fatalf("Run: %v", err)
		}
		for i := 3; i <= 64; i++ {
			if lane := fmt.Sprint("lane", i); len(sink.durable[lane]) != 500 {
				t.Errorf("%s: %d records of 500", lane, len(sink.durable[lane]))
			}
		}
	})
}

// Where several workers share a source, a lane that somebody else writes ends without failing the others.
func TestLaneOfAnotherWorker(t *testing.T) {
	for _, shared := range []bool{true, false} {
		source, sink := &memorySource{lanes: 4, records: 100}, newMemorySink()
		sink.fenced = map[string]struct{}{"lane2": {}}
		p := New(Config{Shared: shared, Memory: 10_000}, source, sink, newShuffler(10))
		err := p.Run(context.Background())
		switch {
		case !shared:
			if !errors.Is(err, producer.ErrFenced) {
				t.Errorf("not shared: %v", err)
			}
		case err != nil:
			t.Errorf("shared: %v", err)
		case p.Stats().LanesLost != 1 || p.Stats().Lanes != 3:
			t.Errorf("%+v", p.Stats())
		case !p.budget.credits.TryAcquire(p.budget.total):
			t.Error("the lost lane kept its credits")
		}
	}
}

func TestTooManyFailures(t *testing.T) {
	for limit, stops := range map[float64]bool{0: false, 0.05: true, 0.2: false} {
		sink := newMemorySink()
		err := New(Config{MaxFailed: limit}, &memorySource{lanes: 1, records: 5000}, sink, newShuffler(10)).Run(context.Background())
		if errors.Is(err, ErrTooManyFailed) != stops {
			t.Errorf("a tenth fails and %v is allowed: %v", limit, err)
		}
		checkPrefix(t, sink)
	}
}

func TestLanes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := newMemorySink()
		sink.stall = map[string]struct{}{"lane1": {}, "lane2": {}}
		ctx, cancel := context.WithCancel(t.Context())
		p := New(Config{}, &memorySource{lanes: 2, records: 10}, sink, newShuffler(1))
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		time.Sleep(time.Minute)
		lanes := p.Lanes()
		if len(lanes) != 2 || lanes[0].Name != "lane1" || lanes[1].Age < 59*time.Second {
			t.Errorf("%+v", lanes)
		}
		cancel()
		<-done
		if n := len(p.Lanes()); n != 0 {
			t.Errorf("%d lanes are open after the end", n)
		}
	})
}

// Whoever wants to is told of every output that is out of the ordinary, and of no other.
func TestNotable(t *testing.T) {
	told := map[string]int{}
	var mutex sync.Mutex
	config := Config{Notable: func(lane string, output *job.Output) {
		mutex.Lock()
		defer mutex.Unlock()
		if output.Result.Err == nil && output.Result.Flags == 0 {
			t.Errorf("%s record %d is nothing to tell of", lane, output.Record.Seq)
		}
		told[lane]++
	}}
	p := New(config, &memorySource{lanes: 3, records: 200}, newMemorySink(), newShuffler(10))
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	flags := p.Stats().Flags // of which no record has two here
	if want := flags[job.Unreadable.String()] / 3; len(flags) != 1 || want == 0 || len(told) != 3 || int64(told["lane1"]) != want {
		t.Errorf("told of %v, flags %v", told, flags)
	}
}
