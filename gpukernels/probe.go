package gpukernels

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A probe is a product by which algorithms of cuBLASLt are judged: are their bits those of the kernels here, or at least the same for every
// number of rows?
//
// Its rows repeat after probePeriod of them. In most of them the products of elements cancel each other, all but the errors of rounding that the sum
// makes on its way, which are stored in full: another order of the sum shows in nearly every element. In some a residual cancels the sum,
// so that it shows, too, whether it is added before the bias. Others are ordinary, or hold infinities and NaNs, which must not get lost.
type probe struct {
	kind      ProductKind
	stored    Storage
	context   *cuda.Context
	stream    *cuda.Stream
	kernels   *Kernels
	blas      *cuda.BLASProduct
	memory    []cuda.Pointer
	rows      int     // that there is room for
	operands  Product // of which rows are taken
	workspace cuda.Pointer
	want      []uint16      // of the first probePeriod rows, by the kernels here
	rowTime   time.Duration // of a row of the last product that was measured, by the kernels here
	err       error         // of what fills it
}

const (
	probePeriod    = 61 // no tile has as many rows, so that a row falls into different places of tiles
	mostWorkspace  = 4 << 20
	mostProbeBytes = 64 << 20
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
	if c.way == MeasuredProducts { // what LibraryProducts takes must not depend on the memory that is free
		free, _, err := c.context.Memory()
		if err != nil {
			return nil, err
		}
		bytes = min(bytes, free/4)
	}
	rows = max(probePeriod, min(rows, int(bytes)/(2*(kind.K+2*kind.N))))
	p := &probe{kind: kind, stored: c.stored, context: c.context, stream: c.stream, kernels: c.kernels, rows: rows}
	bias := p.fill()
	if p.err == nil {
		p.blas, p.err = c.blas.Product(kind.shape(c.stored), bias)
	}
	if p.err == nil {
		p.want, p.err = p.own(probePeriod)
	}
	if p.err != nil {
		return nil, errors.Join(p.err, p.close())
	}
	return p, nil
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

// fill makes the operands, and returns where the bias is in 16 bits.
func (p *probe) fill() cuda.Pointer {
	n, k := p.kind.N, p.kind.K
	random := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	partner := partners(random, k)
	weights := make([]uint16, n*k)
	for i := range weights {
		weights[i] = p.random(random)
	}
	for i := range weights { // of two partners the later one has the weight of the other
		switch j := partner[i%k]; {
		case i%k == 0:
			weights[i] = p.stored.Round(1)
		case j < i%k:
			weights[i] = weights[i-i%k+j]
		}
	}
	bias, biasIn16 := make([]float32, n), make([]uint16, n)
	for i := range bias { // which hides errors of rounding in every fourth column only
		switch i % 4 {
		case 1:
			biasIn16[i] = p.random(random)
		case 3:
			biasIn16[i] = p.stored.Round(p.stored.Float32(p.random(random)) / (1 << 15))
		}
		bias[i] = p.stored.Float32(biasIn16[i])
	}
	p.operands = Product{X: Matrix{At: alloc16(p, p.rows*k), Columns: k}, Weights: Matrix{At: put(p, weights), Rows: n, Columns: k},
		Bias: put(p, bias), Result: Matrix{At: alloc16(p, p.rows*n), Columns: n}, Rectified: p.kind.Rectified}
	x, residual := p.probeRows(random, partner)
	p.repeat(p.operands.X.At, x, k)
	if p.kind.Residual {
		p.operands.Residual = Matrix{At: alloc16(p, p.rows*n), Columns: n}
		p.repeat(p.operands.Residual.At, residual, n)
	}
	p.workspace = alloc16(p, mostWorkspace/2)
	return put(p, biasIn16)
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
func (p *probe) repeat(to cuda.Pointer, period []uint16, columns int) {
	if p.err == nil {
		p.err = cuda.CopyIn(p.stream, to, period)
	}
	for done := probePeriod; done < p.rows && p.err == nil; done += probePeriod {
		count := min(probePeriod, p.rows-done)
		p.err = p.stream.Copy(cuda.Offset[uint16](to, done*columns), to, 2*count*columns)
	}
}

// product is that of a number of rows.
func (p *probe) product(rows int) Product {
	product := p.operands
	product.X.Rows, product.Result.Rows, product.Residual.Rows = rows, rows, rows
	return product
}

// own computes rows by the kernels here.
func (p *probe) own(rows int) ([]uint16, error) {
	if err := p.kernels.Product(p.stream, p.product(rows)); err != nil {
		return nil, err
	}
	return p.result(0, rows)
}

// result reads rows of the result.
func (p *probe) result(first, rows int) ([]uint16, error) {
	have := make([]uint16, rows*p.kind.N)
	return have, cuda.CopyOut(p.stream, have, cuda.Offset[uint16](p.operands.Result.At, first*p.kind.N))
}

// attempt says whether an algorithm could be run for a number of rows.
func (p *probe) attempt(a *cuda.BLASAlgorithm, rows int) (bool, error) {
	if ok, err := p.blas.Takes(a, rows); !ok || err != nil {
		return false, err
	}
	if err := p.stream.Zero(p.operands.Result.At, 2*rows*p.kind.N); err != nil { // what was there before proves nothing
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
	if a == nil {
		return p.kernels.Product(p.stream, p.product(rows))
	}
	return p.blas.Run(p.stream, a, p.product(rows).operands(p.workspace))
}

// compared is how many rows are compared at the beginning, in the middle and at the end of a result.
const compared = 48

// gives says whether rows by an algorithm are those that are wanted, bit for bit, for each of some numbers of rows: those that there is room for.
// An algorithm that cannot be run for one of them does not give them.
func (p *probe) gives(a *cuda.BLASAlgorithm, want []uint16, counts ...int) (bool, error) {
	for _, rows := range counts {
		if rows > p.rows {
			continue
		}
		if ok, err := p.attempt(a, rows); !ok {
			return false, err
		}
		for _, first := range []int{0, rows/2 - compared/2, rows - compared} {
			first = max(first, 0)
			have, err := p.result(first, min(compared, rows-first))
			if err != nil || !p.same(have, want, first) {
				return false, err
			}
		}
	}
	return true, nil
}

// same says whether rows from the first on are the wanted ones. Of NaNs there is one only.
func (p *probe) same(have, want []uint16, first int) bool {
	n := p.kind.N
	for i, h := range have {
		w := want[(first+i/n)%probePeriod*n+i%n]
		if h != w && !(p.isNaN(h) && p.isNaN(w)) {
			return false
		}
	}
	return true
}

func (p *probe) isNaN(x uint16) bool {
	f := p.stored.Float32(x)
	return f != f
}

// resembles says whether what an algorithm gives for a period of rows is, to within rounding, what the kernels here give.
func (p *probe) resembles(have []uint16) bool {
	size := 64 * math.Sqrt(float64(p.kind.K)) // of the sums, about
	precision := 1.0 / 512
	if p.stored == BFloat16 {
		precision = 1.0 / 64
	}
	for i, h := range have {
		x, y := float64(p.stored.Float32(h)), float64(p.stored.Float32(p.want[i]))
		if x == y || x != x && y != y {
			continue
		}
		if !(math.Abs(x-y) <= precision*math.Abs(y)+size/(1<<18)) {
			return false
		}
	}
	return true
}
