package page

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A tier is a part of the history: a ring of samples that lie so far apart.
type tier struct {
	every time.Duration
	most  int
}

// tiers are ten minutes by the second, two hours by ten seconds, and a day by the minute. A rate needs two samples.
var tiers = [...]tier{{time.Second, 601}, {10 * time.Second, 721}, {time.Minute, 1441}}

// A sample is what was counted at a moment. Rates are differences between two.
type sample struct {
	at                             time.Time
	completed, words               int64
	rows, steps, pieces, encodings int64
	slots                          int64 // of a worker
	stages                         [stageCount]time.Duration

	lag, flight, memory int64
	age                 time.Duration
	share               float64 // of the input that is translated; NaN where nobody knows
}

// A ring holds the last samples of a tier.
type ring struct {
	tier
	samples []sample // allocated once
	next    int      // where the next one goes when all places are taken
	due     time.Time
}

// lateness is how much earlier than it is due a sample is taken: the next one may be late.
const lateness = 500 * time.Millisecond

// offer takes a sample if one is due.
func (r *ring) offer(s sample) {
	if s.at.Before(r.due.Add(-lateness)) {
		return
	}
	r.add(s)
	if r.due = r.due.Add(r.every); r.due.Before(s.at) { // the first one, or there was none for long
		r.due = s.at.Add(r.every)
	}
}

func (r *ring) add(s sample) {
	if len(r.samples) < r.most {
		r.samples = append(r.samples, s)
		return
	}
	r.samples[r.next] = s
	r.next = (r.next + 1) % r.most
}

func (r *ring) len() int { return len(r.samples) }

// at returns the i-th sample, the oldest first.
func (r *ring) at(i int) *sample { return &r.samples[(r.next+i)%len(r.samples)] }

// A history holds samples of a day, the newer the denser.
type history struct {
	mutex sync.Mutex
	rings [len(tiers)]ring
}

func newHistory() *history {
	h := new(history)
	for i, t := range tiers {
		h.rings[i] = ring{tier: t, samples: make([]sample, 0, t.most)}
	}
	return h
}

// add adds a sample to each tier that is due one.
func (h *history) add(s sample) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i := range h.rings {
		h.rings[i].offer(s)
	}
}

// ago returns the youngest sample that is at least so old, or the oldest of the last ten minutes; nil if there is none.
func (h *history) ago(now time.Time, age time.Duration) *sample {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	r := &h.rings[0]
	for i := r.len() - 1; i >= 0; i-- {
		if s := r.at(i); i == 0 || now.Sub(s.at) >= age {
			found := *s
			return &found
		}
	}
	return nil
}

// A series is what a curve is drawn of. NaN is a gap.
type series []float64

// MarshalJSON writes numbers with four digits, and gaps as null.
func (s series) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 8*len(s)+2)
	out = append(out, '[')
	for i, x := range s {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, roundedTo4(x), 'f', -1, 64)
	}
	return append(out, ']'), nil
}

func roundedTo4(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	if unit < 1 {
		return math.Round(x)
	}
	return math.Round(x*unit) / unit
}

// Curves are the history of one tier, one number for each moment.
type Curves struct {
	Every   float64 `json:"every"` // seconds
	Times   []int64 `json:"times"` // milliseconds since 1970
	Words   series  `json:"words"` // a second
	Records series  `json:"records"`
	Decoder series  `json:"decoder"` // share of a worker's slots that a step advances
	Encoder series  `json:"encoder"` // pieces of a mini-batch
	Busy    series  `json:"busy"`    // share of the workers' time
	Lag     series  `json:"lag"`
	Flight  series  `json:"flight"`
	Age     series  `json:"age"` // seconds
	Memory  series  `json:"memory"`
}

// curves returns the moments of a tier after a time.
func (h *history) curves(i int, after time.Time) *Curves {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	r := &h.rings[i]
	c := &Curves{Every: r.every.Seconds(), Times: []int64{}}
	for i := 1; i < r.len(); i++ {
		if s := r.at(i); s.at.After(after) {
			c.add(r.at(i-1), s)
		}
	}
	return c
}

// add adds the moment between two samples.
func (c *Curves) add(from, to *sample) {
	seconds := to.at.Sub(from.at).Seconds()
	encode, decode, idle := to.since(from, encodeStage), to.since(from, decodeStage), to.since(from, idleStage)
	c.Times = append(c.Times, to.at.UnixMilli())
	c.Words = append(c.Words, grown(from.words, to.words)/seconds)
	c.Records = append(c.Records, grown(from.completed, to.completed)/seconds)
	c.Decoder = append(c.Decoder, grown(from.rows, to.rows)/(grown(from.steps, to.steps)*float64(to.slots)))
	c.Encoder = append(c.Encoder, grown(from.pieces, to.pieces)/grown(from.encodings, to.encodings))
	c.Busy = append(c.Busy, (encode+decode)/(encode+decode+idle))
	c.Lag = append(c.Lag, float64(to.lag))
	c.Flight = append(c.Flight, float64(to.flight))
	c.Age = append(c.Age, to.age.Seconds())
	c.Memory = append(c.Memory, float64(to.memory))
}

// grown is by how much a count has grown. One that is smaller than before has begun again, as it does with each pass of a job.
func grown(from, to int64) float64 {
	if to < from {
		return float64(to)
	}
	return float64(to - from)
}

// since is how many seconds were spent in a stage since another sample.
func (s *sample) since(from *sample, stage int) float64 {
	return grown(int64(from.stages[stage]), int64(s.stages[stage])) / float64(time.Second)
}

// serveHistory answers with the curves of span=10m, 2h or 24h, those after the moment of since= only.
func (p *Page) serveHistory(w http.ResponseWriter, r *http.Request) {
	which := map[string]int{"": 0, "10m": 0, "2h": 1, "24h": 2}
	i, known := which[r.FormValue("span")]
	if !known {
		http.Error(w, "span is 10m, 2h or 24h", http.StatusBadRequest)
		return
	}
	since, err := strconv.ParseInt(r.FormValue("since"), 10, 64)
	if err != nil && r.FormValue("since") != "" {
		http.Error(w, "since is a time in milliseconds", http.StatusBadRequest)
		return
	}
	answer(w, p.history.curves(i, time.UnixMilli(since)))
}
