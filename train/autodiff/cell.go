package autodiff

// The operations here are steps of recurrent cells: rows that do not depend on each other, one for each sentence. x is what came
// from the input and u from the state, both with a part for each gate.

// gru is a step of gated recurrent units.
type gru[T Float] struct {
	out, x, u, s *Matrix[T]
	gates        []T // r, z of each row
	h            []T
}

// GRU fills out with r, z = σ(x + u), h = tanh(x + r·u), (1-z)·h + z·s (Cho et al. 2014). s: rows × d; u: rows × 3d, with the parts
// r, z and h, and x the same, or nil if there is no input.
func (t *Tape[T]) GRU(out, x, u, s *Matrix[T]) {
	n, d := s.Rows, s.Cols
	checkCell(out, x, u, n, d, 3)
	o := t.grus.next()
	*o = gru[T]{out, x, u, s, t.arena.take(2 * n * d), t.arena.take(n * d)}
	for i := range n {
		gates := o.gates[2*i*d : 2*(i+1)*d]
		copy(gates, u.Row(i))
		if x != nil {
			addTo(gates, x.Row(i)[:2*d])
		}
	}
	t.device.Apply(o.gates, o.gates, Sigmoid)
	for i := range n {
		h := o.h[i*d : (i+1)*d]
		multiply(h, o.gates[2*i*d:], u.Row(i)[2*d:])
		if x != nil {
			addTo(h, x.Row(i)[2*d:])
		}
	}
	t.device.Apply(o.h, o.h, Tanh)
	for i := range n {
		y, z, h, before := out.Row(i)[:d], o.gates[(2*i+1)*d:][:d], o.h[i*d:][:d], s.Row(i)[:d]
		for j := range y {
			y[j] = (1-z[j])*h[j] + z[j]*before[j]
		}
	}
	t.record(o)
}

// checkCell checks the shapes of what a cell with that many gates reads and writes.
func checkCell[T Float](out, x, u *Matrix[T], n, d, gates int) {
	checkShape(out, n, d, "the output of a cell")
	if u != nil {
		checkShape(u, n, gates*d, "what a cell has from the state")
	}
	if x != nil {
		checkShape(x, n, gates*d, "what a cell has from the input")
	}
}

// With dy the gradient of the output and a what σ and tanh are applied to: ds = z·dy, da_h = (1-z)·dy·(1-h²), dx_h = da_h,
// du_h = r·da_h, da_r = u_h·da_h·r·(1-r), da_z = (s-h)·dy·z·(1-z), of which dx and du are the same.
func (o *gru[T]) backward(*Tape[T]) {
	d := o.s.Cols
	for i := range o.s.Rows {
		dy, ds, s := o.out.gradRow(i)[:d], o.s.gradRow(i)[:d], o.s.Row(i)[:d]
		r, z, h := o.gates[2*i*d:][:d], o.gates[(2*i+1)*d:][:d], o.h[i*d:][:d]
		du, u := o.u.gradRow(i)[:3*d], o.u.Row(i)[2*d:][:d]
		dur, duz, duh := du[:d], du[d:2*d], du[2*d:][:d]
		if o.x == nil {
			for j, g := range dy {
				ds[j] += g * z[j]
				dh := g * (1 - z[j]) * (1 - h[j]*h[j])
				duh[j] += dh * r[j]
				dur[j] += dh * u[j] * r[j] * (1 - r[j])
				duz[j] += g * (s[j] - h[j]) * z[j] * (1 - z[j])
			}
			continue
		}
		dx := o.x.gradRow(i)[:3*d]
		dxr, dxz, dxh := dx[:d], dx[d:2*d], dx[2*d:][:d]
		for j, g := range dy {
			ds[j] += g * z[j]
			dh := g * (1 - z[j]) * (1 - h[j]*h[j])
			dr, dz := dh*u[j]*r[j]*(1-r[j]), g*(s[j]-h[j])*z[j]*(1-z[j])
			duh[j] += dh * r[j]
			dxh[j] += dh
			dur[j] += dr
			dxr[j] += dr
			duz[j] += dz
			dxz[j] += dz
		}
	}
}

