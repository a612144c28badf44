package train

import (
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/network"
)

// memoryModel says what the activations of a mini-batch take: fixed + Σ cost over the pairs, in bytes. A ragged batch has no
// padding, so memory is a polynomial of the lengths s and t: pairs·(p + a·s + b·t + c·s² + d·s·t + e·t²), where the squares are
// attention weights, and p is the first states of recurrent decoders.
type memoryModel struct{ fixed, pair, source, target, source2, both, target2 float64 }

func (m *memoryModel) cost(s, t int) float64 {
	a, b := float64(s), float64(t)
	return m.pair + m.source*a + m.target*b + m.source2*a*a + m.both*a*b + m.target2*b*b
}

// measuredLengths are lengths of pairs that determine the polynomial; multiples of what memory is rounded up to.
var measuredLengths = [6][2]int{{16, 16}, {32, 16}, {16, 32}, {32, 32}, {48, 16}, {16, 48}}

// measure finds the polynomial by training on pairs of a few lengths. The gradient is cleared.
func measure(r *network.Replica[float32], sources int, options network.Options) (memoryModel, error) {
	var equations [6][7]float64
	for i, lengths := range measuredLengths {
		s, t := float64(lengths[0]), float64(lengths[1])
		equations[i] = [7]float64{1, s, t, s * s, s * t, t * t, measurePairs(r, sources, lengths, 1, options)}
	}
	first := measuredLengths[0]
	another := measurePairs(r, sources, first, 2, options) - measurePairs(r, sources, first, 1, options)
	clear(r.Gradient)
	x, ok := solve(equations)
	if !ok {
		return memoryModel{}, fmt.Errorf("%w: the memory of a mini-batch cannot be told from its lengths; set mini-batch-words instead of mini-batch-fit", ErrConfig)
	}
	m := memoryModel{x[0], 0, x[1], x[2], x[3], x[4], x[5]}
	m.pair = another - m.cost(first[0], first[1])
	m.fixed -= m.pair
	return m, nil
}

// measurePairs returns what so many pairs of the same lengths take.
func measurePairs(r *network.Replica[float32], sources int, lengths [2]int, pairs int, options network.Options) float64 {
	b := network.Batch{Further: make([]network.Side, max(0, sources-1))}
	for range pairs {
		if sources > 0 {
			b.Source.Add(make([]int32, lengths[0]))
		}
		for i := range b.Further {
			b.Further[i].Add(make([]int32, lengths[0]))
		}
		b.Target.Add(make([]int32, lengths[1]))
	}
	r.Train(&b, options, 1)
	return float64(r.Memory())
}

// solve solves six linear equations, by elimination with pivots.
func solve(m [6][7]float64) (x [6]float64, ok bool) {
	for i := range m {
		pivot := i
		for j := i + 1; j < len(m); j++ {
			if math.Abs(m[j][i]) > math.Abs(m[pivot][i]) {
				pivot = j
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if m[i][i] == 0 {
			return x, false
		}
		for j := range m {
			if j == i {
				continue
			}
			factor := m[j][i] / m[i][i]
			for k := i; k < len(m[j]); k++ {
				m[j][k] -= factor * m[i][k]
			}
		}
	}
	for i := range m {
		x[i] = m[i][6] / m[i][i]
	}
	return x, true
}

// growth is by how much the memory of a replica may exceed what the largest batch so far took.
const growth = 17.0 / 16

// budget returns the limits of mini-batches.
func (r *run) budget() (data.Budget, error) {
	c := &r.config
	if !c.MiniBatchFit {
		return data.Budget{Sentences: c.sentences(), Words: c.MiniBatchWords}, nil
	}
	m, err := measure(r.replicas[0], c.Sources(), r.options)
	if err != nil {
		return data.Budget{}, err
	}
	limit := float64(c.Workspace)*(1<<20)/growth - m.fixed
	if longest := m.cost(c.MaxLength, c.MaxLength); longest > limit {
		return data.Budget{}, fmt.Errorf("%w: workspace is %d MiB, but a pair of %d pieces each (max-length) takes %.0f",
			ErrConfig, c.Workspace, c.MaxLength, (longest+m.fixed)*growth/(1<<20)+1)
	}
	r.logger.Info("mini-batches fit into the workspace", "MiB", c.Workspace, "bytes_per_pair_of_25_pieces", int(m.cost(25, 25)))
	return data.Budget{Words: c.MiniBatchWords, Cost: m.cost, Limit: limit}, nil
}

// sentences is the limit of pairs; with mini-batch-words there is none.
func (c *Config) sentences() int {
	if c.MiniBatchWords > 0 {
		return 0
	}
	return c.MiniBatch
}
