package score

import (
	"fmt"
	"math/bits"
	"strings"
)

// Pairwise scores each hypothesis against each reference as a segment by itself: the score of hypothesis i against reference j
// is in row i, column j. For BLEU, set BLEUOptions.EffectiveOrder. The scores are those that SentenceBLEU and SentenceCHRF
// give.
//
// What costs in a metric is to count the n-grams that two texts have in common. Here the n-grams of each text are counted
// once. The k-th occurrence of an n-gram is numbered as a thing of its own, so that a text is a set and two texts have in
// common what the sets have: the bits of their conjunction.
func Pairwise(m Metric, hypotheses, references []string) ([][]float64, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if len(hypotheses) == 0 || len(references) == 0 {
		return nil, fmt.Errorf("score: %d hypotheses and %d references: %w", len(hypotheses), len(references), ErrInput)
	}
	distinct := newTexts(m)
	rows, columns := distinct.add(hypotheses), distinct.add(references)
	distinct.number(rows, columns)

	scores := make([][]float64, len(hypotheses))
	known := make(map[int][]float64, len(hypotheses))
	for i, row := range rows {
		if known[row] == nil {
			known[row] = distinct.scoreRow(row, columns)
		}
		scores[i] = known[row]
	}
	return scores, nil
}

// texts holds each of many texts once.
type texts struct {
	metric Metric
	place  map[string]int
	all    []profile
}

// A profile is the n-grams of a text.
type profile struct {
	grams  []map[string]int64 // of each order
	totals []int64            // n-grams of each order
	sets   [][]uint64         // of each order: the numbered n-grams
}

func newTexts(m Metric) *texts { return &texts{metric: m, place: map[string]int{}} }

// add returns the places of the texts.
func (t *texts) add(list []string) []int {
	places := make([]int, len(list))
	for i, text := range list {
		place, known := t.place[text]
		if !known {
			place = len(t.all)
			t.place[text] = place
			t.all = append(t.all, t.profile(text))
		}
		places[i] = place
	}
	return places
}

func (t *texts) profile(text string) profile {
	p := profile{grams: t.metric.grams(text)}
	for _, grams := range p.grams {
		total := int64(0)
		for _, n := range grams {
			total += n
		}
		p.totals = append(p.totals, total)
	}
	return p
}

// number numbers the n-grams that a row and a column may have in common, and makes the sets. The others cannot count.
func (t *texts) number(rows, columns []int) {
	for order := range t.all[0].grams {
		inRows, inColumns := t.most(rows, order), t.most(columns, order)
		first, size := map[string]int{}, 0
		for _, p := range t.all {
			for gram := range p.grams[order] {
				if _, known := first[gram]; !known {
					first[gram] = size
					size += int(min(inRows[gram], inColumns[gram]))
				}
			}
		}
		for i := range t.all {
			set := make([]uint64, (size+63)/64)
			for gram, n := range t.all[i].grams[order] {
				for k := range min(n, inRows[gram], inColumns[gram]) {
					number := first[gram] + int(k)
					set[number/64] |= 1 << (number % 64)
				}
			}
			t.all[i].sets = append(t.all[i].sets, set)
		}
	}
	for i := range t.all {
		t.all[i].grams = nil
	}
}

// most returns how often each n-gram occurs in the one of the texts that has it most often.
func (t *texts) most(places []int, order int) map[string]int64 {
	most := map[string]int64{}
	for _, place := range places {
		for gram, n := range t.all[place].grams[order] {
			most[gram] = max(most[gram], n)
		}
	}
	return most
}

func (t *texts) scoreRow(row int, columns []int) []float64 {
	own := &t.all[row]
	scores := make([]float64, len(columns))
	both := make([]int64, len(own.totals))
	known := map[int]float64{}
	for j, column := range columns {
		points, scored := known[column]
		if !scored {
			other := &t.all[column]
			for order, set := range own.sets {
				both[order] = 0
				for i, word := range other.sets[order] {
					both[order] += int64(bits.OnesCount64(word & set[i]))
				}
			}
			points = t.metric.points(t.metric.matched(own.totals, other.totals, both))
			known[column] = points
		}
		scores[j] = points
	}
	return scores
}

// grams counts the n-grams of each order, from 1.
func (o BLEUOptions) grams(text string) []map[string]int64 {
	words := strings.FieldsFunc(o.withDefaults().prepare(text), isSpace)
	all := make([]map[string]int64, MaxOrder)
	for n := range all {
		all[n] = map[string]int64{}
		for i := 0; i+n < len(words); i++ {
			all[n][strings.Join(words[i:i+n+1], " ")]++
		}
	}
	return all
}

// matched gives the counts of a segment from the n-grams of hypothesis, of the reference, and of both.
func (o BLEUOptions) matched(own, other, both []int64) []int64 {
	counts := append(make([]int64, 0, 2+2*MaxOrder), own[0], other[0])
	return append(append(counts, both...), own...)
}

func (o CHRFOptions) grams(text string) []map[string]int64 { return o.withDefaults().ngrams(text) }

func (o CHRFOptions) matched(own, other, both []int64) []int64 {
	counts := make([]int64, 0, 3*len(own))
	for i := range own {
		mine := own[i]
		if other[i] == 0 {
			mine = 0
		}
		counts = append(counts, mine, other[i], both[i])
	}
	return counts
}
