package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// A devlin is a model.DevlinDecoder on the device.
type devlin struct {
	bottom  *cell
	context *product // from what attention found to what comes from the input of bottom
	layers  []linear
	top     *linear // without topCell
	topCell *cell
}

// devlin uploads Devlin's decoder, which has states of a unit, and finds so many elements.
func (u *uploader) devlin(m *model.Model, state unit, found int) *devlin {
	from := m.Recurrent.Devlin
	d := &devlin{bottom: u.cell(&from.Bottom, rowOf(m.Dim)), context: u.product(filledBy(found, state), state, nil, &from.Context),
		top: u.optional(from.Top)}
	for i := range from.Layers {
		layer := u.linear(from.Layers[i])
		d.layers = append(d.layers, layer)
		u.w.row = max(u.w.row, layer.out)
	}
	u.w.layerState = d.bottom.width
	if from.TopCell != nil {
		d.topCell = u.cell(from.TopCell, rowOf(from.TopCell.In))
		u.w.layerState = max(u.w.layerState, d.topCell.width)
	}
	u.w.widest = max(u.w.widest, u.w.layerState)
	return d
}

// decodeDevlin runs Devlin's decoder, from the embeddings to what the output layer multiplies.
func (s *Stepper) decodeDevlin(a *activations, lists stepLists, embedded gpukernels.Matrix) error {
	d, found := s.w.network.devlin, a.matrix(a.bottom, s.w.network.found)
	r, err := s.beginCells(a, lists, 0, d.bottom, a.attended, s.decoderStarts.at)
	if err != nil {
		return err
	}
	if err := s.attend(a, lists, r.h, found); err != nil {
		return err
	}
	if err := s.feedCells(d.bottom, &r, embedded); err != nil {
		return err
	}
	if err := s.runProduct(a, &d.context.linear, gpukernels.Product{X: found, Residual: r.x, Result: r.x}); err != nil {
		return err
	}
	if err := s.advance(d.bottom, &r); err != nil {
		return err
	}
	result, err := s.devlinLayers(a, r.h)
	if err != nil {
		return err
	}
	if d.topCell != nil {
		return s.devlinTopCell(a, lists, result)
	}
	if err := s.product(a, a.x, result.At, d.top, false); err != nil {
		return err
	}
	return s.w.device.kernels.Activate(a.stream, a.matrix(a.x, s.w.dim), gpukernels.Tanh)
}

// addsBefore says whether fully connected layer i adds what came out of the one before the last, as every second one does.
func addsBefore(i int) bool { return i%2 == 0 && i > 0 }

// devlinLayers runs the fully connected layers. Embeddings and what attention
// found are not needed any more: their places are those of the results.
func (s *Stepper) devlinLayers(a *activations, x gpukernels.Matrix) (gpukernels.Matrix, error) {
	results := [...]cuda.Pointer{a.normed, a.bottom}
	for i := range s.w.network.devlin.layers {
		l := &s.w.network.devlin.layers[i]
		result := a.matrix(results[i%2], l.out)
		p := gpukernels.Product{X: x, Result: result, Rectified: true}
		if addsBefore(i) { // and it has the place of what it adds
			p.Residual, p.Rectified = result, false
		}
		if err := s.runProduct(a, l, p); err != nil {
			return x, err
		}
		if addsBefore(i) {
			if err := s.w.device.kernels.Activate(a.stream, result, gpukernels.Activation(model.ReLU)); err != nil {
				return x, err
			}
		}
		x = result
	}
	return x, nil
}

// devlinTopCell runs the cell on top, which gives what the output layer multiplies.
func (s *Stepper) devlinTopCell(a *activations, lists stepLists, input gpukernels.Matrix) error {
	c := s.w.network.devlin.topCell
	r, err := s.beginCells(a, lists, 1, c, a.x, 0)
	if err != nil {
		return err
	}
	return s.advanceWith(c, &r, input)
}
