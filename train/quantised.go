package train

import (
	"fmt"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/quantise"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
)

// storedBits are the bits of logarithmic numbers that a file can store.
const storedBits = 4

// quantisation returns how parameters are rounded, nil if they are not.
func (c *Config) quantisation() *quantise.Config {
	if c.QuantizeBits == 0 {
		return nil
	}
	q := &quantise.Config{
		Bits: c.QuantizeBits, Log: c.QuantizeLogBased, Steps: c.QuantizeSteps, Biases: c.QuantizeBiases,
		PerMatrix: c.QuantizeScales == "matrix", Blocks: c.QuantizeScales == "blocks",
	}
	if !q.PerMatrix {
		q.Cut = cpumodel.DefaultSaturation
	}
	return q
}

// quantisesActivations says whether the network computes as the engine does in 8 bits.
func (c *Config) quantisesActivations() bool { return c.QuantizeBits > 0 && c.QuantizeActivations }

// prepareRounding makes the vectors of rounded parameters. Where nothing is rounded, they are the optimiser's own.
func (r *run) prepareRounding() error {
	r.trained, r.best = r.values, r.optimiser.Best()
	q := r.config.quantisation()
	if q == nil {
		return nil
	}
	if q.Log && q.Blocks && (q.Bits == storedBits || r.config.QuantizeIn8Bits != marian.EightBitsAuto) {
		var err error
		if r.eight, err = marian.RowsIn8Bits(r.config.QuantizeIn8Bits, r.network.Model.Parameters()); err != nil {
			return fmt.Errorf("%w: quantize-in-8-bits: %w", ErrConfig, err)
		}
	}
	r.trained = autodiff.Numbers[float32](len(r.values))
	r.best = r.trained
	if r.optimiser.Average != nil {
		r.best = make([]float32, len(r.values))
	}
	r.round(r.trained, r.values)
	return nil
}

// round rounds all parameters in from into to, several at a time. It does nothing if parameters are not rounded.
func (r *run) round(to, from []float32) {
	q := r.config.quantisation()
	if q == nil {
		return
	}
	r.eachParameter(func(_ int, p *network.Parameter) {
		q.Round(network.Values(p, to), network.Values(p, from), r.matrixOf(p))
	})
}

// refreshBest rounds the parameters to translate with, where they are others than those that are trained.
func (r *run) refreshBest() {
	if r.optimiser.Average != nil {
		r.round(r.best, r.optimiser.Average)
	}
}

// othersThanTrained returns the parameters to translate with, nil if they are those that losses are of.
func (r *run) othersThanTrained() []float32 {
	if r.optimiser.Average == nil {
		return nil
	}
	return r.best
}

// runnable returns a model file with the parameters to translate with, as the engine should run it, and the arithmetic for that.
func (r *run) runnable() (*marian.File, cpumodel.Precision, error) {
	file, q := r.network.File(r.best, r.description), r.config.quantisation()
	if !r.config.quantisesActivations() {
		return file, cpumodel.Float32, nil
	}
	if q.PerMatrix && !q.Log {
		stored, err := file.Quantize(marian.Intgemm8, marian.Browsermt, nil)
		return stored, cpumodel.Int8, err
	}
	return file, cpumodel.Int8, nil
}

// matrixOf describes a parameter.
func (r *run) matrixOf(p *network.Parameter) quantise.Matrix {
	m := quantise.Matrix{Rows: p.Rows, Cols: p.Cols, Eight: r.eight[p.Name]}
	if marian.IsTable(p.Name) {
		m.Outputs = quantise.Rows
	}
	return m
}
