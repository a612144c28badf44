package search

import "math"

// Random numbers are computed, not drawn from a state: the number for a given step and hypothesis is a hash of the two
// and of the sentence's key. The hash is a chain of the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", 2014).

const goldenGamma = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z += goldenGamma
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// sentenceKey joins the job's seed and the sentence's.
func sentenceKey(job, sentence uint64) uint64 { return mix(mix(job) ^ sentence) }

// stepKey is the key of a hypothesis at a step.
func stepKey(sentence uint64, step, hypothesis int) uint64 {
	return mix(sentence ^ mix(uint64(step)<<32|uint64(uint32(hypothesis))))
}

// uniform turns a key into a number in (0, 1), both ends excluded.
func uniform(key uint64) float64 {
	return (float64(mix(key)>>11) + 0.5) / (1 << 53)
}

// gumbel is a variate of the standard Gumbel distribution for a token.
func gumbel(key uint64, token Token) float64 {
	return -math.Log(-math.Log(uniform(key ^ mix(uint64(uint32(token))))))
}
