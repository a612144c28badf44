package kernels

import "math"

// The functions of one number that all implementations share, to the last bit.

// fma32 returns a·b + c rounded once to float32.
//
// The product of two float32 is exact in float64, so only the sum s = a·b + c is rounded, to 53 bits. Rounding s again, to 24 bits, is
// right nearly always.
func fma32(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if roundsAsOnce(s) {
		return float32(s)
	}
	return fma32Odd(p, float64(c), s)
}

// roundsAsOnce says whether what was rounded to s may be rounded again to float32, as if it were rounded once. That goes wrong in one case only: the
// first rounding landed exactly halfway between two float32, which lack the last 29 bits. It says no there, and where the result is below
// the normal range (so that the halfway points lie elsewhere).
func roundsAsOnce(s float64) bool {
	bits := math.Float64bits(s)
	return bits<<(64-29) != 1<<63 && bits&^(1<<63) >= minNormalBits
}

// minNormal is the least normal float32, minNormalBits are those that it has as a float64.
const minNormal, minNormalBits = 0x1p-126, (1023 - 126) << 52

// addScaled adds weight·v to sums, as fma32 does each, but nearly always without a call.
func addScaled(sums []float32, weight float32, v []float32) {
	v = v[:len(sums)]
	for d := range sums {
		p, c := float64(weight)*float64(v[d]), float64(sums[d])
		if s := p + c; roundsAsOnce(s) {
			sums[d] = float32(s)
		} else {
			sums[d] = fma32Odd(p, c, s)
		}
	}
}

// addProducts adds the products of the elements of a and b to sums, as addScaled does.
func addProducts(sums, a, b []float32) {
	a, b = a[:len(sums)], b[:len(sums)]
	for d := range sums {
		p, c := float64(a[d])*float64(b[d]), float64(sums[d])
		if s := p + c; roundsAsOnce(s) {
			sums[d] = float32(s)
		} else {
			sums[d] = fma32Odd(p, c, s)
		}
	}
}

// addScaledFlushed adds to sums the weight times every second element of v, which has one less than twice as many at least, as fma32Flushed does each.
func addScaledFlushed(sums []float32, weight float32, v []uint16) {
	for d := range sums {
		b := fromBFloat16(v[2*d])
		s := float64(weight)*float64(b) + float64(sums[d])
		if math.Float64bits(s)<<(64-29) != 1<<63 && math.Abs(s) >= 2*minNormal { // as roundsAsOnce, and not denormal, however it is rounded
			sums[d] = float32(s)
		} else {
			sums[d] = fma32Flushed(weight, b, sums[d])
		}
	}
}

// fma32Odd returns p + c rounded to float32, where s is p + c rounded to float64: it rounds to odd before the final rounding
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
func fma32Odd(p, c, s float64) float32 { return float32(oddSum(p, c, s)) }

// oddSum returns p + c rounded to odd, where s is p + c rounded to the nearest: it finds the error of s exactly (Knuth's
// two-sum). What is rounded to odd lies on the same side of every number of fewer bits as the exact sum.
func oddSum(p, c, s float64) float64 {
	cc := s - p
	e := (p - (s - cc)) + (c - cc)
	bits := math.Float64bits(s)
	if e == 0 || e != e || bits&1 == 1 {
		return s
	}
	if (e > 0) == (s > 0) {
		bits++
	} else {
		bits--
	}
	return math.Float64frombits(bits)
}

// fma32Flushed returns a·b + c rounded once to float32, or zero of the same sign if that is denormal. As on the processors,
// denormal is what is below the normal range when it is rounded to 24 bits with an exponent of any size: so 2^-126 - 2^-150,
// which as a denormal would have to be rounded up to the normal 2^-126, is zero.
func fma32Flushed(a, b, c float32) float32 {
	r := fma32(a, b, c)
	if r == minNormal || r == -minNormal {
		p := float64(a) * float64(b)
		const roundsUp = minNormal - 0x1p-151 // halfway between the two numbers of 24 bits; the even one is 2^-126
		if math.Abs(oddSum(p, float64(c), p+float64(c))) < roundsUp {
			r /= 2
		}
	}
	return flush(r)
}

// roundEven returns x rounded to the nearest integer, halves to even.
func roundEven(x float32) float32 { return float32(math.RoundToEven(float64(x))) }

// Constants of exp32. The polynomial is that of Cephes' expf (S. Moshier): with z in ±ln(2)/2,
// exp(z) ≈ 1 + z + z²·(p5 + z·(p4 + … z·p0)), relative error below 2e-7.
const (
	expLow   float32 = -87.33654 // below it exp32 is zero: the result would not be a normal number
	expHigh  float32 = 89        // from it on exp32 is +Inf
	expLog2e float32 = 1.44269504088896341
	expLn2Hi float32 = 0.693359375 // 9 bits, so that n·expLn2Hi is exact
	expLn2Lo float32 = -2.12194440e-4
	expP0    float32 = 1.9875691500e-4
	expP1    float32 = 1.3981999507e-3
	expP2    float32 = 8.3334519073e-3
	expP3    float32 = 4.1665795894e-2
	expP4    float32 = 1.6666665459e-1
	expP5    float32 = 5.0000001201e-1
)

