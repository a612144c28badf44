// Package monitor shows from outside what a pipeline is doing: Prometheus metrics, health, readiness and, if wanted, a page and
// profiles. It says who may see them, and keeps the server within limits whoever asks.
package monitor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-mt/sluice/pipeline"
)

// Config says what is served.
type Config struct {
	Address  string                  // to listen at, such as :9090
	Pprof    bool                    // serve profiles, to those who may see the page
	Page     http.Handler            // answers everything that is not named below; nil where there is none
	Act      http.Handler            // answers below /act/ and changes what the job does; nil where nothing can be changed
	Access   Access                  // to Page, Act and profiles
	Pipeline func() Pipeline         // the present one
	Engine   Engine                  // nil where there is none
	Stall    time.Duration           // a lane that stands still for longer makes the process sick; 0 is for ever
	Lag      func() map[string]int64 // records that each lane is behind; nil where nothing knows
	Logger   *slog.Logger
}

// A Server serves
//
//	/metrics  everything that can be counted, for Prometheus
//	/healthz  200 as long as the process answers and the pipeline makes progress
//	/readyz   200 between Ready(true) and Ready(false)
//	/         Config.Page
//	/act/     Config.Act
type Server struct {
	listener net.Listener
	server   *http.Server
	ready    atomic.Bool
	ended    chan struct{}
}

// Listen starts a server.
func Listen(config Config) (*Server, error) {
	listener, err := net.Listen("tcp", config.Address)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		&collector{pipeline: config.Pipeline, engine: config.Engine, lag: config.Lag},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	s := &Server{listener: listener, ended: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes, Timeout: scrapeTimeout}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, config.healthy(), "no progress") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.ready.Load(), "not ready") })
	gate := newGate(config.Access)
	if config.Page != nil {
		mux.Handle("/", gate.reading(config.Page))
	}
	if config.Act != nil {
		mux.Handle("/act/", gate.changing(config.Act))
	}
	if config.Pprof {
		mux.Handle("/debug/pprof/", gate.reading(profiles()))
	}
	s.server = newHTTPServer(mux, config.Pprof)
	go func() {
		defer close(s.ended)
		limited := newLimitedListener(listener, mostConnections, mostOfOneHost)
		if err := s.server.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
			config.Logger.Error("metrics can no longer be read", "error", err)
		}
	}()
	return s, nil
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// healthy says whether every lane makes progress.
func (c *Config) healthy() bool {
	return c.Stall <= 0 || !slices.ContainsFunc(c.Pipeline().Lanes(), func(lane pipeline.LaneState) bool { return lane.Still > c.Stall })
}

func answer(w http.ResponseWriter, well bool, otherwise string) {
	if !well {
		http.Error(w, otherwise, http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// IsReady is what /readyz answers.
func (s *Server) IsReady() bool { return s.ready.Load() }

// Ready sets what /readyz answers.
func (s *Server) Ready(ready bool) { s.ready.Store(ready) }

// Close ends the server. Requests that are being answered have until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	<-s.ended
	return err
}
