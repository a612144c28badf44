package monitor

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/translator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixed struct{}

func (fixed) Stats() pipeline.Stats {
	return pipeline.Stats{Admitted: 30, Completed: 20, Records: 10, SourceWords: 77, Flags: map[string]int64{"split": 2}, Commit: 1500 * time.Millisecond}
}

func (fixed) Lanes() []pipeline.LaneState {
	return []pipeline.LaneState{{Name: `a "b"/0`, Committed: job.Position{Record: 9}, InFlight: 3, Age: time.Hour, Still: 2 * time.Second}}
}

func (fixed) Credits() (used, total int64) { return 5, 100 }

type engine struct{}

func (engine) Stats() translator.Stats {
	return translator.Stats{Workers: 2, Slots: 64, Sentences: 12, Redone: 2, Steps: 100, Rows: 5000, Decode: 3 * time.Second}
}

func listen(t *testing.T, pprof bool, stall time.Duration) *Server {
	t.Helper()
	s, err := Listen(Config{
		Stall: stall, Address: "127.0.0.1:0", Pprof: pprof, Pipeline: func() Pipeline { return fixed{} }, Engine: engine{}, Logger: slog.New(slog.DiscardHandler),
		Lag: func() map[string]int64 { return map[string]int64{"x/1": 12} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, s *Server, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get("http://" + s.Address() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func TestMetrics(t *testing.T) {
	status, body := get(t, listen(t, false, 0), "/metrics")
	if status != http.StatusOK {
		t.Fatal(status, body)
	}
	for _, line := range []string{
		`sluice_records_total{stage="read"} 30`, `sluice_records_total{stage="written"} 10`, `sluice_source_words_total 77`,
		`sluice_records_flagged_total{flag="split"} 2`, `sluice_stage_seconds_total{stage="commit"} 1.5`,
		`sluice_credits_bytes{state="used"} 5`, `sluice_lane_frontier_age_seconds{lane="a \"b\"/0"} 3600`,
		`sluice_lane_still_seconds{lane="a \"b\"/0"} 2`,
		`sluice_lane_committed_records{lane="a \"b\"/0"} 9`, `sluice_lane_lag_records{lane="x/1"} 12`, `sluice_lanes_open 1`,
		`sluice_engine_slots 128`, `sluice_engine_rows_total 5000`, `sluice_engine_sentences_total{why="new"} 10`,
		`sluice_engine_seconds_total{stage="decode"} 3`, "# TYPE sluice_records_total counter", "# TYPE sluice_lane_lag_records gauge", "go_goroutines",
	} {
		if !strings.Contains(body, line) {
			t.Errorf("%s is missing in\n%s", line, body)
		}
	}
}

func TestHealth(t *testing.T) {
	expect := func(s *Server, path string, want int) {
		t.Helper()
		if status, body := get(t, s, path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	s := listen(t, true, time.Minute)
	expect(s, "/readyz", 503)
	expect(s, "/healthz", 200)
	s.Ready(true)
	expect(s, "/readyz", 200)
	s.Ready(false)
	expect(s, "/readyz", 503)
	expect(s, "/debug/pprof/cmdline", 200)
	expect(s, "/nothing", 404)
	expect(listen(t, false, 0), "/debug/pprof/cmdline", 404)
	expect(listen(t, false, time.Second), "/healthz", 503) // its lane has made no progress for two seconds
}
