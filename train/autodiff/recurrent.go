package autodiff

// ssru is c_t = g_t·c_{t-1} + (1-g_t)·x_t with g = σ(f), h = max(0, c).
type ssru[T Float] struct {
	h, f, x   *Matrix[T]
	gate, c   []T
	sentences Segments
}

// SSRU returns the outputs of simpler simple recurrent units (Kim et al. 2019) over the tokens of each sentence:
// c = σ(f)·c + (1-σ(f))·x, starting at zero, and max(0, c).
func (t *Tape[T]) SSRU(f, x *Matrix[T], sentences Segments) *Matrix[T] {
	checkShape(x, f.Rows, f.Cols, "the input of an SSRU")
	checkSegments(sentences, f.Rows, "an SSRU")
	h := t.matrix(f.Rows, f.Cols)
	o := t.ssrus.next()
	*o = ssru[T]{h, f, x, t.arena.take(len(f.Value)), t.arena.take(len(f.Value)), sentences}
	t.device.Apply(o.gate, f.Value, Sigmoid)
	forgetting(o.c, o.gate, x.Value, f.Cols, sentences)
	t.device.Apply(h.Value, o.c, ReLU)
	t.record(o)
	return h
}

// forgetting computes the states c_t = g_t·c_{t-1} + (1-g_t)·x_t.
func forgetting[T Float](c, gate, x []T, d int, sentences Segments) {
	for s := range sentences.Sentences() {
		for i := sentences[s]; i < sentences[s+1]; i++ {
			state, g, in := c[i*d:(i+1)*d], gate[i*d:(i+1)*d], x[i*d:(i+1)*d]
			if i == sentences[s] {
				for j := range state {
					state[j] = (1 - g[j]) * in[j]
				}
				continue
			}
			before := c[(i-1)*d : i*d]
			for j := range state {
				state[j] = g[j]*before[j] + (1-g[j])*in[j]
			}
		}
	}
}

// forgettingBackward goes back through forgetting. dc holds the gradients of the states by their outputs, and after it
// also those by later states: dx = dc·(1-g), df = dc·(c_{t-1} - x)·g·(1-g), and dc_{t-1} grows by dc·g.
func forgettingBackward[T Float](dc, c, gate []T, f, x *Matrix[T], sentences Segments) {
	d := f.Cols
	for s := range sentences.Sentences() {
		for i := sentences[s+1] - 1; i >= sentences[s]; i-- {
			at, end := i*d, (i+1)*d
			grad, g, in := dc[at:end], gate[at:end], x.Value[at:end]
			df, dx := f.Grad[at:end], x.Grad[at:end]
			if i == sentences[s] {
				for j, v := range grad {
					dx[j] += v * (1 - g[j])
					df[j] -= v * in[j] * g[j] * (1 - g[j])
				}
				continue
			}
			before, earlier := c[at-d:at], dc[at-d:at]
			for j, v := range grad {
				dx[j] += v * (1 - g[j])
				df[j] += v * (before[j] - in[j]) * g[j] * (1 - g[j])
				earlier[j] += v * g[j]
			}
		}
	}
}

func (o *ssru[T]) backward(t *Tape[T]) {
	dc := t.arena.take(len(o.c))
	for i, c := range o.c {
		dc[i] = 0
		if c > 0 {
			dc[i] = o.h.Grad[i]
		}
	}
	forgettingBackward(dc, o.c, o.gate, o.f, o.x, o.sentences)
}

// sru is c_t = g_t·c_{t-1} + (1-g_t)·wx_t with g = σ(f), h = σ(r)·tanh(c) + (1-σ(r))·x.
type sru[T Float] struct {
	h, f, r, wx, x         *Matrix[T]
	gate, reset, c, outset []T // outset is tanh(c)
	sentences              Segments
}

// SRU returns the outputs of simple recurrent units (Lei et al. 2018) over the tokens of each sentence:
// c = σ(f)·c + (1-σ(f))·wx, starting at zero, and σ(r)·tanh(c) + (1-σ(r))·x.
func (t *Tape[T]) SRU(f, r, wx, x *Matrix[T], sentences Segments) *Matrix[T] {
	for _, m := range []*Matrix[T]{r, wx, x} {
		checkShape(m, f.Rows, f.Cols, "an input of an SRU")
	}
	checkSegments(sentences, f.Rows, "an SRU")
	n := len(f.Value)
	h := t.matrix(f.Rows, f.Cols)
	o := t.srus.next()
	*o = sru[T]{h, f, r, wx, x, t.arena.take(n), t.arena.take(n), t.arena.take(n), t.arena.take(n), sentences}
	t.device.Apply(o.gate, f.Value, Sigmoid)
	t.device.Apply(o.reset, r.Value, Sigmoid)
	forgetting(o.c, o.gate, wx.Value, f.Cols, sentences)
	t.device.Apply(o.outset, o.c, Tanh)
	for i, g := range o.reset {
		h.Value[i] = g*o.outset[i] + (1-g)*x.Value[i]
	}
	t.record(o)
	return h
}

