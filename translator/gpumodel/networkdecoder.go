package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// decode runs the decoder of a recurrent model, from the embeddings to what the output layer multiplies.
func (s *Stepper) decode(a *activations, lists stepLists) error {
	n := s.w.network
	embedded, err := s.firstInput(a, lists)
	if err != nil {
		return err
	}
	if n.devlin != nil {
		return s.decodeDevlin(a, lists, embedded)
	}
	r, err := s.beginCells(a, lists, 0, n.base[0], a.attended, s.decoderStarts.at)
	if err != nil {
		return err
	}
	if err := s.advanceWith(n.base[0], &r, embedded); err != nil {
		return err
	}
	found := a.matrix(a.bottom, n.found)
	if n.found > 0 {
		if err := s.attend(a, lists, r.h, found); err != nil {
			return err
		}
	}
	for _, c := range n.base[1:] {
		if c.input != nil {
			err = s.advanceWith(c, &r, found)
		} else {
			err = s.advance(c, &r)
		}
		if err != nil {
			return err
		}
	}
	result := r.h
	for i := range n.high {
		if result, err = s.highLayer(a, &n.high[i], lists, i+1, result); err != nil {
			return err
		}
	}
	return s.deepOutput(a, embedded, result, found)
}

// firstInput is what the first cell reads: the embeddings of the words before, and with hard attention beside them what the encoder gave for
// the tokens of the source that it is at.
func (s *Stepper) firstInput(a *activations, lists stepLists) (gpukernels.Matrix, error) {
	n, embedded := s.w.network, a.matrix(a.normed, s.w.dim)
	if n.hard != nil {
		embedded.At = a.y
	}
	k := s.w.device.kernels
	err := k.Embed(a.stream, embedded, lists.tokens, lists.positions, s.w.target, s.signal.at, s.w.embeddingFactor())
	if n.hard == nil || err != nil {
		return embedded, err
	}
	if err := s.readOn(a, lists); err != nil {
		return embedded, err
	}
	return s.besideSource(a, embedded)
}

// attend looks at all sources with what the first cell gave. What it finds in them stands side by side.
func (s *Stepper) attend(a *activations, lists stepLists, state, found gpukernels.Matrix) error {
	first := 0
	for source := range s.w.encoders {
		l := s.w.encoders[source].reader.attention
		attention := gpukernels.AdditiveAttention{Queries: a.matrix(a.y, l.dim), Memory: s.memory.memory.at, Stride: s.w.contextWidth(),
			Score: l.score, Starts: lists.starts(source), Lengths: lists.lengths(source), Weights: s.weights.at, Most: s.furthest,
			Result: gpukernels.Matrix{At: cuda.Offset[gpukernels.Half](found.At, first), Rows: a.rows, Columns: l.dim, Stride: found.Columns}}
		if s.aligned && source == 0 {
			attention.Weights = s.alignments()
		}
		if err := s.multiply(a, attention.Queries, state, l.state); err != nil {
			return err
		}
		if err := s.w.device.kernels.AttendAdditively(a.stream, attention); err != nil {
			return err
		}
		first += l.dim
	}
	return nil
}

// highLayer runs a layer over the results of the one before, and returns its own.
func (s *Stepper) highLayer(a *activations, l *cellLayer, lists stepLists, layer int, input gpukernels.Matrix) (gpukernels.Matrix, error) {
	to := a.attended
	if input.At == to {
		to = a.y
	}
	r, err := s.beginCells(a, lists, layer, l.cells[0], to, s.decoderStarts.at)
	if err != nil {
		return r.h, err
	}
	if err := s.feedCells(l.cells[0], &r, input); err != nil {
		return r.h, err
	}
	r.added = l.skip
	var sum gpukernels.Matrix // of the input and what the cells give
	if l.skip {
		sum = r.h
	}
	return r.h, s.advanceAll(l.cells, &r, sum)
}

// adds says whether the product, number i of a sum, adds what is there: a norm stands between the two otherwise.
func (p *product) adds(i int) bool { return i > 0 && len(p.norms) == 0 }

// deepOutput computes what the output layer multiplies: the hyperbolic tangent of the sum of what becomes of embeddings, results and what
// attention found.
func (s *Stepper) deepOutput(a *activations, inputs ...gpukernels.Matrix) error {
	k, top, summand := s.w.device.kernels, a.matrix(a.x, s.w.dim), a.matrix(a.wide, s.w.dim)
	for i, p := range s.w.network.hidden {
		if p.adds(i) {
			if err := s.runProduct(a, &p.linear, gpukernels.Product{X: inputs[i], Residual: top, Result: top}); err != nil {
				return err
			}
			continue
		}
		to := top
		if i > 0 {
			to = summand
		}
		if err := s.multiply(a, to, inputs[i], p); err != nil {
			return err
		}
		if i > 0 {
			if err := k.Add(a.stream, top, top.At, summand.At); err != nil {
				return err
			}
		}
	}
	return k.Activate(a.stream, top, gpukernels.Tanh)
}
