package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
	"unsafe"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A kernelRow is the time of a kernel beside its bound. Products have m×n results, sums of k; attention has m rows that look at n places of
// k elements; a cell has m rows of n elements, and an update one row.
type kernelRow struct {
	Model        string  `json:"model"`
	Kernel       string  `json:"kernel"`
	M            int     `json:"m"`
	N            int     `json:"n"`
	K            int     `json:"k,omitempty"`
	Microseconds float64 `json:"microseconds"`
	Copies       int     `json:"copies_of_operands"`                         // which were gone over in turn
	Cached       bool    `json:"operands_may_be_cached"`                     // all copies but one fit into the second-level cache
	SameBits     float64 `json:"cublaslt_microseconds_same_bits,omitempty"`  // by cuBLASLt with the bits of the own kernels
	Library      float64 `json:"cublaslt_microseconds,omitempty"`            // with bits of its own
	Beside       float64 `json:"own_microseconds_beside_cublaslt,omitempty"` // by own kernels as the library was timed: with one copy of the operands
	Bound        float64 `json:"bound_microseconds"`
	By           string  `json:"bound_by"`
}

// printKernels prints a table of kernels, the first column under a heading.
func printKernels(w io.Writer, heading string, rows []kernelRow) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tkernel\tm\tn\tk\tµs\tcopies\tcuBLASLt, µs\twith the same bits, µs\town beside it, µs\tbound, µs\tby\t\n", heading)
	for _, k := range rows {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t\n", k.Model, k.Kernel, k.M, k.N, numberOrDash(k.K), k.Microseconds,
			k.copies(), microsecondsOrDash(k.Library), microsecondsOrDash(k.SameBits), microsecondsOrDash(k.Beside), microsecondsOrDash(k.Bound), cmp.Or(k.By, "-"))
	}
	t.Flush()
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(w, "Each kernel goes over copies of its operands in turn, which exceed the second-level cache; \"cached\" stands where they do not.\n"+
		"cuBLASLt and what is beside it have one copy.")
}

// copies says over how many copies of its operands the kernel went.
func (k *kernelRow) copies() string {
	if k.Cached {
		return fmt.Sprintf("%d, cached", k.Copies)
	}
	return strconv.Itoa(k.Copies)
}

// A timedKernel is a kernel, or a few that follow each other, with the bytes that it has to move and the operations of its tensor cores.
type timedKernel struct {
	what              string
	m, n, k           int
	bytes, operations float64
	ready             func(r *kernelRig) (run func() error)         // run puts it into the stream
	product           func(r *kernelRig) gpukernels.TrainingProduct // in place of ready: a product of training
}

// timeKernels times each kernel of an architecture that takes long.
func (b *gpuBench) timeKernels(driver *cuda.Driver, a architecture, of card) (rows []kernelRow, err error) {
	err = b.withRig(driver, b.onGPU, func(rig *kernelRig) (err error) {
		rig.kernels, err = gpukernels.Load(driver, b.device, rig.context, b.onGPU)
		if err != nil {
			return err
		}
		defer rig.kernels.Close()
		rows, err = b.timeTranslation(rig, a, of)
		return err
	})
	return rows, err
}

// withRig lends a rig without kernels.
func (b *gpuBench) withRig(driver *cuda.Driver, as gpukernels.Arithmetic, work func(*kernelRig) error) (err error) {
	c, err := driver.Context(b.device)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, c.Close()) }()
	release, err := c.Bind()
	if err != nil {
		return err
	}
	defer release()
	stream, err := c.Stream()
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, stream.Close()) }()
	properties, err := driver.Properties(b.device)
	if err != nil {
		return err
	}
	return work(&kernelRig{context: c, stream: stream, as: as, rounds: b.work.rounds, most: b.work.copies, cache: properties.SecondLevelCache, random: rand.New(rand.NewPCG(2018, 3))})
}

