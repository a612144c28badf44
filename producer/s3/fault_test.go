package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/faultproxy"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/producer"
)

func newProxy(t testing.TB, store *s3test.Store) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.New(store.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// randomFaults lets a share of requests suffer, each in a way that its kind can suffer.
func randomFaults(seed uint64, share float64) func(*http.Request) faultproxy.Fault {
	var mutex sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	return func(r *http.Request) faultproxy.Fault {
		mutex.Lock()
		defer mutex.Unlock()
		if random.Float64() >= share {
			return faultproxy.Fault{}
		}
		faults := []faultproxy.Fault{
			{Refuse: true}, {LoseAnswer: true}, {Status: 503, Code: "SlowDown"}, {Status: 500, Code: "InternalError"},
			{Delay: time.Duration(random.IntN(20)) * time.Millisecond},
		}
		if r.Header.Get("If-None-Match") != "" {
			faults = append(faults, faultproxy.Fault{Status: 409, Code: "ConditionalRequestConflict"})
		}
		if r.Method == http.MethodGet {
			faults = append(faults, faultproxy.Fault{CutAfter: int64(1 + random.IntN(30_000))}, faultproxy.Fault{SlowBytes: 20_000, SlowPause: time.Millisecond})
		}
		return faults[random.IntN(len(faults))]
	}
}

// Whatever the network does to a third of all requests, everything is done once.
func TestFaultsChangeNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	seeds := 6
	if testing.Short() {
		seeds = 1
	}
	stores(t, func(t *testing.T, store *s3test.Store) {
		proxy := newProxy(t, store)
		for _, s := range shapes {
			t.Run(s.name, func(t *testing.T) {
				faults := proxy.Faults()
				for seed := range seeds {
					w := newWorld(t, store, s.job.Letters, s.lines...)
					c := s.job
					c.Endpoint, c.Bucket, c.Attempts = proxy.URL(), w.bucket, 15
					if strings.HasSuffix(t.Name(), "versitygw/"+strings.ReplaceAll(s.name, " ", "_")) {
						c.PartSize = 0 // a real server wants parts to have some size
					}
					proxy.Plan(randomFaults(uint64(seed), 0.3))
					if err := c.run(withTimeout(t)); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					proxy.Plan(nil)
					c.cleanUp(t)
					w.check(t, &c)
				}
				if n := proxy.Faults() - faults; n < seeds {
					t.Errorf("there were %d faults", n)
				}
			})
		}
	})
}

// cleanUp does what the next start of the job does.
func (c *copyJob) cleanUp(t *testing.T) {
	t.Helper()
	client, err := c.client(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sink := c.newSink(client, c.newSource(client))
	if err := sink.check(); err != nil {
		t.Fatal(err)
	}
	if err := sink.Clean(withTimeout(t), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
}

// writeOne writes n records to a lane and finishes it.
func writeOne(ctx context.Context, sink *Sink, n int) error {
	w, _, err := sink.Open(ctx, "lane.txt")
	if err != nil {
		return err
	}
	var run []job.Output
	for i := range n {
		text := fmt.Sprint("record ", i, strings.Repeat(" x", 50))
		run = append(run, job.Output{Record: job.Record{Seq: int64(i), Text: text, End: job.Position{Record: int64(i + 1), Offset: int64(i + 1)}},
			Result: job.Result{Hypotheses: []job.Hypothesis{{Text: text}}}})
	}
	return errors.Join(w.Write(ctx, run), w.Finish(ctx), w.Close())
}

// The answer to the request that creates an object is lost, and the next attempt finds an object that is our own.
func TestALostAnswerIsNotTakenForAnotherWriter(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		proxy := newProxy(t, store)
		client := (&s3test.Store{Endpoint: proxy.URL(), AccessKey: store.AccessKey, SecretKey: store.SecretKey}).Client(t)
		for name, test := range map[string]struct {
			records int
			chain   *Chain
			loses   func(*http.Request) bool
		}{
			"object":       {10, nil, func(r *http.Request) bool { return r.Method == http.MethodPut }},
			"upload":       {100_000, nil, func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") }},
			"begun upload": {100_000, nil, func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploads") }},
			"chain":        {10, &Chain{Suffix: ".txt"}, func(r *http.Request) bool { return r.Method == http.MethodPut }},
		} {
			t.Run(name, func(t *testing.T) {
				bucket := store.Bucket(t)
				sink := unprobed(Config{Client: client, Job: "test", Output: "s3://" + bucket + "/", Encoder: recordio.NewTextEncoder(), Chain: test.chain, PartSize: s3client.MinPart,
					Key: func(lane string) (string, error) { return lane, nil }})
				if err := sink.Connect(withTimeout(t)); err != nil {
					t.Fatal(err)
				}
				var lost atomic.Int64
				proxy.Plan(func(r *http.Request) faultproxy.Fault {
					return faultproxy.Fault{LoseAnswer: test.loses(r) && strings.Contains(r.URL.Path, "lane") && lost.Add(1) == 1}
				})
				err := writeOne(withTimeout(t), sink, test.records)
				proxy.Plan(nil)
				if err != nil || lost.Load() < 2 {
					t.Errorf("%v, %d attempts", err, lost.Load())
				}
				if err := sink.Clean(withTimeout(t), 0); err != nil {
					t.Error(err)
				}
				if n := store.Uploads(t, bucket, ""); n > 0 {
					t.Errorf("%d uploads are open", n)
				}
				if keys := store.Keys(t, bucket, ""); len(keys) != 1 {
					t.Errorf("objects %q", keys)
				}
			})
		}
	})
}

// A request that conflicts with another again and again is given up, such that the lane can begin anew.
func TestAnEndlessConflictFencesTheWriter(t *testing.T) {
	store := s3test.Fake(t)
	proxy := newProxy(t, store)
	bucket := store.Bucket(t)
	client := (&s3test.Store{Endpoint: proxy.URL(), AccessKey: store.AccessKey, SecretKey: store.SecretKey}).Client(t)
	sink := unprobed(Config{Client: client, Job: "test", Output: "s3://" + bucket + "/", Encoder: recordio.NewTextEncoder(), Key: func(lane string) (string, error) { return lane, nil }})
	if err := sink.Connect(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	proxy.Plan(func(r *http.Request) faultproxy.Fault {
		if r.Method == http.MethodPut {
			return faultproxy.Fault{Status: 409, Code: "ConditionalRequestConflict"}
		}
		return faultproxy.Fault{}
	})
	if err := writeOne(withTimeout(t), sink, 3); !errors.Is(err, producer.ErrFenced) {
		t.Errorf("error %v", err)
	}
	proxy.Plan(nil)
	if err := writeOne(withTimeout(t), sink, 3); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
