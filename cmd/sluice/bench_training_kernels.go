package main

import (
	"cmp"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// timeTraining times the kernels that take most of the time of training a student, with the rows of a mini-batch.
func (b *gpuBench) timeTraining(driver *cuda.Driver, s student, of card) (rows []kernelRow, err error) {
	const stored = gpukernels.BFloat16
	err = b.withRig(driver, gpukernels.Arithmetic{Stored: stored}, func(rig *kernelRig) (err error) {
		rig.training, err = gpukernels.LoadTraining(driver, b.device, rig.context, stored)
		if err != nil {
			return err
		}
		defer rig.training.Close()
		rig.beside, err = newBLASTimer(rig.context, func(blas *cuda.BLAS) (*gpukernels.Chooser, error) {
			return gpukernels.NewTrainingChooser(rig.context, rig.training, blas, gpukernels.LibraryProducts, nil, 0)
		})
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, rig.beside.close()) }()
		rows, err = rig.timeEach(s.Name, s.trainingKernels(b.work.pieces), of)
		return err
	})
	return rows, err
}

// trainingKernels are the products of a layer of the encoder and of the decoder, the output layer and the update. Products of one shape are
// the same kernels, whatever they are for: there is one of each shape.
func (s student) trainingKernels(pieces int) (all []timedKernel) {
	var shapes []productShape
	for _, p := range slices.Concat(s.encoderProducts(pieces), s.stepProducts(pieces)) {
		same := func(other productShape) bool { return other.n == p.n && other.k == p.k }
		if !slices.ContainsFunc(shapes, same) {
			shapes = append(shapes, p)
			all = append(all, p.trainingKernels()...)
		}
	}
	return slices.Concat(all, s.size().lossKernels(pieces), s.updateKernels())
}

// trainingKernels are a product x·w, the gradient of x and that of w, which is added to what is there in float32.
func (p productShape) trainingKernels() []timedKernel {
	input, weights := productShape{p.what + ", gradient of the input", p.m, p.k, p.n}, productShape{p.what + ", gradient of the weights", p.k, p.n, p.m}
	result, sums := 2.0, 4.0+4.0 // bytes of an element: those of sums are read, too
	return []timedKernel{
		p.trainingKernel(result, func(r *kernelRig) gpukernels.TrainingProduct {
			return gpukernels.TrainingProduct{A: r.matrix(p.m, p.k), B: r.matrix(p.k, p.n), Result: r.matrix(p.m, p.n)}
		}),
		input.trainingKernel(result, func(r *kernelRig) gpukernels.TrainingProduct {
			return gpukernels.TrainingProduct{A: r.matrix(p.m, p.n), B: r.matrix(p.k, p.n), Order: gpukernels.TransposedB, Result: r.matrix(p.m, p.k)}
		}),
		weights.trainingKernel(sums, func(r *kernelRig) gpukernels.TrainingProduct {
			return gpukernels.TrainingProduct{A: r.matrix(p.m, p.k), B: r.matrix(p.m, p.n), Order: gpukernels.TransposedA,
				Sums: r.floats(p.k*p.n, 0), Add: true, Result: gpukernels.Matrix{Rows: p.k, Columns: p.n}}
		}),
	}
}

// trainingKernel is a product whose results take so many bytes each.
func (p productShape) trainingKernel(bytesOfResult float64, operands func(*kernelRig) gpukernels.TrainingProduct) timedKernel {
	m, n, k := float64(p.m), float64(p.n), float64(p.k)
	return timedKernel{what: p.what, m: p.m, n: p.n, k: p.k, bytes: 2*(m*k+k*n) + bytesOfResult*m*n, operations: p.operations(), product: operands}
}

// lossKernels are the two passes over the output layer, of as many words as training works on at a time.
func (s architectureSize) lossKernels(rows int) []timedKernel {
	p := s.outputProduct(rows)
	p.n = min(p.n, gpukernels.LossChunk(rows, s.Vocabulary))
	logits, operands := float64(p.m)*float64(p.n), float64(p.k)*float64(p.m+p.n)
	const float, element = 4, 2 // bytes
	loss := timedKernel{what: "output layer: loss of some words", m: p.m, n: p.n, k: p.k, operations: p.operations(),
		bytes: element*operands + 2*float*logits, ready: func(r *kernelRig) func() error {
			l := r.loss(p)
			return func() error { return r.training.Loss(r.stream, l) }
		}}
	// The logits are made again; their gradients are written and read by two products, which add to float32.
	gradients := timedKernel{what: "output layer: gradients of some words", m: p.m, n: p.n, k: p.k, operations: 3 * p.operations(),
		bytes: (element+2*float)*operands + (2*float+3*element)*logits, ready: func(r *kernelRig) func() error {
			l := r.loss(p)
			h, weights, bias := r.floats(p.m*p.k, 0), r.floats(p.n*p.k, 0), r.floats(p.n, 0)
			if r.err == nil {
				r.err = r.training.Loss(r.stream, l) // the gradients need its statistics
			}
			return func() error { return r.training.LossBackward(r.stream, h, weights, bias, l) }
		}}
	return []timedKernel{loss, gradients}
}

// loss is an output layer of so many words, all at a time.
func (r *kernelRig) loss(p productShape) gpukernels.TrainingLoss {
	chunk := (p.n + 7) / 8 * 8
	return gpukernels.TrainingLoss{H: r.matrix(p.m, p.k), Weights: r.matrix(p.n, p.k), Bias: r.floats(p.n, 0), Words: r.numbers(p.m, 0, 0),
		Smoothing: 0.1, Chunk: chunk, Logits: r.floats(p.m*chunk, 0), Gradients: r.halves(p.m * chunk), Statistics: r.floats(4*p.m, 0),
		Groups: r.floats(gpukernels.GroupNumbers(p.m, chunk), 0)}
}

// updateKernels are what an update does with all parameters.
func (s student) updateKernels() []timedKernel {
	n := int(s.parameters())
	const float, stored, vectors = 4, 2, 5 // bytes; the vectors are read and written
	return []timedKernel{
		{what: "update: squares of the gradient", m: 1, n: n, bytes: float * float64(n), ready: func(r *kernelRig) func() error {
			sums, gradient := r.floats(2*gpukernels.SquareSums(n), 0), r.floats(n, 0.1) // sums are float64
			return func() error { return r.training.Squares(r.stream, sums, gradient, n, 1) }
		}},
		{what: "update: Adam", m: 1, n: n, bytes: (2*float*vectors + stored) * float64(n), ready: func(r *kernelRig) func() error {
			a := gpukernels.Adam{Values: r.floats(n, 0.1), Gradient: r.floats(n, 0.1), Means: r.floats(n, 0.1), Squares: r.floats(n, 0.1),
				Averages: r.floats(n, 0.1), Stored: r.halves(n), N: n, Scale: 1, Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, Rate: 1e-4, Root: 1, Weight: 1e-4}
			return func() error { return r.training.Adam(r.stream, a) }
		}},
	}
}
