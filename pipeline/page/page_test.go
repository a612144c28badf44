package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/translator"
)

// What the page consists of is small and asks for nothing from elsewhere.
func TestAssets(t *testing.T) {
	p := newPage(t, newStage(0).config(nil))
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9]`)
	size := 0
	for path := range files {
		w := get(t, p, path, nil)
		size += w.Body.Len()
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		if found := outside.FindString(text); w.Code != http.StatusOK || w.Body.Len() == 0 || found != "" {
			t.Errorf("%s: %d, %d bytes, asks for %q", path, w.Code, w.Body.Len(), found)
		}
		if strings.Contains(text, " style=") || strings.Contains(text, " onclick=") {
			t.Errorf("%s: has styles or scripts inside, which the policy does not let in", path)
		}
	}
	if size > 100<<10 {
		t.Errorf("the page has %d bytes", size)
	}
	if w := get(t, p, "/nothing", nil); w.Code != http.StatusNotFound {
		t.Errorf("/nothing: %d", w.Code)
	}
}

func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, engine := newStage(3), &oracle{stats: translator.Stats{Workers: 2, Slots: 64}}
		s.lag["reviews/0002"] = 100
		p := New(s.config(engine))
		defer p.Close()
		for range 30 {
			time.Sleep(time.Second)
			s.set(func() {
				s.stats.CompletedWords += 500
				s.stats.Completed += 20
				s.stats.Commit += 250 * time.Millisecond
				s.lag["reviews/0002"]--
			})
			engine.mutex.Lock()
			engine.stats.Steps, engine.stats.Rows = engine.stats.Steps+10, engine.stats.Rows+320
			engine.stats.Tokens, engine.stats.MiniBatches = engine.stats.Tokens+2000, engine.stats.MiniBatches+10
			engine.stats.Decode, engine.stats.Idle = engine.stats.Decode+1500*time.Millisecond, engine.stats.Idle+500*time.Millisecond
			engine.mutex.Unlock()
		}
		time.Sleep(500 * time.Millisecond)
		var state State
		get(t, p, "/api/state?sort=lag", &state)
		if now := state.Now; now.Words < 450 || now.Words > 550 || now.Decoder != 0.5 || now.Encoder != 200 || now.Busy != 0.75 {
			t.Errorf("rates %+v", now)
		}
		if state.Now.Lag != 0+3+100-30 || state.Now.Flight != 0+1+2 || state.Now.Age != 0.002 {
			t.Errorf("gauges %+v", state.Now)
		}
		if commit := state.Stages[commitStage]; commit.Name != "commit" || commit.Total != 7.5 || commit.Lately < 0.2 || commit.Lately > 0.3 {
			t.Errorf("stages %+v", state.Stages)
		}
		if shown := state.Lanes.Shown; len(shown) != 3 || shown[0].Name != "reviews/0002" || shown[0].Lag != 70 || shown[0].Committed != 1002 || shown[0].Share != -1 {
			t.Errorf("lanes %+v", state.Lanes)
		}
		if state.Left == nil || state.Left.Of != "lag" || state.Left.Seconds < 70 || state.Left.Seconds > 80 {
			t.Errorf("left %+v", state.Left)
		}
	})
}

func TestTimeLeft(t *testing.T) {
	at := time.Now()
	sampleOf := func(ago time.Duration, lag int64, share float64) *sample {
		return &sample{at: at.Add(-ago), lag: lag, share: share}
	}
	unknown := math.NaN()
	for _, test := range []struct {
		name     string
		from, to *sample
		lag      int64
		want     *Left
	}{
		{"nothing known", sampleOf(time.Minute, 0, unknown), sampleOf(0, 0, unknown), -1, nil},
		{"no history", nil, sampleOf(0, 5, unknown), 5, nil},
		{"falling", sampleOf(time.Minute, 700, unknown), sampleOf(0, 100, unknown), 100, &Left{"lag", 0, 10}},
		{"rising", sampleOf(time.Minute, 50, unknown), sampleOf(0, 100, unknown), 100, &Left{"lag", 0, -1}},
		{"caught up", sampleOf(time.Minute, 50, unknown), sampleOf(0, 0, unknown), 0, &Left{"lag", 0, 0}},
		{"half", sampleOf(time.Minute, 0, 0.25), sampleOf(0, 0, 0.5), -1, &Left{"input", 0.5, 120}},
		{"known of late", sampleOf(time.Minute, 0, unknown), sampleOf(0, 0, 0.5), -1, &Left{"input", 0.5, -1}},
		{"standing", sampleOf(time.Minute, 0, 0.5), sampleOf(0, 0, 0.5), -1, &Left{"input", 0.5, -1}},
	} {
		got := left(test.from, test.to, test.lag)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// A thousand lanes are one answer of some hundred kilobytes, found, sorted and cut as asked.
func TestManyLanes(t *testing.T) {
	p := newPage(t, newStage(1000).config(nil))
	var state State
	w := get(t, p, "/api/state?limit=5000&sort=name", &state)
	if state.Lanes.Open != 1000 || len(state.Lanes.Shown) != 1000 || state.Lanes.Shown[999].Name != "reviews/0999" || w.Body.Len() > 200<<10 {
		t.Errorf("%d open, %d shown, %d bytes", state.Lanes.Open, len(state.Lanes.Shown), w.Body.Len())
	}
	get(t, p, "/api/state?find=VIEWS/099&limit=2", &state)
	if l := state.Lanes; l.Matching != 10 || len(l.Shown) != 2 || l.Shown[0].Name != "reviews/0999" || l.Shown[1].Name != "reviews/0998" {
		t.Errorf("found %+v", l)
	}
	for _, query := range []string{"sort=weight", "limit=many"} {
		if w := get(t, p, "/api/state?"+query, nil); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
	start := time.Now()
	for range 20 {
		get(t, p, "/api/state", nil)
	}
	if took := time.Since(start) / 20; took > 100*time.Millisecond {
		t.Errorf("a state of a thousand lanes takes %v", took)
	}
}

// Two days of history take what was set aside for them at the beginning, and rates are those of the counts.
func TestHistory(t *testing.T) {
	h := newHistory()
	start := time.Now()
	before := heap()
	const seconds = 2 * 24 * 3600
	for i := range seconds {
		jitter := time.Duration(i%7-3) * 10 * time.Millisecond
		h.add(sample{at: start.Add(time.Duration(i)*time.Second + jitter), words: int64(100 * i), steps: int64(i), rows: int64(32 * i), slots: 64})
	}
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("the history has grown by %d bytes", grown)
	}
	end := start.Add(seconds * time.Second)
	for i, want := range []struct {
		span   time.Duration
		points int
	}{{10 * time.Minute, 600}, {2 * time.Hour, 720}, {24 * time.Hour, 1440}} {
		c := h.curves(i, time.Time{})
		if len(c.Times) != want.points || len(c.Words) != want.points {
			t.Errorf("tier %d has %d points, want %d", i, len(c.Times), want.points)
		}
		if covered := end.Sub(time.UnixMilli(c.Times[0])); covered < want.span-2*tiers[i].every || covered > want.span+2*tiers[i].every {
			t.Errorf("tier %d covers %v", i, covered)
		}
		for k := range c.Words {
			if math.Abs(c.Words[k]-100) > 8 || c.Decoder[k] != 0.5 {
				t.Fatalf("tier %d: %v words a second, %v full at %d", i, c.Words[k], c.Decoder[k], k)
			}
		}
	}
	if n := len(h.curves(0, end.Add(-5*time.Second)).Times); n < 4 || n > 6 {
		t.Errorf("%d points are of the last five seconds", n)
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Counts that begin again, as with each pass of a job, are no negative rates, and what cannot be divided is a gap.
func TestCountsThatBeginAgain(t *testing.T) {
	h, at := newHistory(), time.Now()
	h.add(sample{at: at, words: 5000})
	h.add(sample{at: at.Add(time.Second), words: 30})
	text, err := json.Marshal(h.curves(0, time.Time{}))
	if err != nil || !strings.Contains(string(text), `"words":[30]`) || !strings.Contains(string(text), `"decoder":[null]`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestSeries(t *testing.T) {
	text, err := series{0, 1, 1234567, 0.00123456, math.NaN(), math.Inf(1), 99.996, -2.5}.MarshalJSON()
	if want := "[0,1,1234567,0.001235,null,null,100,-2.5]"; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

func failedOutput(text, why string) *job.Output {
	return &job.Output{Record: job.Record{Seq: 7, Text: text}, Result: job.Result{Err: errors.New(why), Flags: job.Failed}}
}

func flaggedOutput(text, translation string) *job.Output {
	return &job.Output{Record: job.Record{Text: text}, Result: job.Result{Flags: job.Split, Hypotheses: []job.Hypothesis{{Text: translation}}}}
}

func TestRecords(t *testing.T) {
	p := newPage(t, newStage(0).config(nil))
	p.Notable("a/0", failedOutput("Ein Fehler", "no such language"))
	p.Notable("a/1", flaggedOutput("A long text", "Ein langer Text"))
	var found Found
	for query, want := range map[string]string{
		"": "A long text,Ein Fehler", "?find=LANGUAGE": "Ein Fehler", "?find=langer": "A long text", "?find=a/1": "A long text", "?find=split": "A long text",
		"?kind=failed": "Ein Fehler", "?kind=flagged": "A long text", "?kind=flagged&find=language": "", "?limit=1": "A long text",
	} {
		get(t, p, "/api/records"+query, &found)
		var texts []string
		for _, record := range found.Shown {
			texts = append(texts, record.Text)
		}
		if got := strings.Join(texts, ","); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	var state State
	get(t, p, "/api/state", &state)
	if state.Kept != (Kept{1, 1}) {
		t.Errorf("%+v", state.Kept)
	}
	if w := get(t, p, "/api/records?kind=odd", nil); w.Code != http.StatusBadRequest {
		t.Errorf("an odd kind: %d", w.Code)
	}
}

// However many records are out of the ordinary, and however long they are, what is kept of them is bounded, and flags do not push
// out failures.
func TestManyRecords(t *testing.T) {
	r, now := newRecords(), time.Now()
	long := strings.Repeat("ä", 1<<20)
	before := heap()
	r.add("lane", failedOutput("the first", "why"), now)
	for i := range 5000 {
		r.add(long, flaggedOutput(long, long), now.Add(time.Duration(i)*10*time.Millisecond))
		if i < 499 {
			r.add(long, failedOutput(long, long), now)
		}
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("records have grown by %d bytes", grown)
	}
	found := r.find("the first", true, true, 10)
	if found.Kept != 2*keptRecords || found.Matching != 1 || r.kept() != (Kept{500, 5000}) {
		t.Errorf("%+v, %+v", found, r.kept())
	}
	if text := r.find("", false, true, 1).Shown[0].Text; len(text) > keptBytes+8 || !strings.HasSuffix(text, "ä…") {
		t.Errorf("%d bytes, ending with %q", len(text), text[len(text)-8:])
	}
	for range 1000 { // in one second
		r.add("burst", flaggedOutput("x", "y"), now.Add(time.Hour))
	}
	if n := r.find("burst", true, true, 1).Matching; n != flaggedPerSecond {
		t.Errorf("%d of a second are kept", n)
	}
}

func post(p http.Handler, text string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/translate", strings.NewReader(text)))
	return w
}

func TestTrial(t *testing.T) {
	p := newPage(t, newStage(0).config(new(oracle)))
	w := post(p, `{"text": "hello"}`)
	want := `{"text":"HELLO","source":["▁a","▁b","\u003c/s\u003e"],"target":[{"piece":"▁X","score":-0.1},{"piece":"▁Y","score":-0.2},{"piece":"\u003c/s\u003e","score":-0.3}],` +
		`"alignment":[[0.9,0.1,0],[0.2,0.75,0.05],[0,0,1]],"score":-0.5,"flags":["split"],"seconds":`
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), want) {
		t.Errorf("%d %s\nwant %s", w.Code, w.Body, want)
	}
	for text, want := range map[string]int{
		`{"text": "poison"}`: http.StatusUnprocessableEntity, `{"text": 5}`: http.StatusBadRequest, ``: http.StatusBadRequest,
		`{"text": "` + strings.Repeat("x", 1001) + `"}`:  http.StatusRequestEntityTooLarge,
		`{"text": "` + strings.Repeat("x", 1<<20) + `"}`: http.StatusBadRequest,
	} {
		if w := post(p, text); w.Code != want {
			t.Errorf("%.40s: %d %s, want %d", text, w.Code, w.Body, want)
		}
	}
}

// A model that writes back to front gives its scores and weights in that order, and they are shown in reading order.
func TestTrialBackToFront(t *testing.T) {
	shown := (&trial{rightLeft: true}).shown(&job.Result{
		SourcePieces: []string{"b", "a", "</s>"},
		Hypotheses: []job.Hypothesis{{
			Finished: true, Pieces: []string{"X", "Y", "</s>"}, WordScores: []float32{-2, -1, -3}, Alignment: [][]float32{{0.7, 0.2, 0.1}, {0.3, 0.6, 0.1}, {0, 0, 1}},
		}},
	}, 0)
	if got, want := fmt.Sprint(shown.Source, shown.Target, shown.Alignment), "[a b </s>] [{X -1} {Y -2} {</s> -3}] [[0.6 0.3 0.1] [0.2 0.7 0.1] [0 0 1]]"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Trials are few in a second, few at a time, and nobody waits for ever. What is not waited for any more keeps its place until the
// engine is done with it.
func TestTrialsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &oracle{hold: true}
		p := New(newStage(0).config(engine))
		defer p.Close()
		codes := make(chan int, 100)
		ask := func(n int) map[int]int {
			for range n {
				go func() { codes <- post(p, `{"text": "x"}`).Code }()
			}
			counts := map[int]int{}
			for range n {
				counts[<-codes]++
			}
			return counts
		}
		if got := ask(20); got[http.StatusGatewayTimeout] != 2 || got[http.StatusServiceUnavailable] != 3 || got[http.StatusTooManyRequests] != 15 {
			t.Errorf("of twenty at once: %v", got)
		}
		if got := ask(1); got[http.StatusServiceUnavailable] != 1 {
			t.Errorf("although the engine works on two: %v", got)
		}
		engine.answerAll()
		engine.mutex.Lock()
		engine.hold = false
		engine.mutex.Unlock()
		time.Sleep(10 * time.Second)
		if got := ask(4); got[http.StatusOK] == 0 || got[http.StatusOK]+got[http.StatusServiceUnavailable] != 4 {
			t.Errorf("after a rest: %v", got)
		}
	})
}

func TestStop(t *testing.T) {
	stopped := 0
	actions := NewActions(func() { stopped++ })
	for method, want := range map[string]int{http.MethodGet: http.StatusMethodNotAllowed, http.MethodPost: http.StatusOK} {
		w := httptest.NewRecorder()
		actions.ServeHTTP(w, httptest.NewRequest(method, "/act/stop", nil))
		if w.Code != want {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if stopped != 1 {
		t.Errorf("stopped %d times", stopped)
	}
}

func TestLanesWithKnownLength(t *testing.T) {
	s := newStage(0)
	s.lanes = []pipeline.LaneState{{Name: "a", Read: 25, Total: 100}, {Name: "b"}}
	s.done = 400
	s.stats.Admitted, s.stats.Completed = 10, 5
	p := newPage(t, s.config(nil))
	var state State
	get(t, p, "/api/state?sort=name", &state)
	if l := state.Lanes.Shown; l[0].Share != 0.25 || l[1].Share != -1 || l[0].Lag != -1 || state.Now.Lag != -1 {
		t.Errorf("%+v", state)
	}
	if p.look().share != 0.2 {
		t.Errorf("%v of the input is done", p.look().share)
	}
}
