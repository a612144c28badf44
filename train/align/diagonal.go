package align

import "math"

const (
	minTension = 0.1 // as far as learning goes
	maxTension = 14.0

	tensionSteps = 8
	tensionRate  = 20.0
)

// distance is how far from the diagonal target position j of m is to source position i of n, both from 1: |i/n - j/m|.
func distance(i, j, n, m int) float64 {
	return math.Abs(float64(i)/float64(n) - float64(j)/float64(m))
}

// diagonal sets weights[i-1] to exp(-tension·distance) for all n source positions, and returns their sum. From the positions
// beside the diagonal outwards each weight is that of its neighbour times exp(-tension/n).
func diagonal(weights []float64, j, m int, tension float64) (total float64) {
	n := len(weights)
	ratio := math.Exp(-tension / float64(n))
	below := j * n / m // the last source position that is not beyond the diagonal; 0 if there is none
	if below > 0 {
		w := math.Exp(-tension * distance(below, j, n, m))
		for i := below; i >= 1; i-- {
			weights[i-1] = w
			total += w
			w *= ratio
		}
	}
	if below < n {
		w := math.Exp(-tension * distance(below+1, j, n, m))
		for i := below + 1; i <= n; i++ {
			weights[i-1] = w
			total += w
			w *= ratio
		}
	}
	return total
}

// expectedDistance sums, over the m target positions of a sentence, the distance that the prior expects of each. The weights
// are as many as there are source positions; what they hold is lost.
func expectedDistance(weights []float64, m int, tension float64) (sum float64) {
	for j := 1; j <= m; j++ {
		total := diagonal(weights, j, m, tension)
		sum += weightedDistance(weights, j, m) / total
	}
	return sum
}

func weightedDistance(weights []float64, j, m int) (sum float64) {
	for i, w := range weights {
		sum += w * distance(i+1, j, len(weights), m)
	}
	return sum
}

// customaryDistance is what fast_align takes for expectedDistance. It divides by the sum of other weights: those of a
// sentence whose lengths are exchanged.
func customaryDistance(weights []float64, m int, tension float64) (sum float64) {
	for j := 1; j <= m; j++ {
		diagonal(weights, j, m, tension)
		sum += weightedDistance(weights, j, m) / exchangedSum(j, len(weights), m, tension)
	}
	return sum
}

// exchangedSum is the sum of the weights of m source positions, for target position j of n. It is made of two geometric
// series, from the diagonal outwards; where position j does not exist, and the diagonal leaves the sentence, that towards
// the end has no end.
func exchangedSum(j, n, m int, tension float64) (sum float64) {
	ratio := math.Exp(-tension / float64(m))
	below := j * m / n
	if below != m {
		count := math.Inf(1)
		if below < m {
			count = float64(m - below)
		}
		sum += math.Exp(-tension*distance(below+1, j, m, n)) * (1 - math.Pow(ratio, count)) / (1 - ratio)
	}
	if below > 0 {
		sum += math.Exp(-tension*distance(below, j, m, n)) * (1 - math.Pow(ratio, float64(below))) / (1 - ratio)
	}
	return sum
}

// digamma is the derivative of the logarithm of the gamma function, for x > 0: by its recurrence up to 6, and from there on by
// the asymptotic series (Abramowitz and Stegun, 6.3.5 and 6.3.18).
func digamma(x float64) float64 {
	result := 0.0
	for x < 6 {
		result -= 1 / x
		x++
	}
	inverse := 1 / (x * x)
	series := inverse * (1.0/12 - inverse*(1.0/120-inverse*(1.0/252-inverse*(1.0/240-inverse*(1.0/132)))))
	return result + math.Log(x) - 0.5/x - series
}