func (b *gpuBench) timeTranslation(rig *kernelRig, a architecture, of card) (rows []kernelRow, err error) {
	beside, err := newBLASTimer(rig.context, func(blas *cuda.BLAS) (*gpukernels.Chooser, error) {
		return gpukernels.NewChooser(rig.context, rig.kernels, blas, b.onGPU.Stored, gpukernels.LibraryProducts, nil, 0)
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, beside.close()) }()
	for _, p := range slices.Concat(a.encoderProducts(b.work.tokens), a.stepProducts(b.work.rows), a.stepProducts(1)) {
		bound, by := of.bound(p)
		row := kernelRow{Model: a.size().Name, Kernel: p.what, M: p.m, N: p.n, K: p.k, Bound: 1e6 * bound, By: by}
		if err := cmp.Or(rig.time(&row, func(r *kernelRig) func() error { return r.product(p) }), beside.time(p, &row)); err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	others := a.encoderKernels(b.work.tokens)
	for _, count := range []int{b.work.rows, 1} {
		others = slices.Concat(others, a.stepKernels(count), []timedKernel{a.size().outputKernel(of, count)})
	}
	timed, err := rig.timeEach(a.size().Name, others, of)
	return append(rows, timed...), err
}

// timeEach times kernels one by one, products of training beside those of cuBLASLt.
func (r *kernelRig) timeEach(model string, kernels []timedKernel, of card) (rows []kernelRow, err error) {
	for _, k := range kernels {
		bound, by := of.slower(k.bytes, k.operations)
		row := kernelRow{Model: model, Kernel: k.what, M: k.m, N: k.n, K: k.k, Bound: 1e6 * bound, By: by}
		if k.product == nil {
			err = r.time(&row, k.ready)
		} else {
			err = r.timeProduct(&row, k.product)
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// timeProduct times a product of training, and what cuBLASLt takes for it.
func (r *kernelRig) timeProduct(row *kernelRow, operands func(*kernelRig) gpukernels.TrainingProduct) error {
	var kind gpukernels.ProductKind
	var count int // of rows, of which an algorithm depends
	err := r.time(row, func(r *kernelRig) func() error {
		p := operands(r)
		kind, count = p.Kind(), p.A.Rows
		return func() error { return r.training.Product(r.stream, p) }
	})
	return cmp.Or(err, r.beside.timeKind(kind, count, row))
}

// A kernelRig is what kernels are timed with. Its first error stays.
type kernelRig struct {
	context  *cuda.Context
	stream   *cuda.Stream
	kernels  *gpukernels.Kernels  // of translation
	training *gpukernels.Training // or of training
	beside   *blasTimer
	as       gpukernels.Arithmetic
	rounds   int // at least
	most     int // copies of operands
	cache    int // bytes of the second-level cache
	random   *rand.Rand
	memory   []cuda.Pointer // of the kernel that is timed
	taken    int            // bytes of that
	err      error
}

// time fills in how long a kernel takes, by the device's clock, the mean of several times one after another, each on another copy of its operands.
func (r *kernelRig) time(row *kernelRow, ready func(*kernelRig) func() error) (err error) {
	defer func() { err = errors.Join(err, r.free()) }()
	runs := r.copies(row, ready)
	rounds := max(r.rounds, len(runs))
	var events [2]*cuda.Event
	for i := range events {
		if events[i], err = r.context.Event(); err != nil {
			return err
		}
		defer events[i].Close()
	}
	for round := range rounds + 1 { // the first is a warm-up
		if round == 1 {
			err = r.stream.Record(events[0])
		}
		if err = cmp.Or(r.err, err); err != nil {
			return err
		}
		if err = runs[round%len(runs)](); err != nil {
			return err
		}
	}
	if err = cmp.Or(r.stream.Record(events[1]), r.stream.Synchronize()); err != nil {
		return err
	}
	took, err := events[1].Since(events[0])
	row.Microseconds = float64(took) / float64(time.Microsecond) / float64(rounds)
	return err
}

// copies readies a kernel as often as its operands exceed the second-level cache, while others are used before the same come again: weights and
// activations of a whole model come from memory. It is done less often where half of the free memory is not enough.
func (r *kernelRig) copies(row *kernelRow, ready func(*kernelRig) func() error) []func() error {
	runs := []func() error{ready(r)}
	of, wanted := max(r.taken, 1), 1
	if r.err == nil {
		var free uint64
		free, _, r.err = r.context.Memory()
		wanted = min(1+(r.cache+of-1)/of, r.most, 1+int(free/2)/of)
	}
	for len(runs) < wanted && r.err == nil {
		runs = append(runs, ready(r))
	}
	row.Copies, row.Cached = len(runs), (len(runs)-1)*of < r.cache
	return runs
}

func (r *kernelRig) free() error {
	failed := []error{r.stream.Synchronize()}
	for _, at := range r.memory {
		failed = append(failed, r.context.Free(at))
	}
	r.memory, r.taken = r.memory[:0], 0
	return errors.Join(failed...)
}

// fill returns memory for so many elements, in which a list stands as often as it fits.
func fill[T any](r *kernelRig, count int, list []T) cuda.Pointer {
	at, err := cuda.Alloc[T](r.context, count)
	if r.err = cmp.Or(r.err, err); r.err != nil {
		return 0
	}
	r.memory, r.taken = append(r.memory, at), r.taken+count*int(unsafe.Sizeof(list[0]))
	for first := 0; first < count && r.err == nil; first += len(list) {
		r.err = cuda.CopyIn(r.stream, cuda.Offset[T](at, first), list[:min(len(list), count-first)])
	}
	return at
}

// Lists are repeated after so many numbers. They are random, as cards are faster with zeros.
const repeatedAfter = 1 << 16

// halves are random numbers between -1 and 1 as they are stored.
func (r *kernelRig) halves(count int) cuda.Pointer {
	list := make([]uint16, min(count, repeatedAfter))
	for i := range list {
		list[i] = r.as.Stored.Round(2*r.random.Float32() - 1)
	}
	return fill(r, count, list)
}

// bytes are random ones, none of which is fp8's NaN.
func (r *kernelRig) bytes(count int) cuda.Pointer {
	list := make([]uint8, min(count, repeatedAfter))
	for i := range list {
		list[i] = uint8(r.random.Uint32()) & 0xf7
	}
	return fill(r, count, list)
}

// floats are as many of the same number.
func (r *kernelRig) floats(count int, number float32) cuda.Pointer {
	return fill(r, count, slices.Repeat([]float32{number}, min(count, repeatedAfter)))
}

// numbers are first, first+step and so on.
func (r *kernelRig) numbers(count, first, step int) cuda.Pointer {
	list := make([]int32, count)
	for i := range list {
		list[i] = int32(first + i*step)
	}
	return fill(r, count, list)
}

func (r *kernelRig) matrix(rows, columns int) gpukernels.Matrix {
	return gpukernels.Matrix{At: r.halves(rows * columns), Rows: rows, Columns: columns}
}

// byteMatrix is rows of bytes; those that are weights, or room for rows that are quantised.
func (r *kernelRig) byteMatrix(rows, columns int) gpukernels.ByteMatrix {
	return gpukernels.ByteMatrix{At: r.bytes(rows * gpukernels.ByteStride(columns)), Scales: r.floats(rows, 1.0/128), Rows: rows, Columns: columns}
}

// product readies a product: of bytes with quantising its rows, which is part of it.
func (r *kernelRig) product(p productShape) func() error {
	x, result := r.matrix(p.m, p.k), r.matrix(p.m, p.n)
	if r.as.Products == gpukernels.Stored {
		weights := r.matrix(p.n, p.k)
		return func() error {
			return r.kernels.Product(r.stream, gpukernels.Product{X: x, Weights: weights, Result: result})
		}
	}
	rows, weights := r.byteMatrix(p.m, p.k), r.byteMatrix(p.n, p.k)
	return func() error {
		return cmp.Or(r.kernels.Quantise(r.stream, rows, x),
			r.kernels.ByteProduct(r.stream, gpukernels.ByteProduct{X: rows, Weights: weights, Result: result}))
	}
}

// outputKernel is the output layer with the choice of the best token of each row, whose scores are never stored.
func (s architectureSize) outputKernel(c card, rows int) timedKernel {
	p := s.outputProduct(rows)
	return timedKernel{what: "output layer, the best of each row", m: p.m, n: p.n, k: p.k, bytes: c.outputBytes(p), operations: p.operations(),
		ready: func(r *kernelRig) func() error {
			x := r.matrix(p.m, p.k)
			o := gpukernels.Output{X: x, Bias: r.floats(p.n, 0), Columns: p.n, ForbiddenStarts: r.numbers(p.m+1, 0, 0), Forbidden: r.numbers(1, 0, 0),
				Count: 1, Scratch: r.bytes(gpukernels.OutputScratch(p.m, p.n, 1)), Result: r.floats(2*p.m, 0)}
			if r.as.Products == gpukernels.Stored {
				o.Table = r.halves(p.n * p.k)
				return func() error { return r.kernels.Output(r.stream, o) }
			}
			quantised, table := r.byteMatrix(p.m, p.k), r.byteMatrix(p.n, p.k)
			o.X.At, o.XScales, o.Table, o.TableScales = quantised.At, quantised.Scales, table.At, table.Scales
			return func() error {
				return cmp.Or(r.kernels.Quantise(r.stream, quantised, x), r.kernels.Output(r.stream, o))
			}
		}}
}

// encoderKernels is the attention of a layer.
func (s student) encoderKernels(tokens int) []timedKernel {
	sentences := tokens / modelLength
	tokens = sentences * modelLength
	return []timedKernel{{what: "encoder: attention", m: tokens, n: modelLength, k: s.Dim, bytes: s.encoderAttentionBytes(tokens),
		operations: 2 * 2 * float64(tokens) * modelLength * float64(s.Dim),
		ready: func(r *kernelRig) func() error {
			result, qkv, starts := r.halves(tokens*s.Dim), r.halves(3*tokens*s.Dim), r.numbers(sentences+1, 0, modelLength)
			return func() error {
				return r.kernels.Attention(r.stream, result, qkv, starts, sentences, modelLength, s.Heads, s.Dim/s.Heads,
					gpukernels.Scale(s.Dim/s.Heads))
			}
		}}}
}

// stepKernels are the attention of a layer of the decoder to the source, and what looks at the target words so far.
func (s student) stepKernels(rows int) []timedKernel {
	own := 2 * 2 * float64(rows) * float64(s.Dim) // what each row reads and writes besides
	lookup := timedKernel{what: "decoder: attention", m: rows, n: modelLength, k: s.Dim, bytes: s.attentionBytes(rows, modelLength) + own,
		ready: func(r *kernelRig) func() error {
			keys := r.halves(2 * rows * modelLength * s.Dim)
			l := gpukernels.Lookup{Queries: r.halves(rows * s.Dim), Result: r.halves(rows * s.Dim), Keys: keys,
				Values: cuda.Offset[gpukernels.Half](keys, s.Dim), Starts: r.numbers(rows, 0, modelLength), Lengths: r.numbers(rows, modelLength, 0),
				Stride: 2 * s.Dim, Rows: rows, Heads: s.Heads, HeadDim: s.Dim / s.Heads, Scale: gpukernels.Scale(s.Dim / s.Heads)}
			return func() error { return r.kernels.Lookup(r.stream, l) }
		}}
	return []timedKernel{lookup, s.autoregressiveKernel(rows)}
}

// autoregressiveKernel is that of the sublayer that looks at the target words so far: of attention, to as many as in the middle of a sentence.
func (s student) autoregressiveKernel(rows int) timedKernel {
	elements := float64(rows) * float64(s.Dim)
	switch s.Autoregression {
	case ofAttention:
		const words = (modelLength + 1) / 2
		return timedKernel{what: "decoder: attention to the words", m: rows, n: words, k: s.Dim, bytes: s.attentionBytes(rows, words) + 2*2*elements,
			ready: func(r *kernelRig) func() error {
				stride := 2 * s.Dim * s.Decoder // all layers'
				w := gpukernels.Words{Cache: r.halves(rows * words * stride), Stride: stride, Numbers: r.numbers(rows*words, 0, 1), Capacity: words,
					Slots: r.numbers(rows, 0, 1), Positions: r.numbers(rows, words-1, 0)}
				result, queries := r.halves(rows*s.Dim), r.halves(3*rows*s.Dim)
				return func() error {
					return r.kernels.Recall(r.stream, w, result, queries, 3*s.Dim, rows, s.Heads, s.Dim/s.Heads, gpukernels.Scale(s.Dim/s.Heads))
				}
			}}
	case ofAverages:
		return timedKernel{what: "decoder: average", m: rows, n: s.Dim, bytes: (2 + 2 + 4 + 4) * elements, ready: func(r *kernelRig) func() error {
			result, x, states := r.matrix(rows, s.Dim), r.halves(rows*s.Dim), r.states(rows, s.Dim)
			return func() error { return r.kernels.Average(r.stream, result, x, states) }
		}}
	}
	return timedKernel{what: "decoder: SSRU", m: rows, n: s.Dim, bytes: (2*2 + 2 + 4 + 4) * elements, ready: func(r *kernelRig) func() error {
		result, gates, states := r.matrix(rows, s.Dim), r.halves(2*rows*s.Dim), r.states(rows, s.Dim)
		return func() error { return r.kernels.SSRU(r.stream, result, gates, states) }
	}}
}

// states are those of rows at position 1, each of which replaces its own.
func (r *kernelRig) states(rows, width int) gpukernels.States {
	return gpukernels.States{At: r.floats(rows*width, 0.5), Stride: width, From: r.numbers(rows, 0, 1), To: r.numbers(rows, 0, 1),
		Positions: r.numbers(rows, 1, 0)}
}

// encoderKernels are the cells of a step of the encoder over so many tokens.
func (r recurrentModel) encoderKernels(tokens int) []timedKernel {
	return []timedKernel{r.cells("encoder: cells", r.sentences(tokens))}
}

// stepKernels are the cells of a layer of the decoder, and the attention.
func (r recurrentModel) stepKernels(rows int) []timedKernel {
	width := 2 * r.State
	places := float64(rows) * modelLength
	attention := timedKernel{what: "decoder: attention", m: rows, n: modelLength, k: width,
		bytes: places*2*2*float64(width) + 2*2*float64(rows)*float64(width) + 4*places,
		ready: func(b *kernelRig) func() error {
			a := gpukernels.AdditiveAttention{Queries: b.matrix(rows, width), Memory: b.halves(2 * rows * modelLength * width), Stride: 2 * width,
				Score: b.floats(width, 0.1), Starts: b.numbers(rows, 0, modelLength), Lengths: b.numbers(rows, modelLength, 0),
				Weights: b.floats(rows*modelLength, 0), Most: modelLength, Result: b.matrix(rows, width)}
			return func() error { return b.kernels.AttendAdditively(b.stream, a) }
		}}
	return []timedKernel{r.cells("decoder: cells", rows), attention}
}

// cells are the cells of so many rows, by what was multiplied for them.
func (r recurrentModel) cells(what string, rows int) timedKernel {
	width := r.State // of what is kept
	if r.Cell.Memory() {
		width *= 2
	}
	bytes := float64(rows) * float64(2*2*r.Gates*r.State+2*4*width+2*r.State)
	return timedKernel{what: what, m: rows, n: r.State, bytes: bytes, ready: func(b *kernelRig) func() error {
		step := gpukernels.CellStep{Kind: gpukernels.CellKind(r.Cell), States: gpukernels.CellStates{At: b.floats(rows*width, 0.5), Stride: width},
			X: b.matrix(rows, r.Gates*r.State), U: b.matrix(rows, r.Gates*r.State), H: b.matrix(rows, r.State)}
		return func() error { return b.kernels.AdvanceCells(b.stream, step) }
	}}
}
