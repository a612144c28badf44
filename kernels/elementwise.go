package kernels

// Add sets dst to a + b, which have its length. dst may be a or b.
func Add(dst, a, b []float32) {
	need(len(a), len(dst), "first summand")
	need(len(b), len(dst), "second summand")
	add(dst, a[:len(dst)], b[:len(dst)])
}

func addGeneric(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// AddBias adds bias, of n elements, to each of the rows of x.
func AddBias(x, bias []float32, rows, n int) {
	need(len(x), span(rows, n, n), "rows to add a bias to")
	need(len(bias), n, "bias")
	for r := range rows {
		row := x[r*n : (r+1)*n]
		add(row, row, bias[:n])
	}
}

// Scale sets dst to x·s. dst may be x.
func Scale(dst, x []float32, s float32) {
	need(len(x), len(dst), "elements to scale")
	scale(dst, x[:len(dst)], s)
}

func scaleGeneric(dst, x []float32, s float32) {
	for i := range dst {
		dst[i] = x[i] * s
	}
}

// ReLU replaces x by max(0, x).
func ReLU(x []float32) { relu(x) }

func reluGeneric(x []float32) {
	for i, v := range x {
		x[i] = floor0(v)
	}
}

// Swish replaces x by x·σ(x).
func Swish(x []float32) { swish(x, 1) }

// GELUSigmoid replaces x by x·σ(1.702·x), the approximation of GELU that Marian computes.
func GELUSigmoid(x []float32) { swish(x, 1.702) }

// swishGeneric replaces x by x·σ(slope·x).
func swishGeneric(x []float32, slope float32) {
	for i, v := range x {
		x[i] = v * sigmoid32(float32(slope*v))
	}
}

// GELU replaces x by x·Φ(x), with the normal distribution function through erf.
func GELU(x []float32) { gelu(x) }

func geluGeneric(x []float32) {
	for i, v := range x {
		x[i] = v * phi32(v)
	}
}

// Sigmoid replaces x by 1/(1 + e^-x).
func Sigmoid(x []float32) { sigmoid(x) }

func sigmoidGeneric(x []float32) {
	for i, v := range x {
		x[i] = sigmoid32(v)
	}
}

// Tanh replaces x by its hyperbolic tangent.
func Tanh(x []float32) { tanh(x) }

func tanhGeneric(x []float32) {
	for i, v := range x {
		x[i] = tanh32(v)
	}
}

// SSRU advances simpler simple recurrent units: c = σ(f)·c + (1-σ(f))·x, h = max(0, c). All slices have the length of c.
// h may be f or x.
func SSRU(c, h, f, x []float32) {
	n := len(c)
	need(len(h), n, "output of an SSRU")
	need(len(f), n, "forget gate of an SSRU")
	need(len(x), n, "input of an SSRU")
	ssru(c, h[:n], f[:n], x[:n])
}

func ssruGeneric(c, h, f, x []float32) {
	for i := range c {
		c[i] = blend(sigmoid32(f[i]), c[i], x[i])
		h[i] = floor0(c[i])
	}
}

// blend returns g·a + (1-g)·b.
func blend(g, a, b float32) float32 { return float32(g*a) + float32((1-g)*b) }

// SRU advances simple recurrent units: c = σ(f)·c + (1-σ(f))·wx, h = σ(r)·tanh(c) + (1-σ(r))·x. All slices have the
// length of c. h may be any input.
func SRU(c, h, f, r, wx, x []float32) {
	n := len(c)
	need(len(h), n, "output of an SRU")
	need(len(f), n, "forget gate of an SRU")
	need(len(r), n, "reset gate of an SRU")
	need(len(wx), n, "projected input of an SRU")
	need(len(x), n, "input of an SRU")
	sru(c, h[:n], f[:n], r[:n], wx[:n], x[:n])
}

func sruGeneric(c, h, f, r, wx, x []float32) {
	for i := range c {
		c[i] = blend(sigmoid32(f[i]), c[i], wx[i])
		h[i] = blend(sigmoid32(r[i]), tanh32(c[i]), x[i])
	}
}

// Average advances the running mean over positions, from that of t elements to that of t + 1: a = (a·t + x)/(t + 1).
func Average(a, x []float32, t int) {
	need(len(x), len(a), "element of a mean")
	average(a, x[:len(a)], float32(t), float32(t+1))
}

func averageGeneric(a, x []float32, t, t1 float32) {
	for i := range a {
		a[i] = (float32(a[i]*t) + x[i]) / t1
	}
}

// GatedSum sets dst to σ(gi)·x + σ(gf)·y. dst may be any input.
func GatedSum(dst, gi, x, gf, y []float32) {
	n := len(dst)
	need(len(gi), n, "input gate")
	need(len(x), n, "input")
	need(len(gf), n, "forget gate")
	need(len(y), n, "second input")
	gatedSum(dst, gi[:n], x[:n], gf[:n], y[:n])
}

func gatedSumGeneric(dst, gi, x, gf, y []float32) {
	for i := range dst {
		dst[i] = float32(sigmoid32(gi[i])*x[i]) + float32(sigmoid32(gf[i])*y[i])
	}
}

// Highway sets dst to σ(g)·x + (1-σ(g))·y. dst may be any input.
func Highway(dst, g, x, y []float32) {
	n := len(dst)
	need(len(g), n, "gate")
	need(len(x), n, "input")
	need(len(y), n, "second input")
	highway(dst, g[:n], x[:n], y[:n])
}

func highwayGeneric(dst, g, x, y []float32) {
	for i := range dst {
		dst[i] = blend(sigmoid32(g[i]), x[i], y[i])
	}
}

// Embed sets dst to row·scale + position, all of one length.
func Embed(dst, row []float32, scale float32, position []float32) {
	n := len(dst)
	need(len(row), n, "embedding")
	need(len(position), n, "position")
	embed(dst, row[:n], scale, position[:n])
}

// EmbedInt8 is Embed for an embedding of int8 elements q·factor: dst = (q·factor)·scale + position, every operation rounded.
func EmbedInt8(dst []float32, row []int8, factor, scale float32, position []float32) {
	n := len(dst)
	need(len(row), n, "embedding")
	need(len(position), n, "position")
	embedInt8(dst, row[:n], factor, scale, position[:n])
}

func embedInt8Generic(dst []float32, row []int8, factor, scale float32, position []float32) {
	for i, q := range row {
		dst[i] = float32(float32(float32(q)*factor)*scale) + position[i]
	}
}

func embedGeneric(dst, row []float32, scale float32, position []float32) {
	for i := range dst {
		dst[i] = float32(row[i]*scale) + position[i]
	}
}
