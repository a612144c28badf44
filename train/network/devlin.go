package network

import "github.com/sluice-mt/sluice/train/autodiff"

// devlin runs a decoder of type devlin, on embeddings in the order of time. See model.DevlinDecoder.
func (r *Replica[T]) devlin(b *Batch, start, embedded *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	d, s := r.network.Model.Recurrent.Devlin, &r.targetSchedule
	found := r.roomForFound()
	r.single[0] = d.Bottom
	chain := r.newChain(r.single[:], s, start, embedded, nil)
	r.prepareAttention(b, 0, chain.state)
	context := r.stepped(&d.Context, found, r.recurrentMask(found.Cols))
	for step := range s.Count() {
		chain.begin(r.tape, step)
		r.look(found, step)
		first, rows := s.Of(step)
		x := r.fromInput(&chain.cells[0], first, rows)
		chain.runWith(r, 0, step, r.tape.Add(x, context.rows(r.tape, first, rows)))
	}
	h := r.connected(chain.cells[0].out)
	if d.TopCell != nil {
		r.single[0] = *d.TopCell
		return r.layer(r.single[:], s, nil, h)
	}
	return r.tape.Apply(r.affine(d.Top, h), autodiff.Tanh)
}

// connected runs the fully connected layers: every second one, from the third on, adds what the one two below it gave.
func (r *Replica[T]) connected(h *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	layers := r.network.Model.Recurrent.Devlin.Layers
	var below *autodiff.Matrix[T] // the layer before h
	for i := range layers {
		var y *autodiff.Matrix[T]
		if i >= 2 && i%2 == 0 {
			y = r.tape.Apply(r.tape.Add(r.affine(&layers[i], h), below), autodiff.ReLU)
		} else {
			y = r.tape.AffineReLU(r.input(h), r.matrix(layers[i].W), r.matrix(layers[i].B))
		}
		below, h = h, y
	}
	return h
}
