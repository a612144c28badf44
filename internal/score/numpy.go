package score

import "math/bits"

// numpyRandom gives the numbers of numpy.random.default_rng, so that bootstrap tests draw the segments that sacreBLEU
// draws. It is PCG64, the XSL-RR 128/64 generator of O'Neill 2014, seeded by NumPy's SeedSequence (NEP 19), a variant of
// O'Neill's randutils::seed_seq.
type numpyRandom struct {
	high, low       uint64 // state
	incHigh, incLow uint64
	half            uint32 // the upper half of a number whose lower half was used
	hasHalf         bool
}

func newNumpyRandom(seed uint64) *numpyRandom {
	words := seedState(seed)
	r := &numpyRandom{
		incHigh: words[2]<<1 | words[3]>>63,
		incLow:  words[3]<<1 | 1,
	}
	r.step()
	var carry uint64
	r.low, carry = bits.Add64(r.low, words[1], 0)
	r.high, _ = bits.Add64(r.high, words[0], carry)
	r.step()
	return r
}

// seedState spreads a seed over 256 bits.
func seedState(seed uint64) (state [4]uint64) {
	const (
		initA, multiplyA = 0x43b0d7e5, 0x931e8875
		initB, multiplyB = 0x8b51f9dd, 0x58f38ded
		mixLeft          = 0xca01f9dd
		mixRight         = 0x4973f715
	)
	factor := uint32(initA)
	hash := func(v uint32) uint32 {
		v ^= factor
		factor *= multiplyA
		v *= factor
		return v ^ v>>16
	}
	pool := [4]uint32{uint32(seed), uint32(seed >> 32)}
	for i := range pool {
		pool[i] = hash(pool[i])
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				v := mixLeft*pool[to] - mixRight*hash(pool[from])
				pool[to] = v ^ v>>16
			}
		}
	}
	factor = initB
	for i := range 2 * len(state) {
		v := pool[i%len(pool)] ^ factor
		factor *= multiplyB
		v *= factor
		v ^= v >> 16
		state[i/2] |= uint64(v) << (32 * (i % 2))
	}
	return state
}

func (r *numpyRandom) step() {
	const multiplierHigh, multiplierLow = 2549297995355413924, 4865540595714422341
	high, low := bits.Mul64(r.low, multiplierLow)
	high += r.high*multiplierLow + r.low*multiplierHigh
	var carry uint64
	r.low, carry = bits.Add64(low, r.incLow, 0)
	r.high, _ = bits.Add64(high, r.incHigh, carry)
}

func (r *numpyRandom) uint32() uint32 {
	if r.hasHalf {
		r.hasHalf = false
		return r.half
	}
	r.step()
	v := bits.RotateLeft64(r.high^r.low, -int(r.high>>58))
	r.half, r.hasHalf = uint32(v>>32), true
	return uint32(v)
}

// below returns a number from 0 to n-1, by Lemire's method. One value takes no random bits.
func (r *numpyRandom) below(n uint32) uint32 {
	if n == 1 {
		return 0
	}
	product := uint64(r.uint32()) * uint64(n)
	if uint32(product) < n {
		for threshold := -n % n; uint32(product) < threshold; {
			product = uint64(r.uint32()) * uint64(n)
		}
	}
	return uint32(product >> 32)
}
