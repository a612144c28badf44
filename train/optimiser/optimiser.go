// Package optimiser turns gradients into better parameters: Adam with warm-up and inverse square root decay, clipping by norm,
// and the exponential moving average of the parameters. All of it works on vectors, in pieces that goroutines share; since
// every element is computed on its own and sums over pieces have a fixed order, results do not depend on their number.
package optimiser

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

// The reasons for which Step changes nothing but the counts.
var (
	ErrNotFinite = errors.New("the gradient is not finite")                   // it holds a NaN or an infinity
	ErrOutlier   = errors.New("the gradient is far larger than those before") // see Config.MaxGrowth
)

// ErrConfig is wrapped by the errors of Validate.
var ErrConfig = errors.New("optimiser settings")

// Config says how to optimise.
type Config struct {
	Beta1, Beta2 float64 // decay of Adam's means of gradients and of their squares (Kingma and Ba 2015)
	Epsilon      float64 // added to the root of the mean square

	LearnRate float64
	WarmUp    int // updates until the rate is reached, growing linearly; 0 for none
	InvSqrt   int // updates after which the rate falls with the inverse square root; 0 for never

	ClipNorm  float64 // gradients of a larger norm are scaled down to it; 0 for never
	Smoothing float64 // the part of the parameters in their moving average at each update; 0 for no average

	MaxGrowth  float64 // a gradient whose norm is more than this many times the mean of those before is skipped; 0 for none
	Lower      float64 // what the rate is multiplied by when LowerAfter steps were skipped
	LowerAfter int     // 0 for never. Steps that were skipped are forgotten after forgetAfter good ones in a row.
}

// forgetAfter is how many good steps in a row show that those that were skipped before mean nothing.
const forgetAfter = 100

// The mean of norms is a geometric one that decays. It has to be of some norms before it says anything.
const (
	normWeight   = 0.02
	normsAtLeast = 50
)

// Validate returns an error that names the first setting that makes no sense.
func (c *Config) Validate() error {
	switch {
	case !(c.Beta1 >= 0 && c.Beta1 < 1) || !(c.Beta2 >= 0 && c.Beta2 < 1):
		return fmt.Errorf("%w: optimizer-params begin with %v and %v, but both must be at least 0 and below 1", ErrConfig, c.Beta1, c.Beta2)
	case !(c.Epsilon > 0):
		return fmt.Errorf("%w: the third of optimizer-params is %v, but must be greater than 0", ErrConfig, c.Epsilon)
	case !(c.LearnRate > 0) || math.IsInf(c.LearnRate, 0):
		return fmt.Errorf("%w: learn-rate is %v, but must be greater than 0", ErrConfig, c.LearnRate)
	case c.WarmUp < 0 || c.InvSqrt < 0:
		return fmt.Errorf("%w: lr-warmup is %d and lr-decay-inv-sqrt is %d, but neither may be negative", ErrConfig, c.WarmUp, c.InvSqrt)
	case !(c.ClipNorm >= 0):
		return fmt.Errorf("%w: clip-norm is %v, but must not be negative", ErrConfig, c.ClipNorm)
	case !(c.MaxGrowth == 0 || c.MaxGrowth > 1):
		return fmt.Errorf("%w: max-norm-growth is %v, but must be greater than 1, or 0 for any", ErrConfig, c.MaxGrowth)
	case c.LowerAfter < 0 || c.LowerAfter > 0 && !(c.Lower > 0 && c.Lower <= 1):
		return fmt.Errorf("%w: lr-lower is %v after %d skipped updates, but must be greater than 0 and at most 1", ErrConfig, c.Lower, c.LowerAfter)
	case !(c.Smoothing >= 0 && c.Smoothing <= 1):
		return fmt.Errorf("%w: exponential-smoothing is %v, but must be from 0 to 1", ErrConfig, c.Smoothing)
	}
	return nil
}

// Rate returns the learning rate of an update, counted from 1, if it was never lowered.
func (c *Config) Rate(update int) float64 {
	rate := c.LearnRate
	if c.WarmUp > 0 {
		rate *= min(1, float64(update)/float64(c.WarmUp))
	}
	if c.InvSqrt > 0 {
		rate *= math.Sqrt(float64(c.InvSqrt) / float64(max(update, c.InvSqrt)))
	}
	return rate
}

