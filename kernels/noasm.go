//go:build (!amd64 && !arm64) || purego

package kernels

// Without assembly every kernel is its reference, but for the product in 8 bits, of which there is a quicker one in plain Go.

func mulInt8(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) {
	mulInt8Scalar(y, yStride, a, aScales, rows, w, bias, act)
}

func mulFloat32(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix, bias []float32, act Activation) {
	mulFloat32Generic(y, yStride, x, xStride, rows, w, bias, act)
}

func accumulateFloat32(y []float32, yStride int, x []float32, rowStep, kStep, rows int, w *Float32Matrix) {
	accumulateFloat32Generic(y, yStride, x, rowStep, kStep, rows, w)
}

func quantizeRows(dst []uint8, scales []float32, x []float32, rows, k int) {
	quantizeRowsGeneric(dst, scales, x, rows, k)
}

func quantizeRowsFixed(dst []uint8, x []float32, rows, k int, multiplier float32) {
	quantizeRowsFixedGeneric(dst, x, rows, k, multiplier)
}

func dotRowsInt8(y []float32, a []uint8, aScale float32, c Int8Choice) {
	dotRowsInt8Generic(y, a, aScale, c)
}

func dotRowsFloat32(y, x, table []float32, k int, ids []int32, bias []float32) {
	dotRowsFloat32Generic(y, x, table, k, ids, bias)
}

func attend(s *Attention, out, q, k, v []float32, nq, nk int, scratch []float32) {
	attendGeneric(s, out, q, k, v, nq, nk, scratch)
}

func attendRows(s *Attention, out, q, k, v []float32, rows []int32, scratch []float32) {
	attendRowsGeneric(s, out, q, k, v, rows, scratch)
}

func attentionScores(scores, query, keys []float32, stride int, factor float32) {
	attentionScoresGeneric(scores, query, keys, stride, factor)
}

func layerNorm(dst, x, residual, scale, bias []float32, rows, n int, eps float32) {
	layerNormGeneric(dst, x, residual, scale, bias, rows, n, eps)
}

func rmsNorm(dst, x, residual, scale []float32, rows, n int, eps float32) {
	rmsNormGeneric(dst, x, residual, scale, rows, n, eps)
}

func softmax(x []float32, rows, n, stride int)           { softmaxGeneric(x, rows, n, stride) }
func expSum(x []float32, largest float32) float32        { return expSumGeneric(x, largest) }
func shift(x []float32, a, b float32)                    { shiftGeneric(x, a, b) }
func maximum(x []float32) float32                        { return maxGeneric(x) }
func argMax(x []float32) int                             { return argMaxGeneric(x) }
func absMax(x []float32) float32                         { return absMaxGeneric(x) }
func add(dst, a, b []float32)                            { addGeneric(dst, a, b) }
func scale(dst, x []float32, s float32)                  { scaleGeneric(dst, x, s) }
func relu(x []float32)                                   { reluGeneric(x) }
func swish(x []float32, slope float32)                   { swishGeneric(x, slope) }
func gelu(x []float32)                                   { geluGeneric(x) }
func sigmoid(x []float32)                                { sigmoidGeneric(x) }
func tanh(x []float32)                                   { tanhGeneric(x) }
func ssru(c, h, f, x []float32)                          { ssruGeneric(c, h, f, x) }
func sru(c, h, f, r, wx, x []float32)                    { sruGeneric(c, h, f, r, wx, x) }
func average(a, x []float32, t, t1 float32)              { averageGeneric(a, x, t, t1) }
func gatedSum(dst, gi, x, gf, y []float32)               { gatedSumGeneric(dst, gi, x, gf, y) }
func highway(dst, g, x, y []float32)                     { highwayGeneric(dst, g, x, y) }
func embed(dst, row []float32, s float32, pos []float32) { embedGeneric(dst, row, s, pos) }

// int8Burst does about n int8 multiply-accumulates and returns how many.
func int8Burst(n int) int { return int8BurstGeneric(n) }