// lstm is a step of long short-term memory.
type lstm[T Float] struct {
	out, memory, x, u, before *Matrix[T]
	gates                     []T // f, i, c, o of each row
	outset                    []T // tanh(memory)
}

// LSTM fills memory with σ(f)·before + σ(i)·tanh(c), and out with σ(o)·tanh(memory), where f, i, c, o = x + u. before: rows × d,
// u: rows × 4d, and x the same, or nil if there is no input.
func (t *Tape[T]) LSTM(out, memory, x, u, before *Matrix[T]) {
	n, d := before.Rows, before.Cols
	checkCell(out, x, u, n, d, 4)
	checkShape(memory, n, d, "the memory of a cell")
	o := t.lstms.next()
	*o = lstm[T]{out, memory, x, u, before, t.arena.take(4 * n * d), t.arena.take(n * d)}
	copy(o.gates, u.Value)
	if x != nil {
		t.device.Add(o.gates, x.Value)
	}
	for i := range n {
		row := o.gates[4*i*d : 4*(i+1)*d]
		t.device.Apply(row[:2*d], row[:2*d], Sigmoid)
		t.device.Apply(row[2*d:3*d], row[2*d:3*d], Tanh)
		t.device.Apply(row[3*d:], row[3*d:], Sigmoid)
		f, in, c, m, past := row[:d], row[d:2*d], row[2*d:3*d], memory.Row(i), before.Row(i)
		for j := range m {
			m[j] = f[j]*past[j] + in[j]*c[j]
		}
	}
	t.device.Apply(o.outset, memory.Value, Tanh)
	for i := range n {
		multiply(out.Row(i), o.gates[(4*i+3)*d:], o.outset[i*d:])
	}
	t.record(o)
}

// With dy and dm the gradients of output and memory: dm grows by o·dy·(1-tanh²), and then df = dm·before·f·(1-f),
// di = dm·c·i·(1-i), dc = dm·i·(1-c²), do = dy·tanh·o·(1-o), dbefore = dm·f.
func (o *lstm[T]) backward(*Tape[T]) {
	d := o.before.Cols
	for i := range o.before.Rows {
		gates := o.gates[4*i*d : 4*(i+1)*d]
		f, in, c, out := gates[:d], gates[d:2*d], gates[2*d:3*d], gates[3*d:]
		outset, past, dpast := o.outset[i*d:(i+1)*d], o.before.Row(i), o.before.gradRow(i)
		dy, dm, du := o.out.gradRow(i), o.memory.gradRow(i), o.u.gradRow(i)
		var dx []T
		if o.x != nil {
			dx = o.x.gradRow(i)
		}
		for j, g := range dy {
			m := dm[j] + g*out[j]*(1-outset[j]*outset[j])
			dpast[j] += m * f[j]
			a := [4]T{
				m * past[j] * f[j] * (1 - f[j]), m * c[j] * in[j] * (1 - in[j]), m * in[j] * (1 - c[j]*c[j]),
				g * outset[j] * out[j] * (1 - out[j]),
			}
			for k, v := range a {
				du[k*d+j] += v
			}
			if dx != nil {
				for k, v := range a {
					dx[k*d+j] += v
				}
			}
		}
	}
}

// simpleStep is a step of simple recurrent units, or of simpler ones if input is nil.
type simpleStep[T Float] struct {
	out, memory, x, before, input *Matrix[T]
	gates                         []T // of each row: f, and r of simple units
	outset                        []T // tanh(memory), of simple units
}

// SRUStep fills memory with σ(f)·before + (1-σ(f))·x and out with σ(r)·tanh(memory) + (1-σ(r))·input, where x: rows × 3d has the
// parts x, f and r.
func (t *Tape[T]) SRUStep(out, memory, x, before, input *Matrix[T]) {
	checkShape(input, before.Rows, before.Cols, "the input of an SRU")
	o := t.simpleStep(out, memory, x, before, 3)
	o.input, o.outset = input, t.arena.take(len(memory.Value))
	t.device.Apply(o.outset, memory.Value, Tanh)
	d := before.Cols
	for i := range before.Rows {
		y, in, r, tanh := out.Row(i), input.Row(i), o.gates[(2*i+1)*d:][:d], o.outset[i*d:][:d]
		for j := range y {
			y[j] = r[j]*tanh[j] + (1-r[j])*in[j]
		}
	}
}

