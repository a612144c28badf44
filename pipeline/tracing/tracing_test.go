package tracing

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-mt/sluice/pipeline"
)

// A fakeCollector takes traces as an OpenTelemetry collector does.
type fakeCollector struct {
	*httptest.Server
	mutex sync.Mutex
	spans []*otlp.Span
	paths map[string]bool
}

func newCollector(t *testing.T) *fakeCollector {
	c := &fakeCollector{paths: map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil {
			t.Error(err)
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.paths[r.URL.Path] = true
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// aRun takes four seconds in its stages and one in between.
func aRun(lane string, err error) *pipeline.RunTrace {
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	run := &pipeline.RunTrace{
		Lane: lane, From: 10, To: 14, Words: 50, Bytes: 200, Flagged: 1, Err: err,
		Fetched: pipeline.Span{Begin: at(0), End: at(1)}, Translated: pipeline.Span{Begin: at(1), End: at(2)},
		Written: pipeline.Span{Begin: at(3), End: at(4)}, Committed: pipeline.Span{Begin: at(4), End: at(5)},
	}
	if err != nil {
		run.Committed = pipeline.Span{}
	}
	return run
}

func TestRunsArriveAtTheCollector(t *testing.T) {
	c := newCollector(t)
	e, err := Start(context.Background(), Config{Endpoint: c.URL, Share: 1, Job: "reviews", Version: "1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	e.Run(aRun("topic/1", nil))
	e.Run(aRun("topic/2", errors.New("the sink is gone")))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if !c.paths["/v1/traces"] || len(c.spans) != 5+4 {
		t.Fatalf("%d spans, at %v", len(c.spans), c.paths)
	}
	roots := map[string]*otlp.Span{}
	for _, span := range c.spans {
		if span.Name == "run" {
			roots[string(span.TraceId)] = span
		}
	}
	for _, span := range c.spans {
		root := roots[string(span.TraceId)]
		if root == nil || span.StartTimeUnixNano < root.StartTimeUnixNano || span.EndTimeUnixNano > root.EndTimeUnixNano {
			t.Errorf("%v is not within a run", span)
		}
		if span != root && string(span.ParentSpanId) != string(root.SpanId) {
			t.Errorf("%s is not below its run", span.Name)
		}
	}
	for _, root := range roots {
		switch root.Attributes[0].Value.GetStringValue() {
		case "topic/1":
			if took := time.Duration(root.EndTimeUnixNano - root.StartTimeUnixNano); took != 5*time.Second || root.Status.GetMessage() != "" {
				t.Errorf("%v: %v", took, root)
			}
		case "topic/2":
			if root.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || root.Status.Message != "the sink is gone" {
				t.Errorf("%v", root.Status)
			}
		default:
			t.Errorf("%v", root.Attributes)
		}
	}
}

func TestAShareOfTheRuns(t *testing.T) {
	c := newCollector(t)
	e, err := Start(context.Background(), Config{Endpoint: c.URL + "/elsewhere", Share: 0.25, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 400 {
		e.Run(aRun("lane", nil))
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if runs := len(c.spans) / 5; runs < 50 || runs > 150 || !c.paths["/elsewhere"] { // 100, and more than five deviations either way
		t.Errorf("%d of 400 runs, at %v", runs, c.paths)
	}
}

// A collector that is away holds nobody up, and is reported once.
func TestACollectorThatIsAway(t *testing.T) {
	c := newCollector(t)
	c.Close()
	var log strings.Builder
	e, err := Start(context.Background(), Config{Endpoint: c.URL, Share: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	const most = 3 * time.Second
	took := time.Hour
	for round := 0; took > most && round < 5; round++ { // the machine may be busy, but not with this all the time
		start := time.Now()
		for range 10_000 {
			e.Run(aRun("lane", nil))
		}
		took = min(took, time.Since(start))
	}
	if took > most {
		t.Errorf("10,000 runs took %v in the best of five rounds", took)
	}
	_ = e.Close() // whose error says that nothing arrived
	if lines := strings.Count(log.String(), "\n"); lines > 1 {
		t.Errorf("%d lines of log:\n%s", lines, log.String())
	}
}

func TestEndpointsThatAreNone(t *testing.T) {
	for _, endpoint := range []string{"", "localhost:4318", "ftp://a", "http://", "http://a b"} {
		if _, err := Start(context.Background(), Config{Endpoint: endpoint, Share: 1}); err == nil {
			t.Errorf("%q was accepted", endpoint)
		}
	}
}
