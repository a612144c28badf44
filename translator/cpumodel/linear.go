package cpumodel

import (
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
)

// A linear is the product of one input with one or several matrices whose results lie side by side.
type linear struct {
	k, n      int
	rectified bool // what it multiplies is what a ReLU lets pass
	parts     []part
}

// A part of a linear is a packed matrix. The matrices of a model that read the same input are merged into one part, unless
// they need that input quantised in different ways.
type part struct {
	first int      // column of the result at which it begins
	names []string // of the parameters in it
	bias  []float32

	float    *kernels.Float32Matrix
	bfloat16 *kernels.BFloat16Matrix
	// Quantised matrices, which have neither, are one of these:
	int8       *kernels.Int8Matrix
	int16      *kernels.Int16Matrix
	multiplier float32 // of the activations; 0 if each row has its own
}

// add adds to the biases of the result.
func (l *linear) add(bias []float32) {
	for i := range l.parts {
		first := l.parts[i].first
		l.parts[i].bias = sum(l.parts[i].bias, bias[first:first+l.width(i)])
	}
}

// width is the number of columns of part i.
func (l *linear) width(i int) int {
	if i+1 < len(l.parts) {
		return l.parts[i+1].first - l.parts[i].first
	}
	return l.n - l.parts[i].first
}

// An operand is the input of products. Its quantised form is made when a product first needs it, and shared by those that
// follow.
type operand struct {
	x               []float32
	rows, k, stride int

	quantised  bool
	multiplier float32 // that it was quantised with; 0 if each row has its own
	bytes      []uint8
	scales     []float32
	nextBytes  []uint8 // of the operand that follows
	made       made

	limit      int // of the form in 16 bits; 0 if there is none
	words      []int16
	wordScales []float32

	rounded bool // whether there is the form in bfloat16
	halves  []uint16
}

// made are rows whose quantised form, with a scale for each, was made together with them: the operand that follows, or none.
type made struct {
	x       *float32
	rows, k int
}

// make has the rows of k elements at x be the operand that follows, and returns the place of their quantised form, which the caller makes.
func (o *operand) make(x []float32, rows, k int) (bytes []uint8, scales []float32) {
	o.bytes, o.scales = grow(o.bytes, rows*kernels.Int8Stride(k)), grow(o.scales, rows)
	o.made = made{&x[0], rows, k}
	return o.bytes, o.scales
}

// set makes rows of k elements the operand. They must not change until the last product with them.
func (o *operand) set(x []float32, rows, k int) { o.setApart(x, rows, k, k) }

// setApart is set for rows that begin stride elements from each other.
func (o *operand) setApart(x []float32, rows, k, stride int) {
	o.x, o.rows, o.k, o.stride, o.limit, o.rounded = x[:rows*stride], rows, k, stride, 0, false
	o.quantised, o.multiplier = rows > 0 && stride == k && o.made == made{&x[0], rows, k}, 0
	o.made = made{}
}

// setBytes makes the rows of k elements in nextBytes, quantised with a multiplier, the operand. It has no other form.
func (o *operand) setBytes(k int, multiplier float32) {
	o.bytes, o.nextBytes = o.nextBytes, o.bytes
	o.x, o.k, o.stride, o.quantised, o.multiplier, o.limit, o.rounded = nil, k, k, true, multiplier, 0, false
	o.scaleAll(multiplier)
}

// scaleAll sets the scales of rows that are quantised with one multiplier.
func (o *operand) scaleAll(multiplier float32) {
	for i := range o.rows {
		o.scales[i] = 1 / multiplier
	}
}

// each calls f for rows that lie without a gap: all at a time if there is none, else one after the other.
func (o *operand) each(f func(first, rows int, x []float32)) {
	if o.stride == o.k {
		f(0, o.rows, o.x)
		return
	}
	for i := range o.rows {
		f(i, 1, o.x[i*o.stride:i*o.stride+o.k])
	}
}

// apart is how many elements it is from row to row of a wide result of a product. Rows that were a multiple of many cache lines apart
// would all want the same few places of the first-level cache, and push each other out while one strip of columns after the other is
// written.
func apart(n int) int {
	const few = 8 * mostApart
	if n >= 2*few && n%few == 0 {
		return n + mostApart
	}
	return n
}

