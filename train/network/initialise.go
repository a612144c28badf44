package network

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Initialise fills the vector with the values from which Marian's models start: matrices are uniform within
// ±√(6/(rows+columns)) (Glorot and Bengio 2010), embeddings and the output matrix within ±√(3/columns), biases are zero and
// scales one. With depth scaling, the matrices of layer l are divided by √l (Zhang et al. 2019). What a parameter starts from
// depends on the seed and its name alone.
func (n *Network) Initialise(vector []float32, seed uint64) {
	clear(vector)
	for i := range n.Parameters {
		p := &n.Parameters[i]
		values := Values(p, vector)
		switch {
		case isScale(p.Name):
			for j := range values {
				values[j] = 1
			}
		case p.Rows == 1: // a bias
		case strings.Contains(p.Name, "Wemb") || strings.HasSuffix(p.Name, "_Wt"):
			uniform(values, math.Sqrt(3/float64(p.Cols)), seed, p.Name)
		default:
			limit := math.Sqrt(6 / float64(p.Rows+p.Cols))
			if n.Model.DepthScaling && !strings.Contains(p.Name, "_rnn_") {
				limit /= math.Sqrt(float64(layerNumber(p.Name)))
			}
			uniform(values, limit, seed, p.Name)
		}
	}
}

// isScale says whether a parameter of that name is what a norm multiplies with.
func isScale(name string) bool {
	return strings.Contains(name, "_scale") || strings.Contains(name, "_gamma") || strings.Contains(name, "_ln_s") || strings.HasSuffix(name, "_lns")
}

// uniform fills values with numbers between -limit and limit.
func uniform(values []float32, limit float64, seed uint64, name string) {
	h := fnv.New64a()
	h.Write([]byte(name))
	random := rand.New(rand.NewPCG(seed, h.Sum64()))
	for i := range values {
		values[i] = float32((2*random.Float64() - 1) * limit)
	}
}

// layerNumber returns the number of the layer, from 1, in a parameter's name such as encoder_l3_ffn_W1; 1 if there is none.
func layerNumber(name string) int {
	for part := range strings.SplitSeq(name, "_") {
		if number, ok := strings.CutPrefix(part, "l"); ok {
			if l, err := strconv.Atoi(number); err == nil && l > 0 {
				return l
			}
		}
	}
	return 1
}

func littleEndian(values []float32) []byte {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}