func (o *sru[T]) backward(t *Tape[T]) {
	dc := t.arena.take(len(o.c))
	for i, dh := range o.h.Grad {
		g, tanh := o.reset[i], o.outset[i]
		dc[i] = dh * g * (1 - tanh*tanh)
		o.x.Grad[i] += dh * (1 - g)
		o.r.Grad[i] += dh * (tanh - o.x.Value[i]) * g * (1 - g)
	}
	forgettingBackward(dc, o.c, o.gate, o.f, o.wx, o.sentences)
}

// runningMean is y_t = (x_0 + … + x_t)/(t+1).
type runningMean[T Float] struct {
	y, x      *Matrix[T]
	sentences Segments
}

// RunningMean returns for each token the mean of the rows of its sentence up to it.
func (t *Tape[T]) RunningMean(x *Matrix[T], sentences Segments) *Matrix[T] {
	checkSegments(sentences, x.Rows, "a running mean")
	y := t.matrix(x.Rows, x.Cols)
	for s := range sentences.Sentences() {
		for i := sentences[s]; i < sentences[s+1]; i++ {
			n := T(i - sentences[s])
			mean := y.Row(i)
			copy(mean, x.Row(i))
			if n == 0 {
				continue
			}
			for j, before := range y.Row(i - 1) {
				mean[j] = (before*n + mean[j]) / (n + 1)
			}
		}
	}
	o := t.means.next()
	*o = runningMean[T]{y, x, sentences}
	t.record(o)
	return y
}

// dx_i = Σ dy_t/(t+1) over t ≥ i.
func (o *runningMean[T]) backward(t *Tape[T]) {
	d := o.x.Cols
	later := t.arena.take(d)
	for s := range o.sentences.Sentences() {
		clear(later)
		for i := o.sentences[s+1] - 1; i >= o.sentences[s]; i-- {
			addScaled(later, o.y.Grad[i*d:(i+1)*d], 1/T(i-o.sentences[s]+1))
			addTo(o.x.Grad[i*d:(i+1)*d], later)
		}
	}
}

// gatedSum is y = σ(a)·u + σ(b)·v.
type gatedSum[T Float] struct {
	y, a, u, b, v *Matrix[T]
	ga, gb        []T
}

// GatedSum returns σ(a)·u + σ(b)·v.
func (t *Tape[T]) GatedSum(a, u, b, v *Matrix[T]) *Matrix[T] {
	for _, m := range []*Matrix[T]{u, b, v} {
		checkShape(m, a.Rows, a.Cols, "an input of a gated sum")
	}
	y := t.matrix(a.Rows, a.Cols)
	o := t.gates.next()
	*o = gatedSum[T]{y, a, u, b, v, t.arena.take(len(a.Value)), t.arena.take(len(a.Value))}
	t.device.Apply(o.ga, a.Value, Sigmoid)
	t.device.Apply(o.gb, b.Value, Sigmoid)
	for i := range y.Value {
		y.Value[i] = o.ga[i]*u.Value[i] + o.gb[i]*v.Value[i]
	}
	t.record(o)
	return y
}

func (o *gatedSum[T]) backward(*Tape[T]) {
	for i, dy := range o.y.Grad {
		ga, gb := o.ga[i], o.gb[i]
		o.u.Grad[i] += dy * ga
		o.v.Grad[i] += dy * gb
		o.a.Grad[i] += dy * o.u.Value[i] * ga * (1 - ga)
		o.b.Grad[i] += dy * o.v.Value[i] * gb * (1 - gb)
	}
}

// highway is y = σ(a)·u + (1-σ(a))·v.
type highway[T Float] struct {
	y, a, u, v *Matrix[T]
	gate       []T
}

// Highway returns σ(a)·u + (1-σ(a))·v.
func (t *Tape[T]) Highway(a, u, v *Matrix[T]) *Matrix[T] {
	for _, m := range []*Matrix[T]{u, v} {
		checkShape(m, a.Rows, a.Cols, "an input of a highway")
	}
	y := t.matrix(a.Rows, a.Cols)
	o := t.highways.next()
	*o = highway[T]{y, a, u, v, t.arena.take(len(a.Value))}
	t.device.Apply(o.gate, a.Value, Sigmoid)
	for i, g := range o.gate {
		y.Value[i] = g*u.Value[i] + (1-g)*v.Value[i]
	}
	t.record(o)
	return y
}

func (o *highway[T]) backward(*Tape[T]) {
	for i, dy := range o.y.Grad {
		g := o.gate[i]
		o.u.Grad[i] += dy * g
		o.v.Grad[i] += dy * (1 - g)
		o.a.Grad[i] += dy * (o.u.Value[i] - o.v.Value[i]) * g * (1 - g)
	}
}
