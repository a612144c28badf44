package nbest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Weights say how much each feature counts. The total of an entry is the sum of its features' values, each multiplied by its
// weight.
type Weights []Feature

// ErrWeights is wrapped by the errors about weights that make no sense, by themselves or for a list.
var ErrWeights = errors.New("weights")

// ParseWeights reads weights in the form of features, as in F0= 1 R2L0= 0.5. The name may be joined to the value: F0=1.
func ParseWeights(text string) (Weights, error) {
	var apart []string
	for word := range strings.FieldsSeq(text) {
		name, value, joined := strings.Cut(word, "=")
		if joined && value != "" {
			apart = append(apart, name+"=", value)
		} else {
			apart = append(apart, word)
		}
	}
	features, err := parseFeatures(strings.Join(apart, " "))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWeights, err)
	}
	for _, feature := range features {
		for _, value := range feature.Values {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				return nil, fmt.Errorf("%w: that of %s is %v", ErrWeights, feature.Name, value)
			}
		}
	}
	return features, nil
}

// Even weighs all values of an entry's features with 1, but for those that are named.
func Even(e *Entry, without ...string) Weights {
	var w Weights
	for _, feature := range e.Features {
		if !slices.Contains(without, feature.Name) {
			w = append(w, Feature{feature.Name, slices.Repeat([]float64{1}, len(feature.Values))})
		}
	}
	return w
}

// Total returns the weighted sum. Features without a weight count nothing; weights without a feature are an error.
func (w Weights) Total(e *Entry) (float64, error) {
	total := 0.0
	for _, weight := range w {
		values := e.Feature(weight.Name)
		if len(values) != len(weight.Values) {
			return 0, fmt.Errorf("%w: there are %d for %s, but the line has %d values of it", ErrWeights, len(weight.Values), weight.Name, len(values))
		}
		for i, value := range values {
			total += weight.Values[i] * value
		}
	}
	return total, nil
}

// String gives the weights a line each, in the form that ParseWeights reads.
func (w Weights) String() string {
	var b strings.Builder
	for _, weight := range w {
		b.WriteString(weight.Name + "=")
		for _, value := range weight.Values {
			b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
