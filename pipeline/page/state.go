package page

import (
	"cmp"
	"math"
	"net/http"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/translator"
)

// The stages that time is spent in: of lanes, then of the engine's workers.
const (
	readStage = iota
	waitStage
	writeStage
	commitStage
	encodeStage
	decodeStage
	idleStage
	stageCount
)

var stageNames = [stageCount]string{"read", "wait", "write", "commit", "encode", "decode", "idle"}

// A State is what a job is doing at a moment.
type State struct {
	Time    int64    `json:"time"`    // milliseconds since 1970
	Started int64    `json:"started"` // the same
	Ready   bool     `json:"ready"`
	Now     Rates    `json:"now"`
	Total   Totals   `json:"total"`
	Stages  []Stage  `json:"stages"`
	Engine  *Engines `json:"engine,omitempty"`
	Memory  Memory   `json:"memory"`
	Left    *Left    `json:"left,omitempty"` // nil where nobody knows
	Lanes   Lanes    `json:"lanes"`
	Kept    Kept     `json:"kept"`
}

// Rates are those of the last seconds.
type Rates struct {
	Words   float64 `json:"words"`
	Records float64 `json:"records"`
	Decoder float64 `json:"decoder"` // share of a worker's slots that a step advances
	Encoder float64 `json:"encoder"` // pieces of a mini-batch
	Busy    float64 `json:"busy"`    // share of the workers' time
	Flight  int64   `json:"flight"`  // records
	Lag     int64   `json:"lag"`     // records; -1 where nothing knows
	Age     float64 `json:"age"`     // seconds that the oldest record has been in flight
}

// Totals count since the job was started.
type Totals struct {
	Admitted  int64            `json:"admitted"`
	Completed int64            `json:"completed"`
	Written   int64            `json:"written"`
	Resumed   int64            `json:"resumed"`
	Words     int64            `json:"words"`
	Source    int64            `json:"sourcePieces"`
	Target    int64            `json:"targetPieces"`
	Done      int64            `json:"lanesDone"`
	Before    int64            `json:"lanesDoneBefore"`
	Lost      int64            `json:"lanesLost"`
	Flags     map[string]int64 `json:"flags"`
}

// A Stage is where time goes, summed over lanes or workers.
type Stage struct {
	Name   string  `json:"name"`
	Total  float64 `json:"total"`  // seconds
	Lately float64 `json:"lately"` // in each second of the last minute
}

// Engines is what the engine has to do.
type Engines struct {
	Workers int   `json:"workers"`
	Slots   int   `json:"slots"` // of one worker
	Waiting int   `json:"waiting"`
	Redone  int64 `json:"redone"`
	Precise int64 `json:"precise"`
}

// Memory is in bytes.
type Memory struct {
	Process int64 `json:"process"` // of the Go runtime
	Used    int64 `json:"used"`    // of the budget for records in flight
	Budget  int64 `json:"budget"`
}

// Left says how much is left.
type Left struct {
	Of      string  `json:"of"`      // input: until its end; lag: until nothing is behind
	Share   float64 `json:"share"`   // of the input that is done; 0 for lag
	Seconds float64 `json:"seconds"` // -1 where it does not get less
}

// Lanes are those that were asked for.
type Lanes struct {
	Open     int    `json:"open"`
	Matching int    `json:"matching"`
	Shown    []Lane `json:"shown"`
}

// A Lane is how far a lane is.
type Lane struct {
	Name      string  `json:"name"`
	Committed int64   `json:"committed"` // records
	Offset    int64   `json:"offset"`
	Flight    int     `json:"flight"`
	Age       float64 `json:"age"`   // seconds
	Lag       int64   `json:"lag"`   // records; -1 where nothing knows
	Share     float64 `json:"share"` // of its input that was read; -1 where nobody knows
}

// Kept tells how many records out of the ordinary there were, so that whoever shows them knows when to look again.
type Kept struct {
	Failed  int64 `json:"failed"`
	Flagged int64 `json:"flagged"`
}

