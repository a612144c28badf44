package s3

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/faultproxy"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/producer"
)

// The request that creates an output is given up, and arrives at the store all the same. Its dead letters must be there.
func TestARequestThatArrivesAfterItWasGivenUp(t *testing.T) {
	for _, chained := range []bool{false, true} {
		f := newFixture(t)
		if chained {
			f = newChainFixture(t, Chain{Suffix: ".txt"})
		}
		f.config.DeadLetters = "s3://" + f.bucket + "/dead/"
		direct := f.config.Client
		proxy := newProxy(t, f.store)
		f.config.Client = (&s3test.Store{Endpoint: proxy.URL(), AccessKey: f.store.AccessKey, SecretKey: f.store.SecretKey}).Client(t)
		w, _, err := f.sink(t).Open(withTimeout(t), "topic/3")
		if err != nil {
			t.Fatal(err)
		}
		outputs := run(0, 3)
		outputs[1].Result.Err = errors.New("poison")
		if err := w.Write(withTimeout(t), outputs); err != nil {
			t.Fatal(err)
		}
		// The first attempt reaches the store only after the writer has looked in vain for its object.
		late := make(chan struct{})
		proxy.Plan(func(r *http.Request) faultproxy.Fault {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/out/") {
				body := make([]byte, r.ContentLength)
				if _, err := io.ReadFull(r.Body, body); err != nil {
					t.Error(err)
				}
				metadata := map[string]string{}
				for name, values := range r.Header {
					if key, ok := strings.CutPrefix(strings.ToLower(name), "x-amz-meta-"); ok {
						metadata[key] = values[0]
					}
				}
				_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
				go func() {
					<-late
					if _, err := direct.Put(context.Background(), f.bucket, key, body, s3client.Condition{Absent: true}, metadata); err != nil {
						t.Error(err)
					}
					late <- struct{}{}
				}()
				proxy.Plan(func(r *http.Request) faultproxy.Fault {
					return faultproxy.Fault{Refuse: r.Method == http.MethodPut}
				})
				return faultproxy.Fault{Refuse: true}
			}
			return faultproxy.Fault{}
		})
		if err := w.Finish(withTimeout(t)); err == nil {
			t.Error("a request that failed did not fail")
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		proxy.Plan(nil)
		late <- struct{}{}
		<-late
		for range 2 {
			_, at, err := f.sink(t).Open(withTimeout(t), "topic/3")
			if !chained && !errors.Is(err, producer.ErrDone) || chained && at.Record != 3 {
				t.Errorf("the lane continues at %+v, %v", at, err)
			}
		}
		keys := f.store.Keys(t, f.bucket, "dead/")
		if len(keys) != 1 {
			t.Fatalf("dead letters: %q", keys)
		}
		if data, _ := f.store.Get(t, f.bucket, keys[0]); len(linesOf(t, data)) != 1 {
			t.Errorf("dead letters: %s", data)
		}
	}
}
