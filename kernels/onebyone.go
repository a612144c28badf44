package kernels

// TanhOneByOne is Tanh without vector instructions, one element after the other, with the same bits: to measure what vectors give.
func TanhOneByOne(x []float32) { tanhGeneric(x) }

// HighwayOneByOne is Highway without vector instructions, with the same bits.
func HighwayOneByOne(dst, g, x, y []float32) {
	n := len(dst)
	need(len(g), n, "gate")
	need(len(x), n, "input")
	need(len(y), n, "second input")
	highwayGeneric(dst, g[:n], x[:n], y[:n])
}
