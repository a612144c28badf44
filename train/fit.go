package train

import (
	"cmp"
	"errors"
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

// measure finds the polynomial from what mini-batches of a few lengths take.
func measure(takes func(*network.Batch) (float64, error), sources int) (memoryModel, error) {
	var equations [6][7]float64
	for i, lengths := range measuredLengths {
		bytes, err := takes(samePairs(sources, lengths, 1))
		if err != nil {
			return memoryModel{}, err
		}
		s, t := float64(lengths[0]), float64(lengths[1])
		equations[i] = [7]float64{1, s, t, s * s, s * t, t * t, bytes}
	}
	first := measuredLengths[0]
	two, err := takes(samePairs(sources, first, 2))
	if err != nil {
		return memoryModel{}, err
	}
	another := two - equations[0][6]
	x, ok := solve(equations)
	if !ok {
		return memoryModel{}, fmt.Errorf("%w: the memory of a mini-batch cannot be told from its lengths; set mini-batch-words instead of mini-batch-fit", ErrConfig)
	}
	m := memoryModel{x[0], 0, x[1], x[2], x[3], x[4], x[5]}
	m.pair = another - m.cost(first[0], first[1])
	m.fixed -= m.pair
	return m, nil
}

// samePairs returns a mini-batch of so many pairs of the same lengths.
func samePairs(sources int, lengths [2]int, pairs int) *network.Batch {
	b := &network.Batch{Further: make([]network.Side, max(0, sources-1))}
	for range pairs {
		if sources > 0 {
			b.Source.Add(make([]int32, lengths[0]))
		}
		for i := range b.Further {
			b.Further[i].Add(make([]int32, lengths[0]))
		}
		b.Target.Add(make([]int32, lengths[1]))
	}
	return b
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
	m, err := r.measureMemory()
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

// measureMemory trains a little to see what mini-batches take, of the memory of this machine or of the device. Gradients are cleared.
func (r *run) measureMemory() (memoryModel, error) {
	if r.device != nil {
		return r.measureDevice()
	}
	replica := r.replicas[0]
	m, err := measure(func(b *network.Batch) (float64, error) {
		replica.Train(b, r.options, 1)
		return float64(replica.Memory()), nil
	}, r.config.Sources())
	clear(replica.Gradient)
	return m, err
}

// measureDevice is measureMemory on a device, where it takes the whole workspace, too.
func (r *run) measureDevice() (memoryModel, error) {
	room := r.config.Workspace << 20
	always := 0
	m, err := measure(func(b *network.Batch) (bytes float64, err error) {
		if err := r.device.Begin(0, b, r.options, 1); err != nil {
			return 0, err
		}
		growing, fixed := r.device.Memory(room)
		always = fixed
		_, err = r.device.Losses(0)
		return float64(growing), err
	}, r.config.Sources())
	m.fixed += float64(always)
	if err = cmp.Or(err, r.device.Clear()); err == nil {
		err = r.device.Reserve(room)
	}
	if errors.Is(err, network.ErrOutOfMemory) {
		err = fmt.Errorf("%w: workspace is %d MiB, for which the device has no room beside the parameters: lower it: %w", ErrConfig, r.config.Workspace, err)
	}
	return m, err
}

// sentences is the limit of pairs; with mini-batch-words there is none.
func (c *Config) sentences() int {
	if c.MiniBatchWords > 0 {
		return 0
	}
	return c.MiniBatch
}
