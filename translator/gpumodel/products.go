package gpumodel

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// A Tuning is how products of 16 bits are to be computed. The zero Tuning leaves them to the kernels of gpukernels.
type Tuning struct {
	Way     gpukernels.Multiplication
	Known   gpukernels.ProductTuning // what was measured before, to which is added what is measured; without it nothing is measured
	Time    time.Duration            // for measurements
	Changed bool                     // set where something was measured
}

// UseBLAS opens NVIDIA's library cuBLASLt, by default the one that the driver can run. Models that are loaded from then on may be multiplied with
// it. The error is cuda.ErrNoBLAS or cuda.ErrBLASOutdated where there is none that can be used: the device goes on without it.
func (d *Device) UseBLAS(library string) error {
	return d.bound(func() (err error) {
		d.blas, err = d.context.OpenBLAS(library)
		return err
	})
}

// BLAS returns the library that was opened, nil if none was.
func (d *Device) BLAS() *cuda.BLAS { return d.blas }

// closeBLAS gives back what the library holds.
func (d *Device) closeBLAS() error {
	if d.blas == nil {
		return nil
	}
	return d.blas.Close()
}

// chooseProducts decides for each matrix that rows are multiplied with how that is done. The same kinds of products are done alike.
func (w *Weights) chooseProducts(t *Tuning) error {
	if t == nil || w.device.blas == nil || w.device.inBytes() || t.Way == gpukernels.OwnProducts || t.Way == gpukernels.MeasuredProducts && t.Known == nil {
		return nil
	}
	d := w.device
	chooser, err := gpukernels.NewChooser(d.context, d.kernels, d.blas, d.as.Stored, t.Way, t.Known, t.Time)
	if err != nil {
		return err
	}
	chosen := map[gpukernels.ProductKind]gpukernels.Algorithms{}
	for _, use := range w.uses() {
		if err = w.chooseProduct(chooser, t.Way == gpukernels.MeasuredProducts, use, chosen); err != nil {
			break
		}
	}
	t.Changed = t.Changed || chooser.Changed()
	return errors.Join(err, chooser.Close())
}

// chooseProduct decides for one of them. Where there is no memory left for measuring, the model may still run.
func (w *Weights) chooseProduct(chooser *gpukernels.Chooser, measured bool, use productUse, chosen map[gpukernels.ProductKind]gpukernels.Algorithms) error {
	l := use.of
	if l.by != nil || l.storedBias == 0 {
		return nil
	}
	kind := gpukernels.ProductKind{N: l.out, K: l.in, Rectified: use.rectified, Residual: use.residual}
	algorithms, known := chosen[kind]
	if !known {
		var err error
		if algorithms, err = chooser.Choose(kind); err != nil && !(measured && errors.Is(err, cuda.ErrOutOfMemory)) {
			return err
		}
		chosen[kind] = algorithms
		w.kinds++
		if algorithms != (gpukernels.Algorithms{}) {
			w.kindsByBLAS++
		}
	}
	var err error
	if l.by, err = algorithms.Multiplier(w.device.blas, kind, w.device.as.Stored, l.storedBias); err != nil || l.by == nil {
		return err
	}
	w.multipliers = append(w.multipliers, l.by)
	w.workspace = max(w.workspace, algorithms.Workspace())
	return nil
}

// Multiplied says what multiplies.
func (w *Weights) Multiplied() string {
	if w.kindsByBLAS == 0 {
		return "own kernels"
	}
	return fmt.Sprintf("%v for %d of %d kinds of products", w.device.blas, w.kindsByBLAS, w.kinds)
}

// closeProducts gives back what cuBLASLt holds for the products.
func (w *Weights) closeProducts() error {
	var failed []error
	for _, by := range w.multipliers {
		failed = append(failed, by.Close())
	}
	w.multipliers = nil
	return errors.Join(failed...)
}

// A productUse is a matrix with what is done behind the sum where rows are multiplied with it.
type productUse struct {
	of                  *linear
	rectified, residual bool
}

// uses are the matrices that rows are multiplied with.
func (w *Weights) uses() []productUse {
	var u productUses
	u.processes(w.emb, w.top)
	for i := range w.encoders {
		e := &w.encoders[i]
		u.processes(e.emb, e.top)
		for j := range e.layers {
			l := &e.layers[j]
			u.processes(l.pre)
			u.plain(&l.qkv)
			u.last(l.o, l.post)
			u.feedForward(&l.ffn)
		}
		u.plain(&e.contextKV)
	}
	for _, l := range w.decoder {
		u.decoderLayer(l)
	}
	if w.network != nil {
		u.network(w)
	}
	return u
}

type productUses []productUse