// A snapshot is what all who look share.
type snapshot struct {
	at           time.Time
	stats        pipeline.Stats
	engine       translator.Stats
	lanes        []Lane
	used, budget int64
	lag, flight  int64
	age          time.Duration
	memory       int64
	share        float64
}

// freshness is for how long a snapshot counts as new. It bounds what it costs to be looked at.
const freshness = 200 * time.Millisecond

// look returns a snapshot of the pipeline.
func (p *Page) look() *snapshot {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.last != nil && time.Since(p.last.at) < freshness {
		return p.last
	}
	p.last = p.take()
	return p.last
}

func (p *Page) take() *snapshot {
	of := p.config.Pipeline()
	s := &snapshot{at: time.Now(), stats: of.Stats(), lag: -1, memory: residentMemory(), share: math.NaN()}
	s.used, s.budget = of.Credits()
	if p.config.Engine != nil {
		s.engine = p.config.Engine.Stats()
	}
	var behind map[string]int64
	if p.config.Lag != nil {
		if behind = p.config.Lag(); behind != nil {
			s.lag = 0
		}
	}
	for _, n := range behind {
		s.lag += n
	}
	for _, state := range of.Lanes() {
		lane := Lane{
			Name: state.Name, Committed: state.Committed.Record, Offset: state.Committed.Offset, Flight: state.InFlight,
			Age: state.Age.Seconds(), Lag: -1, Share: -1,
		}
		if n, known := behind[state.Name]; known {
			lane.Lag = n
		}
		if state.Total > 0 {
			lane.Share = min(1, float64(state.Read)/float64(state.Total))
		}
		s.lanes = append(s.lanes, lane)
		s.flight += int64(state.InFlight)
		s.age = max(s.age, state.Age)
	}
	if p.config.Input != nil {
		if done, total := p.config.Input(); total > 0 {
			s.share = min(1, float64(done)/float64(total))
			if s.stats.Admitted > 0 { // what is in flight is not done
				s.share *= float64(s.stats.Completed) / float64(s.stats.Admitted)
			}
		}
	}
	return s
}

// residentMemory is what the Go runtime has of the system's memory. Files that are mapped are not part of it.
func residentMemory() int64 {
	of := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(of)
	return int64(of[0].Value.Uint64() - of[1].Value.Uint64())
}

// sample is what the history keeps of a snapshot.
func (s *snapshot) sample() sample {
	return sample{
		at: s.at, completed: s.stats.Completed, words: s.stats.CompletedWords,
		rows: s.engine.Rows, steps: s.engine.Steps, pieces: s.engine.Tokens, encodings: s.engine.MiniBatches, slots: int64(s.engine.Slots),
		stages: [stageCount]time.Duration{s.stats.Read, s.stats.Wait, s.stats.Write, s.stats.Commit, s.engine.Encode, s.engine.Decode, s.engine.Idle},
		lag:    max(0, s.lag), flight: s.flight, memory: s.memory, age: s.age, share: s.share,
	}
}

// How far back rates look.
const (
	recently = 5 * time.Second
	lately   = time.Minute
)

// state is a snapshot with the lanes that were asked for.
func (p *Page) state(lanes Lanes) *State {
	s := p.look()
	now := s.sample()
	state := &State{
		Time: s.at.UnixMilli(), Started: p.started.UnixMilli(), Ready: p.config.Ready == nil || p.config.Ready(),
		Total: Totals{
			Admitted: s.stats.Admitted, Completed: s.stats.Completed, Written: s.stats.Records, Resumed: s.stats.Resumed, Words: s.stats.SourceWords,
			Source: s.stats.SourceTokens, Target: s.stats.TargetTokens, Done: s.stats.Lanes, Before: s.stats.LanesAlreadyDone,
			Lost: s.stats.LanesLost, Flags: s.stats.Flags,
		},
		Now:    Rates{Flight: s.flight, Lag: s.lag, Age: s.age.Seconds()},
		Memory: Memory{s.memory, s.used, s.budget},
		Lanes:  lanes, Kept: p.records.kept(),
	}
	if p.config.Engine != nil {
		state.Engine = &Engines{s.engine.Workers, s.engine.Slots, s.engine.Waiting, s.engine.Redone, s.engine.Precise}
	}
	state.Now.fill(p.history.ago(s.at, recently), &now)
	minute := p.history.ago(s.at, lately)
	for i, name := range stageNames[:] {
		if i >= encodeStage && p.config.Engine == nil {
			break
		}
		stage := Stage{Name: name, Total: now.stages[i].Seconds()}
		if minute != nil && now.at.After(minute.at) {
			stage.Lately = now.since(minute, i) / now.at.Sub(minute.at).Seconds()
		}
		state.Stages = append(state.Stages, stage)
	}
	state.Left = left(minute, &now, s.lag)
	return state
}

