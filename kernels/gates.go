package kernels

// GRU advances gated recurrent units: r, z = σ(u + x), h = tanh(r·u + x), s = z·s + (1-z)·h.
//
// s: the states, replaced. x, u: what comes from the input and from the state, for r, for z and for h, one after another, each of the
// length of s. x may be nil, for nothing.
func GRU(s, x, u []float32) {
	checkGates(s, x, u, 3)
	gru(s, x, u)
}

// LSTM advances long short-term memories: m = σ(i)·tanh(c) + σ(f)·m, s = σ(o)·tanh(m) for f, i, c, o = u + x.
//
// s: the outputs, replaced. m: the memories. x, u: as for GRU, for f, i, c and o.
func LSTM(s, m, x, u []float32) {
	checkGates(s, x, u, 4)
	need(len(m), len(s), "memories of an LSTM")
	lstm(s, m[:len(s)], x, u)
}

// GRUOneByOne is GRU without vector instructions, with the same bits: to measure what they give.
func GRUOneByOne(s, x, u []float32) {
	checkGates(s, x, u, 3)
	gruGeneric(s, x, u)
}

func checkGates(s, x, u []float32, gates int) {
	need(len(u), gates*len(s), "gates from the state")
	if x != nil {
		need(len(x), gates*len(s), "gates from the input")
	}
}

// gateOf returns element i of u + x.
func gateOf(x, u []float32, i int) float32 {
	if x == nil {
		return u[i]
	}
	return u[i] + x[i]
}

func gruGeneric(s, x, u []float32) {
	n := len(s)
	for i := range s {
		h := blend(sigmoid32(gateOf(x, u, i)), u[2*n+i], 0)
		if x != nil {
			h += x[2*n+i]
		}
		s[i] = blend(sigmoid32(gateOf(x, u, n+i)), s[i], tanh32(h))
	}
}

func lstmGeneric(s, m, x, u []float32) {
	n := len(s)
	for i := range s {
		in := float32(sigmoid32(gateOf(x, u, n+i)) * tanh32(gateOf(x, u, 2*n+i)))
		m[i] = in + float32(sigmoid32(gateOf(x, u, i))*m[i])
		s[i] = blend(sigmoid32(gateOf(x, u, 3*n+i)), tanh32(m[i]), 0)
	}
}
