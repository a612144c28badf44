package gpukernels

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A probe is a product by which algorithms of cuBLASLt are judged: are their bits those of the kernels here, or at least the same for every
// number of rows?
//
// Its rows repeat after probePeriod of them. In most of them the products of elements cancel each other, all but the errors of rounding that the sum
// makes on its way, which are stored in full: another order of the sum shows in nearly every element. In some a residual cancels the sum,
// so that it shows, too, whether it is added before the bias. Others are ordinary, or hold infinities and NaNs, which must not get lost.
//
// Where sums are over rows, two periods of rows cancel each other, and columns of x take the part of rows.
type probe struct {
	kind     ProductKind
	stored   Storage
	context  *cuda.Context
	stream   *cuda.Stream
	kernels  *Kernels
	training *Training
	blas     *cuda.BLASProduct
	memory   []cuda.Pointer
	rows     int // that there is room for

	x, weights, residual, result, workspace cuda.Pointer
	bias                                    cuda.Pointer // as the kernels here take it
	libraryBias                             cuda.Pointer // as the library takes it

	want    []float32     // of the first probePeriod rows, by the kernels here; none where sums are over rows
	rowTime time.Duration // of a row of the last product that was measured, by the kernels here
	err     error         // of what fills it
}

const (
	probePeriod    = 61 // no tile has as many rows, so that a row falls into different places of tiles
	mostWorkspace  = 4 << 20
	mostProbeBytes = 64 << 20

	// 4,096 rows of logits, of as many words as there are at a time of 1,025 rows, and what they are made of.
	mostTrainingProbeBytes = 272 << 20
)

// Kinds of rows, all of which are among the first ones.
const (
	firstBroken    = 2 // the first one with infinities or NaNs
	firstOrdinary  = firstBroken + 3
	firstCancelled = firstOrdinary + 2 // by the residual
	firstOther     = firstCancelled + 2
	cancelled      = 256 // what the residual cancels
)

// openProbe makes a probe with room for a number of rows, or for fewer where they would take much memory.
func (c *Chooser) openProbe(kind ProductKind, rows int) (*probe, error) {
	bytes := uint64(mostProbeBytes)
	if kind.Training {
		bytes = mostTrainingProbeBytes
	}
	if c.way == MeasuredProducts { // what LibraryProducts takes must not depend on the memory that is free
		free, _, err := c.context.Memory()
		if err != nil {
			return nil, err
		}
		bytes = min(bytes, free/4)
	}
	rows = max(probePeriod, min(rows, int(bytes)/kind.bytesOfRow()))
	p := &probe{kind: kind, stored: c.stored, context: c.context, stream: c.stream, kernels: c.kernels, training: c.training, rows: rows}
	p.fill()
	if p.err == nil {
		p.blas, p.err = c.blas.Product(kind.shape(c.stored), p.libraryBias)
	}
	if p.err == nil && !kind.overRows() {
		p.want, p.err = p.own(probePeriod)
	}
	if p.err != nil {
		return nil, errors.Join(p.err, p.close())
	}
	return p, nil
}

// bytesOfRow are those that each row takes.
func (k ProductKind) bytesOfRow() int {
	if k.overRows() {
		return 2 * (k.K + k.N)
	}
	results := 2 // and a residual
	if k.Training && !k.Residual {
		results = 1
	}
	return 2*k.K + results*k.bytesOfResult()*k.N
}

// bytesOfResult are those of an element of the result.
func (k ProductKind) bytesOfResult() int {
	if k.Sums {
		return 4
	}
	return 2
}

// close frees what the probe has.
func (p *probe) close() error {
	failed := []error{p.stream.Synchronize()}
	if p.blas != nil {
		failed = append(failed, p.blas.Close())
	}
	for _, at := range p.memory {
		failed = append(failed, p.context.Free(at))
	}
	return errors.Join(failed...)
}

// fill makes the operands.
func (p *probe) fill() {
	random := rand.New(rand.NewPCG(uint64(p.kind.N), uint64(p.kind.K)))
	p.workspace = alloc16(p, mostWorkspace/2)
	p.fillBias(random)
	if p.kind.overRows() {
		p.fillOverRows(random)
		return
	}
	n, k := p.kind.N, p.kind.K
	partner := partners(random, k)
	p.weights = put(p, p.probeWeights(random, partner))
	p.x, p.result = alloc16(p, p.rows*k), p.allocResults(p.rows)
	x, residual := p.probeRows(random, partner)
	repeat(p, p.x, x, k)
	if !p.kind.Residual {
		return
	}
	p.residual = p.allocResults(p.rows)
	if p.kind.Sums {
		repeat(p, p.residual, p.floats(residual), n)
	} else {
		repeat(p, p.residual, residual, n)
	}
}

