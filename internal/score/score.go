// Package score measures translations against references: BLEU and chrF, equal to sacreBLEU's to the last printed
// digit, with its tokenisers, smoothings and signatures, and the bootstrap tests that say whether a difference means
// anything.
//
// Papineni et al. 2002 define BLEU, Popović 2015 and 2017 chrF and chrF++, Post 2018 the signature, Koehn 2004 the
// paired bootstrap test.
package score

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// SacreBLEU is the version of sacreBLEU whose scores these are; signatures name it.
const SacreBLEU = "2.6.0"

// ErrInput is wrapped by errors about segments that cannot be scored: none at all, or not as many on each side.
var ErrInput = errors.New("cannot be scored")

// A Metric gives a corpus its score by way of counts that are summed over segments. BLEUOptions and CHRFOptions are
// metrics.
type Metric interface {
	check() error
	// segment counts in one hypothesis what the metric counts. There is at least one reference.
	segment(hypothesis string, references []string) []int64
	// points turns summed counts into a score between 0 and 100.
	points(counts []int64) float64
	// grams counts the n-grams of each order in one text, and matched gives what segment does from the numbers of n-grams of a
	// hypothesis, of its only reference, and of those that both have.
	grams(text string) []map[string]int64
	matched(own, other, both []int64) []int64
}

// checkSizes wants a reference for every hypothesis in each stream of references.
func checkSizes(hypotheses []string, references [][]string) error {
	if len(hypotheses) == 0 {
		return fmt.Errorf("score: no hypotheses: %w", ErrInput)
	}
	if len(references) == 0 {
		return fmt.Errorf("score: no references: %w", ErrInput)
	}
	for i, stream := range references {
		if len(stream) != len(hypotheses) {
			return fmt.Errorf("score: %d hypotheses and %d references in stream %d: %w", len(hypotheses), len(stream), i+1, ErrInput)
		}
	}
	return nil
}

// segments returns the counts of every segment.
func segments(m Metric, hypotheses []string, references [][]string) ([][]int64, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := checkSizes(hypotheses, references); err != nil {
		return nil, err
	}
	counts := make([][]int64, len(hypotheses))
	own := make([]string, len(references))
	for i, hypothesis := range hypotheses {
		for j := range references {
			own[j] = references[j][i]
		}
		counts[i] = m.segment(hypothesis, own)
	}
	return counts, nil
}

func sum(counts [][]int64) []int64 {
	total := make([]int64, len(counts[0]))
	for _, segment := range counts {
		for i, n := range segment {
			total[i] += n
		}
	}
	return total
}

// setting is one key and value of a signature.
type setting struct{ key, value string }

func signature(settings []setting) string {
	parts := make([]string, len(settings))
	for i, s := range settings {
		parts[i] = s.key + ":" + s.value
	}
	return strings.Join(parts, "|")
}

// global puts the settings of one metric between those that all have. An interval adds how it was found.
func global(references int, interval *Interval, own ...setting) []setting {
	settings := []setting{{"nrefs", strconv.Itoa(references)}}
	if interval != nil {
		settings = append(settings,
			setting{"bs", strconv.Itoa(interval.Samples)}, setting{"seed", strconv.FormatUint(interval.Seed, 10)})
	}
	settings = append(settings, own...)
	return append(settings, setting{"version", SacreBLEU})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func caseName(lowercase bool) string {
	if lowercase {
		return "lc"
	}
	return "mixed"
}

// line is what all scores print: name, points, interval and details.
type line struct {
	name     string
	points   float64
	interval *Interval
	details  string
	settings []setting
}

// text prints the line with the given number of decimal places, with the signature after the name if wanted.
func (l line) text(places int, signed bool) string {
	var b strings.Builder
	b.WriteString(l.name)
	if signed {
		b.WriteString("|" + signature(l.settings))
	}
	b.WriteString(" = " + strconv.FormatFloat(l.points, 'f', places, 64))
	if l.interval != nil {
		b.WriteString(" (" + l.interval.text(places) + ")")
	}
	if l.details != "" {
		b.WriteString(" " + l.details)
	}
	return b.String()
}

// json gives the object that sacrebleu -f json prints, keys in the same order.
func (l line) json(places int) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	add := func(key string, value any) error {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(&b, "%q:%s", key, encoded)
		return err
	}
	var failures []error
	failures = append(failures,
		add("name", l.name), add("score", rounded(l.points, places)), add("signature", signature(l.settings)))
	if l.interval != nil {
		failures = append(failures,
			add("confidence_mean", rounded(l.interval.Mean, places)), add("confidence_var", rounded(l.interval.HalfWidth, places)),
			add("confidence", l.interval.text(places)))
	}
	if l.details != "" {
		failures = append(failures, add("verbose_score", l.details))
	}
	for _, s := range l.settings {
		failures = append(failures, add(s.key, s.value))
	}
	b.WriteByte('}')
	return b.Bytes(), errors.Join(failures...)
}

// rounded is a number as Python prints it: with a decimal point, but no zeros that say nothing.
func rounded(v float64, places int) json.RawMessage {
	text := strconv.FormatFloat(v, 'f', places, 64)
	v, _ = strconv.ParseFloat(text, 64)
	text = strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return json.RawMessage(text)
}
