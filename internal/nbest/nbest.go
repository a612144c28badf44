// Package nbest prints translations as marian-decoder prints them: plain lines with alignment and word scores, and n-best
// lists. Numbers come out as C++ streams write them, so that the lists can be compared byte for byte. It also reads such
// lists, and those of Moses, and weighs their features.
//
//	id ||| text ||| alignment ||| WordScores= s1 s2 … ||| F0= sum0 F1= sum1 … ||| total
package nbest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/sluice-mt/sluice/internal/job"
)

// A Kind is a way to print an alignment.
type Kind uint8

const (
	// None prints no alignment.
	None Kind = iota
	// Hard prints for each target piece the source piece of largest weight.
	Hard
	// Soft prints all weights.
	Soft
	// Threshold prints all pairs whose weight is above a threshold.
	Threshold
)

// An Alignment says how alignments are printed.
type Alignment struct {
	Kind      Kind
	Threshold float32 // for Kind Threshold, in (0, 1)
}

// ErrAlignment is wrapped by the error of ParseAlignment.
var ErrAlignment = errors.New("alignment")

// ParseAlignment reads the value of Marian's option --alignment: "hard", "soft" or a threshold. "" is None. As in Marian a
// threshold of 1 is the same as "hard".
func ParseAlignment(value string) (Alignment, error) {
	switch value {
	case "":
		return Alignment{}, nil
	case "hard":
		return Alignment{Kind: Hard}, nil
	case "soft":
		return Alignment{Kind: Soft}, nil
	}
	threshold, err := strconv.ParseFloat(value, 32)
	if err != nil || !(threshold > 0 && threshold <= 1) {
		return Alignment{}, fmt.Errorf(`%w: %q is none of "hard", "soft" and a number above 0 and up to 1`, ErrAlignment, value)
	}
	if threshold == 1 {
		return Alignment{Kind: Hard}, nil
	}
	return Alignment{Kind: Threshold, Threshold: float32(threshold)}, nil
}

// A Pair links a source piece to a target piece, both counted from 0.
type Pair struct{ Source, Target int }

// Pairs returns the pairs of a hard alignment or of one by threshold, sorted by source piece, then by target piece. weights
// holds the weights of all source pieces for each target piece. Among equal weights the first wins. For other kinds there are
// none.
func (a Alignment) Pairs(weights [][]float32) []Pair {
	var pairs []Pair
	for target, row := range weights {
		switch a.Kind {
		case Hard:
			if len(row) > 0 {
				pairs = append(pairs, Pair{firstLargest(row), target})
			}
		case Threshold:
			for source, weight := range row {
				if weight > a.Threshold {
					pairs = append(pairs, Pair{source, target})
				}
			}
		}
	}
	slices.SortFunc(pairs, func(x, y Pair) int {
		if x.Source != y.Source {
			return x.Source - y.Source
		}
		return x.Target - y.Target
	})
	return pairs
}

func firstLargest(row []float32) int {
	best := 0
	for i, weight := range row {
		if weight > row[best] {
			best = i
		}
	}
	return best
}

// Append appends the alignment to dst: pairs "source-target" with spaces between, or for Soft the target pieces with spaces
// and their source pieces' weights with commas between.
func (a Alignment) Append(dst []byte, weights [][]float32) []byte {
	if a.Kind == Soft {
		return appendSoft(dst, weights)
	}
	for i, pair := range a.Pairs(weights) {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, int64(pair.Source), 10)
		dst = append(dst, '-')
		dst = strconv.AppendInt(dst, int64(pair.Target), 10)
	}
	return dst
}

func appendSoft(dst []byte, weights [][]float32) []byte {
	for target, row := range weights {
		if target > 0 {
			dst = append(dst, ' ')
		}
		for source, weight := range row {
			if source > 0 {
				dst = append(dst, ',')
			}
			dst = AppendNumber(dst, weight)
		}
	}
	return dst
}

// A Format says what is printed besides the text.
type Format struct {
	Alignment  Alignment
	WordScores bool
}

// AppendLine appends the best hypothesis as one line, without its line break.
func (f *Format) AppendLine(dst []byte, h *job.Hypothesis) []byte {
	dst = append(dst, h.Text...)
	return f.appendDetails(dst, h)
}

// AppendNBest appends the hypotheses of the sentence of that number (from 0), one a line, with a line break between them but
// none at the end.
func (f *Format) AppendNBest(dst []byte, id int64, hypotheses []job.Hypothesis) []byte {
	for i := range hypotheses {
		if i > 0 {
			dst = append(dst, '\n')
		}
		h := &hypotheses[i]
		dst = strconv.AppendInt(dst, id, 10)
		dst = append(dst, " ||| "...)
		dst = append(dst, h.Text...)
		dst = f.appendDetails(dst, h)
		dst = append(dst, " |||"...)
		for m, score := range h.ModelScores {
			dst = append(dst, " F"...)
			dst = strconv.AppendInt(dst, int64(m), 10)
			dst = append(dst, "= "...)
			dst = AppendNumber(dst, score)
		}
		dst = append(dst, " ||| "...)
		dst = AppendNumber(dst, h.Score)
	}
	return dst
}

// appendDetails appends alignment and word scores, where they are to be printed.
func (f *Format) appendDetails(dst []byte, h *job.Hypothesis) []byte {
	if f.Alignment.Kind != None {
		dst = append(dst, " ||| "...)
		dst = f.Alignment.Append(dst, h.Alignment)
	}
	if f.WordScores {
		dst = append(dst, " ||| WordScores="...)
		for _, score := range h.WordScores {
			dst = append(dst, ' ')
			dst = strconv.AppendFloat(dst, float64(score), 'f', 5, 64)
		}
	}
	return dst
}

// AppendNumber appends a number as a C++ stream writes it by default: six significant digits without trailing zeros, with an
// exponent of at least two digits below 1e-4 and from 1e6 on.
func AppendNumber(dst []byte, x float32) []byte {
	switch {
	case x == 0:
		if math.Signbit(float64(x)) {
			return append(dst, "-0"...)
		}
		return append(dst, '0')
	case math.IsInf(float64(x), 1):
		return append(dst, "inf"...)
	case math.IsInf(float64(x), -1):
		return append(dst, "-inf"...)
	case x != x:
		return append(dst, "nan"...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, float64(x), 'e', 5, 64)
	mark := start + slices.Index(dst[start:], 'e')
	exponent, _ := strconv.Atoi(string(dst[mark+1:])) // what AppendFloat wrote
	if exponent < -4 || exponent >= 6 {
		tail := string(dst[mark:])
		return append(trimZeros(dst[:mark], start), tail...)
	}
	dst = strconv.AppendFloat(dst[:start], float64(x), 'f', 5-exponent, 64)
	return trimZeros(dst, start)
}

// trimZeros cuts trailing zeros of the number that starts at start off its fraction, and the point if nothing is left of it.
func trimZeros(dst []byte, start int) []byte {
	if !slices.Contains(dst[start:], '.') {
		return dst
	}
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	if dst[len(dst)-1] == '.' {
		dst = dst[:len(dst)-1]
	}
	return dst
}
