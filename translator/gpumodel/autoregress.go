package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// autoregress runs the sublayer that looks at the target words so far. layer is the place in the stack: tied layers have states of
// their own.
func (s *Stepper) autoregress(a *activations, l *decoderLayer, lists stepLists, layer int) error {
	switch {
	case l.self != nil:
		return s.selfAttention(a, l.self, lists, layer)
	case l.average != nil:
		return s.averageAttention(a, l.average, lists, layer)
	}
	if l.recurrent.cell != nil {
		return s.cellSublayer(a, l.recurrent, lists, layer)
	}
	return s.recurrent(a, l.recurrent, lists, layer)
}

// layerStates are those of a layer.
func (s *Stepper) layerStates(lists stepLists, layer int) gpukernels.States {
	return gpukernels.States{At: cuda.Offset[float32](s.states.at, layer*s.w.layerState), Stride: s.stateWidth(), From: lists.from, To: lists.to,
		Positions: lists.positions}
}

// recurrent runs an SSRU or SRU.
func (s *Stepper) recurrent(a *activations, l *recurrent, lists stepLists, layer int) error {
	input, err := s.before(a, l.pre, a.normed, a.x)
	if err != nil {
		return err
	}
	if err := s.product(a, a.wide, input, &l.gates, false); err != nil {
		return err
	}
	k, result, states := s.w.device.kernels, a.matrix(a.attended, s.w.dim), s.layerStates(lists, layer)
	if l.sru {
		err = k.SRU(a.stream, result, a.wide, input, states)
	} else {
		err = k.SSRU(a.stream, result, a.wide, states)
	}
	if err != nil {
		return err
	}
	return s.after(a, l.post, a.attended, l.o)
}

// averageAttention runs an average attention network.
func (s *Stepper) averageAttention(a *activations, l *average, lists stepLists, layer int) error {
	k := s.w.device.kernels
	if err := k.Average(a.stream, a.matrix(a.attended, s.w.dim), a.x, s.layerStates(lists, layer)); err != nil {
		return err
	}
	y, err := s.before(a, l.pre, a.attended, a.attended)
	if err != nil {
		return err
	}
	if y, err = s.hidden(a, y, l.hidden, l.activation); err != nil {
		return err
	}
	if l.out != nil {
		if err := s.product(a, a.y, y, l.out, false); err != nil {
			return err
		}
		y = a.y
	}
	if l.gateX == nil {
		return s.after(a, l.post, y, nil)
	}
	gateX, gateY := a.normed, a.other
	if y == gateY {
		gateY = a.wide
	}
	if err := s.product(a, gateX, a.x, l.gateX, false); err != nil {
		return err
	}
	if err := s.product(a, gateY, y, l.gateY, false); err != nil {
		return err
	}
	if err := k.GatedSum(a.stream, a.matrix(a.y, s.w.dim), gateX, a.x, gateY, y); err != nil {
		return err
	}
	return s.after(a, l.post, a.y, nil)
}

// selfAttention runs attention to the words so far.
//
// Where a norm comes before the sublayer, marian-decoder, other than in training, applies it to the queries alone. Only at the first
// position, where nothing is kept yet, the value comes from the normalised input, though what is kept for later steps does not.
func (s *Stepper) selfAttention(a *activations, l *selfAttention, lists stepLists, layer int) error {
	dim, k := s.w.attention(), s.w.device.kernels
	words := gpukernels.Words{Cache: cuda.Offset[gpukernels.Half](s.words.cache.at, 2*dim*layer), Stride: s.w.wordWidth(),
		Numbers: s.states.at, Capacity: s.words.capacity, Slots: lists.to, Positions: lists.positions}
	queries, queryStride := a.wide, 3*dim
	keysValues, stride := cuda.Offset[gpukernels.Half](a.wide, dim), 3*dim
	if l.kv == nil {
		if err := s.product(a, a.wide, a.x, &l.qkv, false); err != nil {
			return err
		}
	} else {
		input, err := s.before(a, l.pre, a.normed, a.x)
		if err != nil {
			return err
		}
		queries, queryStride, keysValues, stride = a.y, dim, a.wide, 2*dim
		if err := s.product(a, keysValues, a.x, l.kv, false); err != nil {
			return err
		}
		if err := s.product(a, queries, input, l.q, false); err != nil {
			return err
		}
	}
	if err := k.KeepWords(a.stream, words, keysValues, stride, a.rows, 2*dim, lists.words); err != nil {
		return err
	}
	if err := k.Recall(a.stream, words, a.attended, queries, queryStride, a.rows, s.w.heads, s.w.head.filled, gpukernels.Scale(s.w.head.own)); err != nil {
		return err
	}
	if l.kv != nil && s.starting {
		if err := s.product(a, a.wide, a.normed, l.v, false); err != nil {
			return err
		}
		if err := k.FirstWords(a.stream, a.matrix(a.attended, dim), a.wide, lists.positions); err != nil {
			return err
		}
	}
	return s.after(a, l.post, a.attended, l.o)
}