// mostApart is what apart adds at most: a cache line.
const mostApart = 16

// quantise makes the quantised form for a fixed multiplier, or with one for each row if that is 0.
func (o *operand) quantise(multiplier float32) {
	if o.quantised && o.multiplier == multiplier {
		return
	}
	bytes := kernels.Int8Stride(o.k)
	o.bytes, o.scales = grow(o.bytes, o.rows*bytes), grow(o.scales, o.rows)
	o.each(func(first, rows int, x []float32) {
		if multiplier == 0 {
			kernels.QuantizeRows(o.bytes[first*bytes:], o.scales[first:], x, rows, o.k)
		} else {
			kernels.QuantizeRowsFixed(o.bytes[first*bytes:], x, rows, o.k, multiplier)
		}
	})
	if multiplier != 0 {
		o.scaleAll(multiplier)
	}
	o.quantised, o.multiplier = true, multiplier
}

// round makes the form in bfloat16.
func (o *operand) round() {
	if o.rounded {
		return
	}
	o.halves = grow(o.halves, o.rows*kernels.BFloat16Stride(o.k))
	kernels.ToBFloat16(o.halves, o.x, o.stride, o.rows, o.k)
	o.rounded = true
}

// grow returns a slice of n elements, b if it is long enough. The content is lost when it is not.
func grow[T any](b []T, n int) []T {
	if cap(b) < n {
		return lone[T](n + n/4)[:n]
	}
	return b[:n]
}

// mul computes y = act(operand·l + bias), stride elements from row to row of y.
func (s *Stepper) mul(y []float32, stride int, l *linear, act kernels.Activation) {
	o := &s.operand
	for i := range l.parts {
		p := &l.parts[i]
		if s.observe != nil {
			o.each(func(_, _ int, x []float32) { s.observed(p.names, x) })
		}
		m := multiplication{y: y[p.first:], stride: stride, rows: o.rows, bias: p.bias, activation: act}
		all := columns{end: l.width(i), float: p.float, bfloat16: p.bfloat16, int16: p.int16, int8: p.int8}
		switch {
		case p.float != nil:
			m.x, m.xStride = o.x, o.stride
		case p.bfloat16 != nil:
			o.round()
			m.halves = o.halves
		case p.int16 != nil:
			o.quantise16(p.int16.Limit)
			m.words, m.scales = o.words, o.wordScales
		default:
			o.quantise(p.multiplier)
			m.bytes, m.scales = o.bytes, o.scales
		}
		s.stats.LeftOut += int64(s.mulBy(&m, &all, l.k))
	}
	s.stats.MACs += int64(o.rows) * int64(l.k) * int64(l.n)
}

// multiplierOfBytes returns the multiplier that all of the operand is quantised with, 0 if there is none.
func (l *linear) multiplierOfBytes() float32 {
	multiplier := l.parts[0].multiplier
	for i := range l.parts {
		if p := &l.parts[i]; p.int8 == nil || p.multiplier != multiplier {
			return 0
		}
	}
	return multiplier
}

// inBytes says whether the product can round its result, and what the activation makes of it, to bytes by itself.
func inBytes(l *linear, activation model.Activation) bool {
	return len(l.parts) == 1 && l.parts[0].int8 != nil && (activation == model.ReLU || activation == model.Identity)
}

// mulToBytes makes act(operand·l + bias), quantised with a multiplier, the operand. y has room for it in float32, which is used only where
// there is no kernel that does without.
func (s *Stepper) mulToBytes(y []float32, l *linear, act kernels.Activation, multiplier float32) {
	o, p := &s.operand, &l.parts[0]
	o.quantise(p.multiplier)
	o.nextBytes = grow(o.nextBytes, o.rows*kernels.Int8Stride(l.n))
	kernels.MulInt8Quantised(o.nextBytes, multiplier, y, o.bytes, o.scales, o.rows, p.int8, p.bias, act)
	s.stats.MACs += int64(o.rows) * int64(l.k) * int64(l.n)
	o.setBytes(l.n, multiplier)
}

func (s *Stepper) observed(names []string, x []float32) {
	largest := kernels.AbsMax(x)
	for _, name := range names {
		s.observe(name, largest)
	}
}
