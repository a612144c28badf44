package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/internal/job"
)

// What may be tried: sentences of so many characters, so many at a time and each minute, and for how long one waits. The engine has
// other things to do.
const (
	mostCharacters = 1000
	mostBody       = 16 << 10
	mostAtATime    = 2
	trialsABurst   = 5
	trialsEvery    = 500 * time.Millisecond
	trialPatience  = 20 * time.Second
	mostWeights    = 20_000 // of an alignment that is shown
)

// A Trial is a translation with everything that can be told of it.
type Trial struct {
	Text      string     `json:"text"`
	Source    []string   `json:"source"`    // pieces, end of sentence included
	Target    []Piece    `json:"target"`    // the same, in reading order
	Alignment [][]weight `json:"alignment"` // of each target piece, the weight of each source piece; nil where the model has none or it is too large
	Score     float32    `json:"score"`
	Flags     []string   `json:"flags"`
	Seconds   float64    `json:"seconds"` // with waiting for the batch
}

// A Piece is a target piece with its log-probability.
type Piece struct {
	Piece string  `json:"piece"`
	Score float32 `json:"score"`
}

// A weight is from 0 to 1 and has three digits.
type weight float32

// MarshalJSON writes three digits.
func (w weight) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.3g", float32(w)), nil }

// A trial answers requests for translations, few at a time.
type trial struct {
	engine    Engine
	rightLeft bool
	patience  time.Duration
	places    chan struct{}

	mutex sync.Mutex
	next  time.Time // when the next is allowed, were they evenly spread
}

func newTrial(engine Engine, rightLeft bool) *trial {
	return &trial{engine: engine, rightLeft: rightLeft, patience: trialPatience, places: make(chan struct{}, mostAtATime)}
}

// allowed says whether another trial is within the rate.
func (t *trial) allowed(now time.Time) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.next.Before(now) {
		t.next = now
	}
	if t.next.Sub(now) > (trialsABurst-1)*trialsEvery {
		return false
	}
	t.next = t.next.Add(trialsEvery)
	return true
}

// ServeHTTP translates {"text": "…"}.
func (t *trial) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Text string `json:"text"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody)).Decode(&asked); err != nil {
		http.Error(w, `expected {"text": "…"} of at most 16 KiB`, http.StatusBadRequest)
		return
	}
	if n := utf8.RuneCountInString(asked.Text); n > mostCharacters {
		http.Error(w, fmt.Sprintf("the text has %d characters; %d can be tried at a time", n, mostCharacters), http.StatusRequestEntityTooLarge)
		return
	}
	if !t.allowed(time.Now()) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many texts in too short a time; wait a moment", http.StatusTooManyRequests)
		return
	}
	select {
	case t.places <- struct{}{}:
		t.translate(w, r, asked.Text)
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "others are trying a text; wait a moment", http.StatusServiceUnavailable)
	}
}

// translate asks the engine. The place is free again when the engine is done, even if nobody waits for it any more.
func (t *trial) translate(w http.ResponseWriter, r *http.Request, text string) {
	begin, done := time.Now(), make(chan job.Result, 1)
	t.engine.Submit(job.Segment{Text: text, Details: true, Done: func(result job.Result) {
		done <- result
		<-t.places
	}})
	t.engine.Flush()
	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	select {
	case result := <-done:
		if result.Err != nil {
			http.Error(w, "the text cannot be translated: "+result.Err.Error(), http.StatusUnprocessableEntity)
			return
		}
		answer(w, t.shown(&result, time.Since(begin)))
	case <-timer.C:
		http.Error(w, fmt.Sprintf("the engine is busy: no answer for %v", t.patience), http.StatusGatewayTimeout)
	case <-r.Context().Done():
	}
}

func (t *trial) shown(result *job.Result, took time.Duration) *Trial {
	h := &result.Hypotheses[0]
	shown := &Trial{
		Text: h.Text, Source: result.SourcePieces, Score: h.Score, Flags: append([]string{}, result.Flags.Names()...), Seconds: took.Seconds(),
		Target: make([]Piece, len(h.Pieces)),
	}
	rows, scores := slices.Clone(h.Alignment), slices.Clone(h.WordScores)
	if t.rightLeft { // target pieces are in reading order, everything else in that in which the model works
		shown.Source = slices.Clone(shown.Source)
		reverseToEnd(shown.Source, true)
		reverseToEnd(rows, h.Finished)
		reverseToEnd(scores, h.Finished)
	}
	for i, piece := range h.Pieces {
		shown.Target[i].Piece = piece
		if i < len(scores) {
			shown.Target[i].Score = scores[i]
		}
	}
	if len(rows)*len(result.SourcePieces) > mostWeights {
		return shown
	}
	for _, row := range rows {
		weights := make([]weight, len(row))
		for i, w := range row {
			weights[i] = weight(w)
		}
		if t.rightLeft {
			reverseToEnd(weights, true)
		}
		shown.Alignment = append(shown.Alignment, weights)
	}
	return shown
}

// reverseToEnd reverses what comes before the end of sentence.
func reverseToEnd[T any](of []T, finished bool) {
	if finished && len(of) > 0 {
		of = of[:len(of)-1]
	}
	slices.Reverse(of)
}