func (u *productUses) decoderLayer(l *decoderLayer) {
	switch {
	case l.self != nil:
		u.processes(l.self.pre)
		u.plain(&l.self.qkv, l.self.q, l.self.kv, l.self.v)
		u.last(l.self.o, l.self.post)
	case l.average != nil:
		u.processes(l.average.pre, l.average.post)
		u.hidden(l.average.hidden, l.average.activation)
		u.plain(l.average.out, l.average.gateX, l.average.gateY)
	case l.recurrent != nil:
		u.processes(l.recurrent.pre)
		u.plain(&l.recurrent.gates)
		u.cell(l.recurrent.cell)
		u.last(l.recurrent.o, l.recurrent.post)
	}
	for i := range l.contexts {
		c := &l.contexts[i]
		u.processes(c.pre)
		u.plain(&c.q)
		u.last(c.o, c.post)
	}
	u.feedForward(&l.ffn)
}

func (u *productUses) cell(c *cell) {
	if c != nil {
		u.products(c.input, c.state, c.factor)
	}
}

// network adds what a recurrent model has.
func (u *productUses) network(w *Weights) {
	for i := range w.encoders {
		r := w.encoders[i].reader
		for _, stack := range [][]cellLayer{r.forward, r.backward, r.upper} {
			u.cellLayers(stack)
		}
		u.products(r.start)
		if r.attention != nil {
			u.products(r.attention.context, r.attention.state)
		}
	}
	if d := w.network.devlin; d != nil {
		u.devlin(d)
	}
	for _, c := range w.network.base {
		u.cell(c)
	}
	u.cellLayers(w.network.high)
	for i, p := range w.network.hidden {
		*u = append(*u, productUse{of: &p.linear, residual: p.adds(i)})
	}
}

// devlin adds what Devlin's decoder has.
func (u *productUses) devlin(d *devlin) {
	u.cell(d.bottom)
	*u = append(*u, productUse{of: &d.context.linear, residual: true})
	for i := range d.layers {
		*u = append(*u, productUse{of: &d.layers[i], rectified: !addsBefore(i), residual: addsBefore(i)})
	}
	u.plain(d.top)
	u.cell(d.topCell)
}

func (u *productUses) cellLayers(layers []cellLayer) {
	for _, layer := range layers {
		for _, c := range layer.cells {
			u.cell(c)
		}
	}
}

// products adds those that are there.
func (u *productUses) products(all ...*product) {
	for _, p := range all {
		if p != nil {
			u.plain(&p.linear)
		}
	}
}

func (u *productUses) feedForward(f *feedForward) {
	u.processes(f.pre)
	u.hidden(f.layers, f.activation)
	u.last(&f.last, f.post)
}

// plain adds matrices behind which there is nothing but the bias; those that are not there are left out.
func (u *productUses) plain(all ...*linear) {
	for _, l := range all {
		if l != nil && l.out > 0 {
			*u = append(*u, productUse{of: l})
		}
	}
}

func (u *productUses) hidden(layers []linear, activation model.Activation) {
	for i := range layers {
		*u = append(*u, productUse{of: &layers[i], rectified: activation == model.ReLU})
	}
}

// last adds the matrix at the end of a sublayer: see after.
func (u *productUses) last(l *linear, post process) {
	if l != nil {
		*u = append(*u, productUse{of: l, residual: post.onlyAdds()})
	}
	u.processes(post)
}

// processes adds the gates of highways.
func (u *productUses) processes(all ...process) {
	for _, step := range slices.Concat(all...) {
		u.plain(step.gate)
	}
}

// multiplyBy runs a product with l, of which the operands but those of l are filled in, on a stream of the Stepper's.
func (s *Stepper) multiplyBy(stream *cuda.Stream, l *linear, p gpukernels.Product) error {
	p.Weights, p.Bias = l.matrix(), l.bias
	workspace := &s.workspaces[0]
	if stream == s.encoding.stream {
		workspace = &s.workspaces[1]
	}
	return s.w.device.kernels.ProductBy(stream, l.by, p, workspace.at)
}

// openWorkspaces gives each stream its own, if products need any.
func (s *Stepper) openWorkspaces() error {
	c := s.w.device.context
	return errors.Join(s.workspaces[0].reserve(c, s.w.workspace), s.workspaces[1].reserve(c, s.w.workspace))
}

// roundBias rounds a bias as numbers are stored, so that a product has the same bits whoever computes it, and uploads it in that form for cuBLASLt.
// One that is too large for that stays as it is, and is for own kernels alone.
func (u *uploader) roundBias(bias []float32) cuda.Pointer {
	stored, as := make([]uint16, len(bias)), u.w.device.as.Stored
	for i, b := range bias {
		stored[i] = as.Round(b)
		if math.IsInf(float64(as.Float32(stored[i])), 0) {
			return 0
		}
	}
	for i := range bias {
		bias[i] = as.Float32(stored[i])
	}
	if u.w.device.blas == nil {
		return 0
	}
	return upload(u, stored)
}
