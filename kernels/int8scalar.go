package kernels

// Products in 8 bits on processors that have none of the instructions which assembly is written for. A multiplication of 64 bits does two columns: with
// weights v and w of a row of the matrix, and an activation a,
//
//	a·(v + 2³²·w) = a·v + 2³²·a·w
//
// and sums of these are exact, as long as that of the lower ones fits 32 bits with its sign: it is taken off before the upper one is read.
const (
	scalarRows  = 64            // of activations that are multiplied with weights that have been brought together
	scalarK     = 256           // rows of the matrix that are brought together: 32 KB of pairs
	scalarPairs = int8Panel / 2 // of columns in a panel
	scalarGroup = 4             // pairs whose sums are in registers
	// scalarFewest is from how many rows of activations on it pays to bring weights together.
	scalarFewest = 4
)

// pairGroup are the weights of pairs of columns in one row of the matrix.
type pairGroup [scalarGroup]int64

// mulInt8Scalar computes mulInt8Generic.
func mulInt8Scalar(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) {
	if rows < scalarFewest || w.chains != nil {
		mulInt8Generic(y, yStride, a, aScales, rows, w, bias, act)
		return
	}
	stride := Int8Stride(w.K)
	for first := 0; first < rows; first += scalarRows {
		n := min(scalarRows, rows-first)
		for p := 0; p*int8Panel < w.N; p++ {
			var sums [scalarRows][int8Panel]int32
			w.mulPanelByPairs(sums[:n], a[first*stride:], p)
			for r := range n {
				w.finish(y[(first+r)*yStride:], &sums[r], aScales[first+r], p, bias, act)
			}
		}
	}
}

// mulPanelByPairs computes the exact sums of rows and one panel.
func (w *Int8Matrix) mulPanelByPairs(sums [][int8Panel]int32, a []uint8, panel int) {
	for r := range sums {
		copy(sums[r][:], w.corrections[panel*int8Panel:])
	}
	stride, k := Int8Stride(w.K), 4*w.steps
	weights := w.panels[panel*k*int8Panel:][:k*int8Panel]
	var pairs [scalarPairs / scalarGroup * scalarK]pairGroup
	for first := 0; first < k; first += scalarK {
		end := min(first+scalarK, k)
		part := pairs[:scalarPairs/scalarGroup*(end-first)]
		pairColumns(part, weights[first*int8Panel:end*int8Panel])
		for r := range sums {
			addPairs(&sums[r], a[r*stride+first:r*stride+end], part)
		}
	}
}

// pairColumns brings the weights of neighbouring columns of a panel together: pairs[scalarPairs/scalarGroup][k] from weights[k/4][int8Panel][4].
func pairColumns(pairs []pairGroup, weights []int8) {
	k := len(weights) / int8Panel
	for step := 0; step < k; step += 4 {
		four := weights[step*int8Panel:][:4*int8Panel]
		for pair := range scalarPairs {
			left, right := four[8*pair:][:4], four[8*pair+4:][:4]
			to := pairs[pair/scalarGroup*k+step:][:4]
			for i, v := range left {
				to[i][pair%scalarGroup] = int64(v) + int64(right[i])<<32
			}
		}
	}
}

// addPairs adds the products of a part of a row with pairs of columns to its sums.
func addPairs(sums *[int8Panel]int32, row []uint8, pairs []pairGroup) {
	for first := 0; first < int8Panel; first += 2 * scalarGroup {
		var s0, s1, s2, s3 int64
		group := pairs[first/2/scalarGroup*len(row):][:len(row)]
		for i, v := range row {
			a, w := int64(v), &group[i]
			s0 += a * w[0]
			s1 += a * w[1]
			s2 += a * w[2]
			s3 += a * w[3]
		}
		both := pairGroup{s0, s1, s2, s3}
		for i, s := range both {
			left := int32(s)
			sums[first+2*i] += left
			sums[first+2*i+1] += int32((s - int64(left)) >> 32)
		}
	}
}
