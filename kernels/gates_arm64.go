//go:build !purego

package kernels

// Gates go through the kernels of their parts, a block at a time, which have the bits of the whole.

// gateBlock is how many elements that is.
const gateBlock = 256

func gru(s, x, u []float32) {
	var reset, update, h, zeros [gateBlock]float32
	for i := 0; i < len(s); i += gateBlock {
		n := min(gateBlock, len(s)-i)
		sumGate(reset[:n], x, u, i)
		sumGate(update[:n], x, u, len(s)+i)
		highway(h[:n], reset[:n], u[2*len(s)+i:][:n], zeros[:n])
		if x != nil {
			add(h[:n], h[:n], x[2*len(s)+i:][:n])
		}
		tanh(h[:n])
		highway(s[i:i+n], update[:n], s[i:i+n], h[:n])
	}
}

func lstm(s, m, x, u []float32) {
	var forget, in, c, out, zeros [gateBlock]float32
	for i := 0; i < len(s); i += gateBlock {
		n := min(gateBlock, len(s)-i)
		for g, gate := range [][]float32{forget[:n], in[:n], c[:n], out[:n]} {
			sumGate(gate, x, u, g*len(s)+i)
		}
		tanh(c[:n])
		gatedSum(m[i:i+n], in[:n], c[:n], forget[:n], m[i:i+n])
		copy(c[:n], m[i:])
		tanh(c[:n])
		highway(s[i:i+n], out[:n], c[:n], zeros[:n])
	}
}

// sumGate sets gate to u + x, or u without input, from an element on.
func sumGate(gate, x, u []float32, first int) {
	if x == nil {
		copy(gate, u[first:])
		return
	}
	add(gate, u[first:], x[first:])
}