// SSRUStep fills memory with σ(f)·before + (1-σ(f))·x and out with max(0, memory), where x: rows × 2d has the parts x and f.
func (t *Tape[T]) SSRUStep(out, memory, x, before *Matrix[T]) {
	t.simpleStep(out, memory, x, before, 2)
	t.device.Apply(out.Value, memory.Value, ReLU)
}

func (t *Tape[T]) simpleStep(out, memory, x, before *Matrix[T], parts int) *simpleStep[T] {
	n, d := before.Rows, before.Cols
	checkCell(out, x, nil, n, d, parts)
	checkShape(memory, n, d, "the memory of a cell")
	o := t.simpleSteps.next()
	width := (parts - 1) * d
	*o = simpleStep[T]{out: out, memory: memory, x: x, before: before, gates: t.arena.take(n * width)}
	for i := range n {
		copy(o.gates[i*width:(i+1)*width], x.Row(i)[d:])
	}
	t.device.Apply(o.gates, o.gates, Sigmoid)
	for i := range n {
		f, m, in, past := o.gates[i*width:][:d], memory.Row(i), x.Row(i), before.Row(i)
		for j := range m {
			m[j] = f[j]*past[j] + (1-f[j])*in[j]
		}
	}
	t.record(o)
	return o
}

func (o *simpleStep[T]) backward(*Tape[T]) {
	d := o.before.Cols
	width := o.x.Cols - d
	for i := range o.before.Rows {
		dm, dx := o.memory.gradRow(i), o.x.gradRow(i)
		if o.input == nil {
			for j, g := range o.out.gradRow(i) {
				if o.memory.Row(i)[j] > 0 {
					dm[j] += g
				}
			}
		} else {
			o.outputBackward(i)
		}
		f, in, past, dpast := o.gates[i*width:][:d], o.x.Row(i), o.before.Row(i), o.before.gradRow(i)
		for j, m := range dm {
			dpast[j] += m * f[j]
			dx[j] += m * (1 - f[j])
			dx[d+j] += m * (past[j] - in[j]) * f[j] * (1 - f[j])
		}
	}
}

// outputBackward goes back from a row of the output of simple units to the memory, the gate r and the input.
func (o *simpleStep[T]) outputBackward(i int) {
	d := o.before.Cols
	r, tanh, in := o.gates[(2*i+1)*d:][:d], o.outset[i*d:][:d], o.input.Row(i)
	dm, dr, din := o.memory.gradRow(i), o.x.gradRow(i)[2*d:], o.input.gradRow(i)
	for j, g := range o.out.gradRow(i) {
		dm[j] += g * r[j] * (1 - tanh[j]*tanh[j])
		dr[j] += g * (tanh[j] - in[j]) * r[j] * (1 - r[j])
		din[j] += g * (1 - r[j])
	}
}

// plainCell is y = f(x + u).
type plainCell[T Float] struct {
	out, x, u *Matrix[T]
	sum       []T
	f         Function
}

// PlainCell fills out with f(x + u). x may be nil.
func (t *Tape[T]) PlainCell(out, x, u *Matrix[T], f Function) {
	checkCell(out, x, u, u.Rows, u.Cols, 1)
	o := t.plainCells.next()
	*o = plainCell[T]{out, x, u, t.arena.take(len(u.Value)), f}
	copy(o.sum, u.Value)
	if x != nil {
		t.device.Add(o.sum, x.Value)
	}
	t.device.Apply(out.Value, o.sum, f)
	t.record(o)
}

func (o *plainCell[T]) backward(t *Tape[T]) {
	t.device.ApplyBackward(o.u.Grad, o.out.Grad, o.sum, o.f)
	if o.x != nil {
		t.device.ApplyBackward(o.x.Grad, o.out.Grad, o.sum, o.f)
	}
}
