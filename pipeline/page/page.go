// Package page is the status page of a running job: what it is doing, how fast, how far, what went wrong, and a box to try a
// sentence in. It is one HTML file with its style and its script, which ask for JSON; nothing comes from anywhere else.
//
// Whatever a job carries and whoever asks, the page keeps a fixed amount of memory: a history of a day in rings, the last records
// out of the ordinary, each cut, and one snapshot of the pipeline that all who look share. Who may look is decided outside, by
// pipeline/monitor.
package page

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/translator"
)

// A Pipeline is what the page looks at.
type Pipeline interface {
	Stats() pipeline.Stats
	Lanes() []pipeline.LaneState
	Credits() (used, total int64)
}

// An Engine translates what is tried, and tells what it does.
type Engine interface {
	Submit(segment job.Segment)
	Flush()
	Stats() translator.Stats
}

// Config says what the page shows.
type Config struct {
	Job      Job
	Pipeline func() Pipeline            // the present one
	Engine   Engine                     // nil where there is none
	Lag      func() map[string]int64    // records that each lane is behind; nil where nothing knows
	Input    func() (done, total int64) // bytes of the whole input; nil where nobody knows how much it is
	Ready    func() bool                // whether the job takes work, which it no longer does when it ends
}

// A Job is what stays the same while a job runs.
type Job struct {
	Name     string            `json:"name"`
	Source   string            `json:"source"`
	Sink     string            `json:"sink"`
	Version  string            `json:"version"`
	Model    Model             `json:"model"`
	Settings []jobfile.Setting `json:"settings"`
	CanStop  bool              `json:"canStop"` // a token allows to end it
}

// A Model is what translates.
type Model struct {
	Paths       []string          `json:"paths"`
	Precision   string            `json:"precision"`
	Fingerprint string            `json:"fingerprint"` // of everything that a translation depends on
	MadeOf      map[string]string `json:"madeOf"`      // of what the fingerprint is made
	Kernels     []string          `json:"kernels"`
	RightLeft   bool              `json:"rightLeft"` // it writes back to front
}

// A Page is the status page of one job.
type Page struct {
	config  Config
	mux     *http.ServeMux
	history *history
	records *records
	trial   *trial // nil without an engine
	started time.Time

	mutex sync.Mutex
	last  *snapshot

	stop  chan struct{}
	ended sync.WaitGroup
}

// New returns a page that collects its history until it is closed.
func New(config Config) *Page {
	p := &Page{
		config: config, history: newHistory(), records: newRecords(), started: time.Now(),
		mux: http.NewServeMux(), stop: make(chan struct{}),
	}
	p.serveAssets()
	p.mux.HandleFunc("GET /api/job", func(w http.ResponseWriter, _ *http.Request) { answer(w, &p.config.Job) })
	p.mux.HandleFunc("GET /api/state", p.serveState)
	p.mux.HandleFunc("GET /api/history", p.serveHistory)
	p.mux.HandleFunc("GET /api/records", p.serveRecords)
	if config.Engine != nil {
		p.trial = newTrial(config.Engine, config.Job.Model.RightLeft)
		p.mux.Handle("POST /api/translate", p.trial)
	}
	p.ended.Go(p.collect)
	return p
}

// Close ends the history.
func (p *Page) Close() {
	close(p.stop)
	p.ended.Wait()
}

// ServeHTTP answers a request for the page or its data.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// collect adds to the history every second.
func (p *Page) collect() {
	ticker := time.NewTicker(tiers[0].every)
	defer ticker.Stop()
	p.history.add(p.look().sample())
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.history.add(p.look().sample())
		}
	}
}

// answer sends JSON.
func answer(w http.ResponseWriter, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // whoever asked may have gone
}

// NewActions returns what answers below /act/: stop is called once, when somebody asks for the end of the job.
func NewActions(stop func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /act/stop", func(w http.ResponseWriter, _ *http.Request) {
		stop()
		answer(w, map[string]bool{"stopping": true})
	})
	return mux
}