// fill computes rates between two samples. What has no value stays 0.
func (r *Rates) fill(from, to *sample) {
	if from == nil || !to.at.After(from.at) {
		return
	}
	var c Curves
	c.add(from, to)
	number := func(x series) float64 {
		if math.IsNaN(x[0]) || math.IsInf(x[0], 0) {
			return 0
		}
		return roundedTo4(x[0])
	}
	r.Words, r.Records = number(c.Words), number(c.Records)
	r.Decoder, r.Encoder, r.Busy = number(c.Decoder), number(c.Encoder), number(c.Busy)
}

// left extrapolates what was done since a sample.
func left(from, to *sample, lag int64) *Left {
	known := !math.IsNaN(to.share)
	if from == nil || !known && lag < 0 {
		return nil
	}
	seconds := to.at.Sub(from.at).Seconds()
	remaining := func(rest, done float64) float64 {
		switch {
		case rest <= 0:
			return 0
		case !(done > 0) || seconds <= 0: // NaN: it was not known then
			return -1
		}
		return rest / (done / seconds)
	}
	if known {
		return &Left{Of: "input", Share: to.share, Seconds: remaining(1-to.share, to.share-from.share)}
	}
	return &Left{Of: "lag", Seconds: remaining(float64(lag), float64(from.lag-lag))}
}

// Most lanes that are shown at a time, and how many are if nothing is said.
const (
	mostLanes  = 1000
	usualLanes = 50
)

// serveState answers with the state and lanes: those with find= in their name, sorted by sort=, limit= of them.
func (p *Page) serveState(w http.ResponseWriter, r *http.Request) {
	limit, err := number(r.FormValue("limit"), usualLanes, mostLanes)
	order, known := laneOrders[cmp.Or(r.FormValue("sort"), "age")]
	switch {
	case err != nil:
		http.Error(w, "limit is a number", http.StatusBadRequest)
	case !known:
		http.Error(w, "sort is name, committed, flight, age, lag or share", http.StatusBadRequest)
	default:
		answer(w, p.state(pick(p.look().lanes, r.FormValue("find"), order, limit)))
	}
}

// number reads a number from 0 to most.
func number(text string, otherwise, most int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	return min(max(n, 0), most), err
}

// laneOrders say which lanes come first: those to look at. Equal ones are sorted by name.
var laneOrders = map[string]func(a, b *Lane) int{
	"name":      func(*Lane, *Lane) int { return 0 },
	"committed": func(a, b *Lane) int { return cmp.Compare(b.Committed, a.Committed) },
	"flight":    func(a, b *Lane) int { return cmp.Compare(b.Flight, a.Flight) },
	"age":       func(a, b *Lane) int { return cmp.Compare(b.Age, a.Age) },
	"lag":       func(a, b *Lane) int { return cmp.Compare(b.Lag, a.Lag) },
	"share":     func(a, b *Lane) int { return cmp.Compare(b.Share, a.Share) },
}

func pick(all []Lane, find string, order func(a, b *Lane) int, limit int) Lanes {
	find = strings.ToLower(find)
	var matching []*Lane
	for i := range all {
		if strings.Contains(strings.ToLower(all[i].Name), find) {
			matching = append(matching, &all[i])
		}
	}
	slices.SortStableFunc(matching, order)
	lanes := Lanes{Open: len(all), Matching: len(matching), Shown: make([]Lane, min(limit, len(matching)))}
	for i := range lanes.Shown {
		lanes.Shown[i] = *matching[i]
	}
	return lanes
}
