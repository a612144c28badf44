package readahead_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/readahead"
)

func TestRecordsComeInOrderAndThenTheEnd(t *testing.T) {
	defer goleak.VerifyNone(t)
	q := readahead.New()
	const n = 5000
	go func() {
		for i := range n {
			q.Put(job.Record{Seq: int64(i), Size: 1000})
		}
		q.End(io.EOF)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	next := int64(0)
	for {
		records, err := q.Take(ctx)
		if err != nil {
			if err != io.EOF || next != n {
				t.Errorf("%v after %d records", err, next)
			}
			return
		}
		bytes := 0
		for _, record := range records {
			if record.Seq != next {
				t.Fatalf("record %d, want %d", record.Seq, next)
			}
			next++
			bytes += record.Size
		}
		if bytes > 1<<20 {
			t.Fatalf("%d bytes were held", bytes)
		}
	}
}

func TestCloseEndsAPutThatWaits(t *testing.T) {
	q := readahead.New()
	put := make(chan bool)
	go func() {
		for q.Put(job.Record{Size: 1 << 19}) {
		}
		put <- false
	}()
	q.Close()
	select {
	case <-put:
	case <-time.After(10 * time.Second):
		t.Error("Put waits")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := q.Take(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Take: %v", err)
	}
}
