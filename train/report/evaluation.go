package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

// An Evaluation is a model with what it did on test sets: what "sluice eval --json" prints.
type Evaluation struct {
	Name       string `json:"name"`
	Model      string `json:"model"` // its file
	Parameters int64  `json:"parameters"`
	Bytes      int64  `json:"bytes"`
	Stored     string `json:"stored"`    // type of the weights in the file
	Precision  string `json:"precision"` // of the arithmetic
	Workers    int    `json:"workers"`
	Sets       []Set  `json:"sets"`
}

// A Set is what a model did on a test set.
type Set struct {
	Name       string  `json:"name"`
	Lines      int     `json:"lines"`
	Words      int64   `json:"source_words"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"` // of the whole process; 0 where the system does not tell
	BLEU       float64 `json:"bleu"`
	CHRF       float64 `json:"chrf"`
}

// WordsPerSecond returns source words a second, over all sets.
func (e *Evaluation) WordsPerSecond() float64 {
	return e.rate(func(s *Set) float64 { return s.Seconds })
}

// WordsPerCPUSecond returns source words in a second of processor time, over all sets; 0 where the system does not tell.
func (e *Evaluation) WordsPerCPUSecond() float64 {
	return e.rate(func(s *Set) float64 { return s.CPUSeconds })
}

func (e *Evaluation) rate(seconds func(*Set) float64) float64 {
	words, time := 0.0, 0.0
	for i := range e.Sets {
		words += float64(e.Sets[i].Words)
		time += seconds(&e.Sets[i])
	}
	if time <= 0 {
		return 0
	}
	return words / time
}

// BLEU returns the mean over the sets, NaN without any.
func (e *Evaluation) BLEU() float64 { return e.mean(func(s *Set) float64 { return s.BLEU }) }

// CHRF returns the mean over the sets, NaN without any.
func (e *Evaluation) CHRF() float64 { return e.mean(func(s *Set) float64 { return s.CHRF }) }

func (e *Evaluation) mean(value func(*Set) float64) float64 {
	if len(e.Sets) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for i := range e.Sets {
		sum += value(&e.Sets[i])
	}
	return sum / float64(len(e.Sets))
}

// ReadEvaluations reads a file of evaluations, one JSON object after another.
func ReadEvaluations(path string) ([]Evaluation, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := parseEvaluations(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// maxEvaluations bounds a file of evaluations.
const maxEvaluations = 16 << 20

func parseEvaluations(r io.Reader) ([]Evaluation, error) {
	var all []Evaluation
	decoder := json.NewDecoder(io.LimitReader(r, maxEvaluations))
	for {
		var e Evaluation
		err := decoder.Decode(&e)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: evaluation %d: %w", ErrFormat, len(all)+1, err)
		}
		if e.Name == "" || len(e.Sets) == 0 {
			return nil, fmt.Errorf("%w: evaluation %d has no name or no test sets: expected what sluice eval --json prints", ErrFormat, len(all)+1)
		}
		all = append(all, e)
	}
}

// best returns which evaluations no other one beats in both speed and quality, from the slowest to the fastest.
func best(points []point) []point {
	var front []point
	for i, p := range points {
		beaten := false
		for j, q := range points {
			if q.speed >= p.speed && q.quality >= p.quality && (q.speed > p.speed || q.quality > p.quality || j < i) {
				beaten = true
			}
		}
		if !beaten {
			front = append(front, p)
		}
	}
	sortBySpeed(front)
	return front
}