// probeWeights are such that of two partners the later one has the weight of the other.
func (p *probe) probeWeights(random *rand.Rand, partner []int) []uint16 {
	n, k := p.kind.N, p.kind.K
	weights := make([]uint16, n*k) // n rows
	for i := range weights {
		weights[i] = p.random(random)
	}
	for i := range weights {
		switch j := partner[i%k]; {
		case i%k == 0:
			weights[i] = p.stored.Round(1)
		case j < i%k:
			weights[i] = weights[i-i%k+j]
		}
	}
	if !p.kind.Training || p.kind.Order == TransposedB {
		return weights
	}
	straight := make([]uint16, n*k)
	for i := range k {
		for j := range n {
			straight[i*n+j] = weights[j*k+i]
		}
	}
	return straight
}

// fillBias makes a bias which hides errors of rounding in every fourth column only.
func (p *probe) fillBias(random *rand.Rand) {
	if p.kind.Unbiased {
		return
	}
	bias := make([]uint16, p.kind.N)
	for i := range bias {
		switch i % 4 {
		case 1:
			bias[i] = p.random(random)
		case 3:
			bias[i] = p.stored.Round(p.stored.Float32(p.random(random)) / (1 << 15))
		}
	}
	p.bias, p.libraryBias = put(p, p.floats(bias)), put(p, bias)
	switch {
	case p.kind.Sums:
		p.libraryBias = p.bias
	case p.kind.Training:
		p.bias = p.libraryBias
	}
}

// floats are numbers of 16 bits as float32.
func (p *probe) floats(numbers []uint16) []float32 {
	all := make([]float32, len(numbers))
	for i, n := range numbers {
		all[i] = p.stored.Float32(n)
	}
	return all
}

// fillOverRows makes operands of which the second period of rows cancels the first, in most columns of x, and sums to which every second column
// of the results is added.
func (p *probe) fillOverRows(random *rand.Rand) {
	n, k := p.kind.N, p.kind.K
	x, weights, sums := make([]uint16, 2*probePeriod*k), make([]uint16, 2*probePeriod*n), make([]float32, k*n)
	half := probePeriod * k
	for i := range half {
		x[i] = p.random(random)
		x[half+i] = x[i] ^ 0x8000 // the sign
		if column := i % k; column >= firstOrdinary && column < firstCancelled {
			x[half+i] = p.random(random)
		}
	}
	for i, broken := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		x[firstBroken+i] = p.stored.Round(float32(broken))
	}
	for i := range probePeriod * n {
		weights[i] = p.random(random)
		weights[probePeriod*n+i] = weights[i]
	}
	for i := range sums {
		if i%2 == 1 {
			sums[i] = p.stored.Float32(p.random(random))
		}
	}
	p.x, p.weights = alloc16(p, p.rows*k), alloc16(p, p.rows*n)
	repeat(p, p.x, x[:min(len(x), p.rows*k)], k)
	repeat(p, p.weights, weights[:min(len(weights), p.rows*n)], n)
	p.result = p.allocResults(k)
	if p.kind.Residual {
		p.residual = put(p, sums)
	}
}

// allocResults takes memory for rows of results.
func (p *probe) allocResults(rows int) cuda.Pointer {
	if p.kind.Sums {
		return allocFor[float32](p, rows*p.kind.N)
	}
	return alloc16(p, rows*p.kind.N)
}

// partners pairs the elements of a row at random. One that is left is its own partner.
func partners(random *rand.Rand, k int) []int {
	order, partner := random.Perm(k), make([]int, k)
	for i := 0; i < k; i += 2 {
		j := min(i+1, k-1)
		partner[order[i]], partner[order[j]] = order[j], order[i]
	}
	return partner
}

// random returns a number between -8 and 8 as it is stored.
func (p *probe) random(random *rand.Rand) uint16 { return p.stored.Round(16*random.Float32() - 8) }