// Counts are the numbers that an Optimiser keeps beside its vectors. Together they are all there is to save.
type Counts struct {
	Updates     int `json:"updates"`     // steps that changed the parameters
	NotFinite   int `json:"not_finite"`  // steps that were skipped, those with an outlier included
	Consecutive int `json:"consecutive"` // of those, the ones since the last step that was not

	Recent  int     `json:"recent,omitempty"`   // skipped, and neither forgotten nor a reason to lower the rate yet
	Good    int     `json:"good,omitempty"`     // steps since the last one that was skipped
	Lowered int     `json:"lowered,omitempty"`  // how often the rate was lowered
	Norms   int     `json:"norms,omitempty"`    // in LogNorm
	LogNorm float64 `json:"log_norm,omitempty"` // decaying mean of the logarithms of gradients' norms
}

// An Optimiser improves a vector of parameters.
type Optimiser struct {
	Counts
	Mean    []float32 // of gradients, decaying
	Square  []float32 // mean of squares of gradients, decaying
	Average []float32 // of parameters; nil without smoothing

	config Config
	values []float32
	norms  []float64 // of chunks, squared
}

// chunkSize is how many elements are worked on at a time. It must not depend on anything: sums go over chunks.
const chunkSize = 1 << 14

// New returns an optimiser of the values. The average starts from them.
func New(config Config, values []float32) *Optimiser {
	o := &Optimiser{config: config, values: values, norms: make([]float64, (len(values)+chunkSize-1)/chunkSize)}
	o.Mean, o.Square = hugepage.Make[float32](len(values)), hugepage.Make[float32](len(values))
	if config.Smoothing > 0 {
		o.Average = append([]float32(nil), values...)
	}
	return o
}

// Best returns the parameters to translate with: the average, if there is one.
func (o *Optimiser) Best() []float32 {
	if o.Average != nil {
		return o.Average
	}
	return o.values
}

// State is the vectors of a training: the parameters and what an Optimiser keeps of them. Average is nil without smoothing.
type State struct{ Values, Mean, Square, Average []float32 }

// State returns the vectors themselves, for those who keep them elsewhere for a while. See Decide.
func (o *Optimiser) State() State { return State{o.values, o.Mean, o.Square, o.Average} }

// A Report says what a step did.
type Report struct {
	Norm float64 // of the gradient, before clipping
	Rate float64
}

// Step adds the gradients up, in their order, multiplies the sum by scale, and moves the values. The gradients are zero
// afterwards. As many goroutines share the work as there are gradients.
func (o *Optimiser) Step(gradients [][]float32, scale float64) (Report, error) {
	gradient := gradients[0]
	o.share(len(gradients), func(chunk, from, to int) {
		o.norms[chunk] = gather(gradients, from, to, float32(scale))
	})
	square := 0.0
	for _, n := range o.norms {
		square += n
	}
	move, report, err := o.Decide(square)
	if err != nil {
		clearAll(gradients)
		return report, err
	}
	o.share(len(gradients), func(_, from, to int) {
		move.apply(o.values[from:to], gradient[from:to], o.Mean[from:to], o.Square[from:to])
		if o.Average != nil {
			average(o.Average[from:to], o.values[from:to], move.Weight)
		}
	})
	return report, nil
}

// A Move is the numbers that all elements share in a step: with the gradient g times Clip, m = Beta1·m + (1-Beta1)·g,
// v = Beta2·v + (1-Beta2)·g², x -= Rate·m/(√(v·Root) + Epsilon), and the average goes Weight of the way to x.
type Move struct {
	Clip, Beta1, Beta2, Epsilon float32
	Rate, Root                  float32 // with the corrections for means that start at zero
	Weight                      float32
}

// Decide counts a step whose gradient has that sum of squares, and says how to make it. Step does both; Decide alone is for those who
// keep the vectors elsewhere. If there is an error, nothing is to be moved.
func (o *Optimiser) Decide(square float64) (Move, Report, error) {
	report := Report{Norm: math.Sqrt(square)}
	if math.IsNaN(square) || math.IsInf(square, 0) {
		o.Skip(nil)
		return Move{}, report, ErrNotFinite
	}
	if o.outlier(report.Norm) {
		o.Skip(nil)
		return Move{}, report, ErrOutlier
	}
	o.good()
	report.Rate = o.config.Rate(o.Updates) * math.Pow(o.config.Lower, float64(o.Lowered))
	move := o.adam(report.Rate)
	if o.config.ClipNorm > 0 && report.Norm > o.config.ClipNorm {
		move.Clip = float32(o.config.ClipNorm / report.Norm)
	}
	return move, report, nil
}

