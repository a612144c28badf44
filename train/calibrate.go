package train

import (
	"sync"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/train/quantise"
)

// The damping of moments. That of tables is larger: their rows are not only what the output layer multiplies, but also
// embeddings, for which all directions are alike.
const (
	damping      = 0.01
	tableDamping = 0.1
)

// A meeting is what a parameter meets in products.
type meeting struct {
	bias    int       // the parameter that is added to the products, -1 for none
	count   int       // of the inputs x
	sum     []float32 // of x
	moments []float32 // the sum of xᵀ·x
}

// add takes inputs, a row each.
func (m *meeting) add(cpu *autodiff.CPU, x *autodiff.Matrix[float32]) {
	if m.moments == nil {
		m.sum, m.moments = make([]float32, x.Cols), make([]float32, x.Cols*x.Cols)
	}
	rows := autodiff.View[float32]{Data: x.Value, Rows: x.Rows, Cols: x.Cols, Stride: x.Cols}
	moments := autodiff.View[float32]{Data: m.moments, Rows: x.Cols, Cols: x.Cols, Stride: x.Cols}
	cpu.Multiply(moments, rows, rows, autodiff.TransposedA, true)
	m.count += x.Rows
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			m.sum[j] += v
		}
	}
}

// centre makes the moments those of x less its mean: a bias makes up for what errors do to the mean of a product.
func (m *meeting) centre() {
	n := len(m.sum)
	for i, a := range m.sum {
		for j, b := range m.sum {
			m.moments[i*n+j] -= a * b / float32(m.count)
		}
	}
}

// calibrate replaces the parameters, before the first update, by rounded ones that keep the results of products better than the
// nearest numbers do. What meets the matrices is seen in the first mini-batches.
func (r *run) calibrate() error {
	c := &r.config
	if c.QuantizeCalibrate == 0 || r.state.Steps > 0 {
		return nil
	}
	meetings, err := r.meetings()
	if err != nil {
		return err
	}
	q, rounded := c.quantisation(), make([]float32, len(r.values))
	r.eachParameter(func(i int, p *network.Parameter) {
		met, damping := &meetings[i], damping
		to, from, m := network.Values(p, rounded), network.Values(p, r.values), r.matrixOf(p)
		if m.Outputs == quantise.Rows {
			damping = tableDamping
		}
		if met.count == 0 {
			q.Round(to, from, m)
			return
		}
		if met.bias >= 0 {
			met.centre()
		}
		q.Compensate(to, from, m, met.moments, damping)
	})
	for i := range meetings {
		if met := &meetings[i]; met.count > 0 && met.bias >= 0 {
			r.correctBias(rounded, i, met)
		}
	}
	copy(r.values, rounded)
	if r.optimiser.Average != nil {
		copy(r.optimiser.Average, rounded)
	}
	r.round(r.trained, r.values)
	r.logger.Info("calibrated", "mini-batches", c.QuantizeCalibrate)
	return r.putTrained(optimiser.State{Values: r.values, Average: r.optimiser.Average})
}

// correctBias adds to a bias what rounding a matrix has taken from the mean of its products (Nagel et al. 2019).
func (r *run) correctBias(rounded []float32, parameter int, met *meeting) {
	p := &r.network.Parameters[parameter]
	before, after := network.Values(p, r.values), network.Values(p, rounded)
	bias := network.Values(&r.network.Parameters[met.bias], rounded)
	table := r.matrixOf(p).Outputs == quantise.Rows
	for i := range p.Rows {
		for j := range p.Cols {
			input, output := i, j
			if table {
				input, output = j, i
			}
			at := i*p.Cols + j
			bias[output] += (before[at] - after[at]) * met.sum[input] / float32(met.count)
		}
	}
}

// meetings returns what each parameter meets in the first mini-batches. The parameters are not rounded in this.
func (r *run) meetings() ([]meeting, error) {
	c := &r.config
	batching, err := r.batching()
	if err != nil {
		return nil, err
	}
	batches, err := r.corpus.Batches(batching, data.Position{})
	if err != nil {
		return nil, err
	}
	copy(r.trained, r.values)
	all := make([]meeting, len(r.network.Parameters))
	cpu, replica := new(autodiff.CPU), network.NewEvaluator(r.network, autodiff.Device[float32](new(autodiff.CPU)), r.trained)
	replica.Quantised = c.quantisesActivations()
	replica.Observe = func(parameter, bias int, x *autodiff.Matrix[float32]) {
		if r.network.Parameters[parameter].Rows > 1 {
			all[parameter].bias = bias
			all[parameter].add(cpu, x)
		}
	}
	var batch network.Batch
	for range c.QuantizeCalibrate {
		batch.Reset()
		if err := batches.Next(&batch); err != nil {
			return nil, err
		}
		replica.Evaluate(&batch, nil)
	}
	return all, nil
}

// eachParameter calls work for every parameter, for several at a time.
func (r *run) eachParameter(work func(number int, p *network.Parameter)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range r.config.CPUThreads {
		group.Go(func() {
			for i := range next {
				work(i, &r.network.Parameters[i])
			}
		})
	}
	for i := range r.network.Parameters {
		next <- i
	}
	close(next)
	group.Wait()
}
