package train

import (
	"sync"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/quantise"
)

// The damping of moments. That of tables is larger: their rows are not only what the output layer multiplies, but also
// embeddings, for which all directions are alike.
const (
	damping      = 0.01
	tableDamping = 0.1
)

// calibrate replaces the parameters, before the first update, by rounded ones that keep the results of products better than the
// nearest numbers do. What meets the matrices is seen in the first mini-batches.
func (r *run) calibrate() error {
	c := &r.config
	if c.QuantizeCalibrate == 0 || r.state.Steps > 0 {
		return nil
	}
	moments, err := r.moments()
	if err != nil {
		return err
	}
	q, rounded := c.quantisation(), make([]float32, len(r.values))
	r.eachParameter(func(i int, p *network.Parameter) {
		to, from, m := network.Values(p, rounded), network.Values(p, r.values), matrixOf(p)
		switch {
		case moments[i] == nil:
			q.Round(to, from, m)
		case m.Outputs == quantise.Rows:
			q.Compensate(to, from, m, moments[i], tableDamping)
		default:
			q.Compensate(to, from, m, moments[i], damping)
		}
	})
	copy(r.values, rounded)
	if r.optimiser.Average != nil {
		copy(r.optimiser.Average, rounded)
	}
	r.round(r.trained, r.values)
	r.logger.Info("calibrated", "mini-batches", c.QuantizeCalibrate)
	return nil
}

// moments returns the sums of xᵀ·x over the inputs x that meet each parameter in the first mini-batches, nil where nothing does.
// The parameters are not rounded in this.
func (r *run) moments() ([][]float32, error) {
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
	sums := make([][]float32, len(r.network.Parameters))
	cpu, replica := new(autodiff.CPU), r.replicas[0]
	replica.Observe = func(parameter int, x *autodiff.Matrix[float32]) {
		if r.network.Parameters[parameter].Rows == 1 {
			return
		}
		if sums[parameter] == nil {
			sums[parameter] = make([]float32, x.Cols*x.Cols)
		}
		rows := autodiff.View[float32]{Data: x.Value, Rows: x.Rows, Cols: x.Cols, Stride: x.Cols}
		sum := autodiff.View[float32]{Data: sums[parameter], Rows: x.Cols, Cols: x.Cols, Stride: x.Cols}
		cpu.Multiply(sum, rows, rows, autodiff.TransposedA, true)
	}
	defer func() { replica.Observe = nil }()
	var batch network.Batch
	for range c.QuantizeCalibrate {
		batch.Reset()
		if err := batches.Next(&batch); err != nil {
			return nil, err
		}
		replica.Evaluate(&batch, nil)
	}
	return sums, nil
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