// probeRows are the rows of x, and of the residual, that are repeated.
func (p *probe) probeRows(random *rand.Rand, partner []int) (x, residual []uint16) {
	k, n := p.kind.K, p.kind.N
	x, residual = make([]uint16, probePeriod*k), make([]uint16, probePeriod*n)
	for row := range probePeriod {
		elements, added := x[row*k:(row+1)*k], residual[row*n:(row+1)*n]
		for i := range elements {
			elements[i] = p.random(random)
		}
		switch {
		case row >= firstBroken && row < firstOrdinary:
			elements[k/2] = p.stored.Round(float32([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[row-firstBroken]))
		case row >= firstOrdinary && row < firstCancelled:
			for i := range added {
				added[i] = p.random(random)
			}
		default:
			for i, j := range partner {
				if j < i {
					elements[i] = elements[j] ^ 0x8000 // the sign
				}
			}
		}
		if row >= firstCancelled && row < firstOther { // the weights of the first element are 1
			elements[0], elements[partner[0]] = p.stored.Round(cancelled), 0
			for i := range added {
				added[i] = p.stored.Round(-cancelled)
			}
		}
	}
	return x, residual
}

// put returns values on the device.
func put[T any](p *probe, values []T) cuda.Pointer {
	at := allocFor[T](p, len(values))
	if p.err == nil {
		p.err = cuda.CopyIn(p.stream, at, values)
	}
	return at
}

func allocFor[T any](p *probe, n int) cuda.Pointer {
	if p.err != nil {
		return 0
	}
	var at cuda.Pointer
	if at, p.err = cuda.Alloc[T](p.context, n); p.err == nil {
		p.memory = append(p.memory, at)
	}
	return at
}

func alloc16(p *probe, n int) cuda.Pointer { return allocFor[uint16](p, n) }

// repeat fills all rows with those of a period.
func repeat[T any](p *probe, to cuda.Pointer, period []T, columns int) {
	if p.err == nil {
		p.err = cuda.CopyIn(p.stream, to, period)
	}
	length := len(period) / columns
	for done := length; done < p.rows && p.err == nil; done += length {
		count := min(length, p.rows-done)
		p.err = p.stream.Copy(cuda.Offset[T](to, done*columns), to, count*columns*int(unsafe.Sizeof(period[0])))
	}
}

// product is that of a number of rows.
func (p *probe) product(rows int) Product {
	n, k := p.kind.N, p.kind.K
	product := Product{X: Matrix{At: p.x, Rows: rows, Columns: k}, Weights: Matrix{At: p.weights, Rows: n, Columns: k}, Bias: p.bias,
		Result: Matrix{At: p.result, Rows: rows, Columns: n}, Rectified: p.kind.Rectified}
	if p.kind.Residual {
		product.Residual = Matrix{At: p.residual, Rows: rows, Columns: n}
	}
	return product
}

// trainingProduct is that of a number of rows.
func (p *probe) trainingProduct(rows int) TrainingProduct {
	n, k := p.kind.N, p.kind.K
	product := TrainingProduct{A: Matrix{At: p.x, Rows: rows, Columns: k}, B: Matrix{At: p.weights, Rows: rows, Columns: n}, Order: p.kind.Order,
		Bias: p.bias, Rectified: p.kind.Rectified, Result: Matrix{At: p.result, Rows: p.kind.results(rows), Columns: n}}
	switch p.kind.Order {
	case Straight:
		product.B.Rows = k
	case TransposedB:
		product.B.Rows, product.B.Columns = n, k
	}
	if p.kind.Sums {
		product.Sums, product.Result.At, product.Add = p.result, 0, p.kind.Residual
	} else {
		product.Residual = p.residual
	}
	return product
}

// ready makes results ready for a product: what was there before proves nothing, and is added to where sums are.
func (p *probe) ready(rows int) error {
	bytes := p.kind.bytesOfResult() * p.kind.results(rows) * p.kind.N
	if p.kind.Sums && p.kind.Residual {
		return p.stream.Copy(p.result, p.residual, bytes)
	}
	return p.stream.Zero(p.result, bytes)
}

// own computes rows by the kernels here.
func (p *probe) own(rows int) ([]float32, error) {
	if err := cmp.Or(p.ready(rows), p.run(nil, rows)); err != nil {
		return nil, err
	}
	return p.read(0, p.kind.results(rows))
}

// read returns rows of the result.
func (p *probe) read(first, rows int) ([]float32, error) {
	n, at := rows*p.kind.N, first*p.kind.N
	if p.kind.Sums {
		have := make([]float32, n)
		return have, cuda.CopyOut(p.stream, have, cuda.Offset[float32](p.result, at))
	}
	have := make([]uint16, n)
	err := cuda.CopyOut(p.stream, have, cuda.Offset[uint16](p.result, at))
	return p.floats(have), err
}

// attempt says whether an algorithm could be run for a number of rows.
func (p *probe) attempt(a *cuda.BLASAlgorithm, rows int) (bool, error) {
	if ok, err := p.blas.Takes(a, rows); !ok || err != nil {
		return false, err
	}
	if err := p.ready(rows); err != nil {
		return false, err
	}
	err := p.run(a, rows)
	var refused *cuda.BLASError
	if errors.As(err, &refused) {
		return false, nil
	}
	return err == nil, err
}

// run puts the product of a number of rows by an algorithm into the stream; without one, by the kernels here.
func (p *probe) run(a *cuda.BLASAlgorithm, rows int) error {
	switch {
	case a == nil && p.kind.Training:
		return p.training.ownProduct(p.stream, p.trainingProduct(rows))
	case a == nil:
		return p.kernels.Product(p.stream, p.product(rows))
	case p.kind.Training:
		return p.blas.Run(p.stream, a, p.trainingProduct(rows).operands(p.workspace))
	}
	return p.blas.Run(p.stream, a, p.product(rows).operands(p.workspace))
}

// compared is how many rows are compared at the beginning, in the middle and at the end of a result.
const compared = 48

// parts are where rows of a result are compared.
func (p *probe) parts(rows int) (all [][2]int) { // the first one and how many
	results := p.kind.results(rows)
	for _, first := range []int{0, results/2 - compared/2, results - compared} {
		first = max(first, 0)
		all = append(all, [2]int{first, min(compared, results-first)})
	}
	return all
}

// gives says whether rows by an algorithm are those that are wanted, bit for bit, for each of some numbers of rows: those that there is room for.
// An algorithm that cannot be run for one of them does not give them. Where sums are over rows, those are wanted that the kernels here give.
func (p *probe) gives(a *cuda.BLASAlgorithm, want []float32, counts ...int) (bool, error) {
	for _, rows := range counts {
		if rows > p.rows {
			continue
		}
		if p.kind.overRows() {
			var err error
			if want, err = p.own(rows); err != nil {
				return false, err
			}
		}
		if ok, err := p.attempt(a, rows); !ok {
			return false, err
		}
		for _, part := range p.parts(rows) {
			have, err := p.read(part[0], part[1])
			if err != nil || !p.same(have, want, part[0]) {
				return false, err
			}
		}
	}
	return true, nil
}

// isNear says whether what an algorithm gives for some numbers of rows is near what the kernels here give.
func (p *probe) isNear(a *cuda.BLASAlgorithm, counts ...int) (bool, error) {
	for _, rows := range counts {
		if rows > p.rows {
			continue
		}
		want, err := p.own(rows)
		if err != nil {
			return false, err
		}
		if ok, err := p.attempt(a, rows); !ok {
			return false, err
		}
		have, err := p.read(0, p.kind.results(rows))
		if err != nil || !p.resembles(have, want) {
			return false, err
		}
	}
	return true, nil
}

// same says whether rows from the first on are the wanted ones, which repeat. Of NaNs there is one only.
func (p *probe) same(have, want []float32, first int) bool {
	n := p.kind.N
	for i, h := range have {
		w := want[(first*n+i)%len(want)]
		if math.Float32bits(h) != math.Float32bits(w) && !(h != h && w != w) {
			return false
		}
	}
	return true
}

// resembles says whether what an algorithm gives is, to within rounding, what the kernels here give.
func (p *probe) resembles(have, want []float32) bool {
	length := p.kind.K // of a sum
	if p.kind.overRows() {
		length = p.rows
	}
	size := 64 * math.Sqrt(float64(length)) // of the sums, about
	precision := 1.0 / 512
	if p.stored == BFloat16 {
		precision = 1.0 / 64
	}
	for i, h := range have {
		x, y := float64(h), float64(want[i])
		if x == y || x != x && y != y {
			continue
		}
		if !(math.Abs(x-y) <= precision*math.Abs(y)+size/(1<<18)) {
			return false
		}
	}
	return true
}
