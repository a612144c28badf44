package kernels

// TanhOneByOne is Tanh without vector instructions, one element after the other, with the same bits: to measure what vectors give.
func TanhOneByOne(x []float32) { tanhGeneric(x) }