// exp32 returns e^x: x = n·ln(2) + z, e^x = 2^n·e^z.
func exp32(x float32) float32 {
	if x < expLow {
		return 0
	}
	if x != x {
		return x
	}
	x = min(x, expHigh)
	n := roundEven(x * expLog2e)
	z := fma32(-n, expLn2Lo, fma32(-n, expLn2Hi, x))
	p := polynomial(z, expP0, expP1, expP2, expP3, expP4, expP5)
	p = fma32(p, z*z, z)
	return scale2(p+1, int32(n))
}

// polynomial evaluates c[0]·z^n + … + c[n] by Horner's rule, fused.
func polynomial(z float32, c ...float32) float32 {
	p := c[0]
	for _, f := range c[1:] {
		p = fma32(p, z, f)
	}
	return p
}

// scale2 returns p·2^n for n in [-126, 128], in two steps so that each power is a normal number; only the second rounds.
func scale2(p float32, n int32) float32 {
	half := n >> 1
	p *= math.Float32frombits(uint32(half+127) << 23)
	return float32(p * math.Float32frombits(uint32(n-half+127)<<23)) // not to be fused where a caller adds to it
}

// sigmoid32 returns 1/(1 + e^-x).
func sigmoid32(x float32) float32 { return 1 / (1 + exp32(-x)) }

// Constants of tanh32: the polynomial of Cephes' tanhf for |x| < 0.625.
const (
	tanhSmall float32 = 0.625
	tanhP0    float32 = -5.70498872745e-3
	tanhP1    float32 = 2.06390887954e-2
	tanhP2    float32 = -5.37397155531e-2
	tanhP3    float32 = 1.33314422036e-1
	tanhP4    float32 = -3.33332819422e-1
)

// tanh32 returns the hyperbolic tangent: x + x·z·P(z) with z = x² near zero, else 1 - 2/(e^2|x| + 1) with the sign of x.
func tanh32(x float32) float32 {
	a := abs32(x)
	if a < tanhSmall {
		z := x * x
		return float32(float32(polynomial(z, tanhP0, tanhP1, tanhP2, tanhP3, tanhP4)*z)*x) + x
	}
	t := 1 - 2/(exp32(a+a)+1)
	return math.Float32frombits(math.Float32bits(t) | math.Float32bits(x)&signBit)
}

// Constants of phi32: Abramowitz and Stegun 7.1.26, erfc(u) ≈ t·(a1 + t·(a2 + … t·a5))·e^-u², t = 1/(1 + 0.3275911·u),
// absolute error below 1.5e-7; the factor 1/√2 of u = |x|/√2 is in phiT, the factor 1/2 of Φ in the coefficients.
const (
	phiT  float32 = 0.3275911 * 0.70710678118654752
	phiA1 float32 = 0.254829592 / 2
	phiA2 float32 = -0.284496736 / 2
	phiA3 float32 = 1.421413741 / 2
	phiA4 float32 = -1.453152027 / 2
	phiA5 float32 = 1.061405429 / 2
)

// phi32 returns Φ(x) = (1 + erf(x/√2))/2, the distribution function of the normal distribution.
func phi32(x float32) float32 {
	a := abs32(x)
	t := 1 / (1 + float32(phiT*a))
	p := polynomial(t, phiA5, phiA4, phiA3, phiA2, phiA1)
	tail := float32(float32(p*t) * exp32(float32(float32(-0.5*a)*a)))
	if x < 0 {
		return tail
	}
	return 1 - tail
}

const signBit = 1 << 31

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ signBit) }

// floor0 returns x, or zero if x is negative; NaN and -0 stay.
func floor0(x float32) float32 {
	if x < 0 {
		return 0
	}
	return x
}

// stripes are the 16 partial sums of a row.
type stripes [16]float32

// sum adds the stripes in the fixed tree: halves onto each other, 16 → 8 → 4 → 2 → 1.
func (s *stripes) sum() float32 {
	for half := 8; half > 0; half /= 2 {
		for i := range half {
			s[i] += s[i+half]
		}
	}
	return s[0]
}

// dotGeneric returns Σ a[i]·b[i], FMA within each stripe.
func dotGeneric(a, b []float32) float32 {
	var s stripes
	for i := 0; i < len(a); i += len(s) {
		end := min(i+len(s), len(a))
		addProducts(s[:end-i], a[i:end], b[i:end])
	}
	return s.sum()
}