// good counts a step that is made.
func (o *Optimiser) good() {
	o.Updates++
	o.Consecutive = 0
	if o.Good++; o.Good >= forgetAfter {
		o.Recent = 0
	}
}

// Skip counts a step that cannot be made, because the loss was not finite, and clears the gradients. If there were too many, it
// lowers the rate.
func (o *Optimiser) Skip(gradients [][]float32) {
	clearAll(gradients)
	o.NotFinite++
	o.Consecutive++
	o.Good = 0
	if o.Recent++; o.config.LowerAfter > 0 && o.Recent >= o.config.LowerAfter {
		o.Lowered++
		o.Recent = 0
	}
}

func clearAll(gradients [][]float32) {
	for _, g := range gradients {
		clear(g)
	}
}

// outlier says whether a norm is too far above the mean of those before, of which it becomes a part in any case: norms that stay
// large become the usual ones. One that is not clipped does no harm: where all has been learnt, norms are next to nothing, and some are
// many times as large.
func (o *Optimiser) outlier(norm float64) bool {
	if o.config.MaxGrowth == 0 || norm == 0 {
		return false
	}
	log := math.Log(norm)
	apart := log - o.LogNorm
	o.Norms++
	o.LogNorm += max(normWeight, 1/float64(o.Norms)) * apart
	return o.Norms > normsAtLeast && apart > math.Log(o.config.MaxGrowth) && norm > o.config.ClipNorm
}

// share calls work for every chunk of the vector, from several goroutines.
func (o *Optimiser) share(workers int, work func(chunk, from, to int)) {
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for chunk := w; chunk < len(o.norms); chunk += workers {
				work(chunk, chunk*chunkSize, min((chunk+1)*chunkSize, len(o.values)))
			}
		})
	}
	group.Wait()
}

// gather leaves the sum of a part of the gradients, times scale, in the first of them and zeros in the others. It returns the
// sum of squares.
func gather(gradients [][]float32, from, to int, scale float32) float64 {
	sum := gradients[0][from:to]
	for _, g := range gradients[1:] {
		part := g[from:to]
		for i, v := range part {
			sum[i] += v
		}
		clear(part)
	}
	square := 0.0
	for i, v := range sum {
		v *= scale
		sum[i] = v
		square += float64(v) * float64(v)
	}
	return square
}

func (o *Optimiser) adam(rate float64) Move {
	c := &o.config
	t := float64(o.Updates)
	return Move{
		Clip: 1, Beta1: float32(c.Beta1), Beta2: float32(c.Beta2), Epsilon: float32(c.Epsilon), Weight: o.averageWeight(),
		Rate: float32(rate / (1 - math.Pow(c.Beta1, t))), Root: float32(1 / (1 - math.Pow(c.Beta2, t))),
	}
}

// apply makes the step, and clears the gradient.
func (s *Move) apply(values, gradient, mean, square []float32) {
	gradient, mean, square = gradient[:len(values)], mean[:len(values)], square[:len(values)]
	for i := range values {
		g := gradient[i] * s.Clip
		m := s.Beta1*mean[i] + (1-s.Beta1)*g
		v := s.Beta2*square[i] + (1-s.Beta2)*g*g
		mean[i], square[i], gradient[i] = m, v, 0
		values[i] -= s.Rate * m / (float32(math.Sqrt(float64(v*s.Root))) + s.Epsilon)
	}
}

// averageWeight is the weight of the new parameters in the average: larger in the beginning, where old ones mean little.
func (o *Optimiser) averageWeight() float32 {
	t := float64(o.Updates)
	return float32(max(o.config.Smoothing, 1-(t+1)/(t+10)))
}

func average(average, values []float32, weight float32) {
	average = average[:len(values)]
	for i, v := range values {
		average[i] += weight * (v - average[i])
	}
}
