// Package network makes trainable networks of models: the same descriptions and parameters that translate (package model),
// as operations on a tape (package autodiff).
//
// All parameters lie in one vector of numbers, so that optimisers, averages, checkpoints and the exchange of gradients
// between workers need not know of matrices. A Replica is one worker's view of it.
package network

import (
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// ErrUntrainable is wrapped by the errors of models that can be used, but not trained.
var ErrUntrainable = errors.New("this model cannot be trained")

// ErrUnsupported is wrapped by the errors of devices about models and options that they cannot train with, but the processor can.
var ErrUnsupported = errors.New("this cannot be trained on the GPU")

// ErrNoRoom is wrapped by the errors of devices whose memory is too small for the parameters and what the optimiser keeps of them.
var ErrNoRoom = errors.New("the device has no memory for the model")

// ErrOutOfMemory is wrapped by the errors of devices whose memory is too small for a batch. Nothing but their gradients has changed.
var ErrOutOfMemory = errors.New("the device has no memory for the mini-batch")

// ErrNoRoomToChoose is wrapped by the errors of devices that have no memory to find out how products of a batch are best computed, as they were told to.
// Nothing but their gradients has changed.
var ErrNoRoomToChoose = errors.New("the device has no memory to find out how its library computes products")

// ErrCannotValidate is wrapped by the errors of devices that can train, but have no memory for validation, or cannot run the model for it.
var ErrCannotValidate = errors.New("the device cannot validate")

// A Parameter is a matrix in the vector of parameters.
type Parameter struct {
	Name       string
	Rows, Cols int
	Offset     int // of its first number in the vector
}

// Size is the number of its elements.
func (p *Parameter) Size() int { return p.Rows * p.Cols }

// A Network is a model whose parameters have their place in a vector. It is read-only.
type Network struct {
	Model      *model.Model
	Parameters []Parameter // in the order of the vector

	size  int
	index map[*marian.Tensor]int
}

// alignment is what offsets of parameters are a multiple of: a cache line of float32.
const alignment = 16

// New returns the network of a model.
func New(m *model.Model) (*Network, error) {
	if m.Output.Columns {
		return nil, fmt.Errorf("%w: its output matrix is stored untransposed, as very old models have it", ErrUntrainable)
	}
	n := &Network{Model: m, index: make(map[*marian.Tensor]int)}
	for i, t := range m.Parameters() {
		if t.Type != marian.Float32 && t.Type != marian.Float16 {
			return nil, fmt.Errorf("%w: parameter %s is stored as %s; train the float32 model", ErrUntrainable, t.Name, t.Type)
		}
		rows, cols := t.Matrix()
		n.index[t] = i
		n.Parameters = append(n.Parameters, Parameter{t.Name, rows, cols, n.size})
		n.size += (rows*cols + alignment - 1) / alignment * alignment
	}
	return n, nil
}

// Size is the length of the vector of parameters, the gaps between them included. Numbers in gaps are zero.
func (n *Network) Size() int { return n.size }

// Count is the number of numbers that are trained.
func (n *Network) Count() int {
	count := 0
	for i := range n.Parameters {
		count += n.Parameters[i].Size()
	}
	return count
}

// Parameter returns the parameter that a tensor of the model is.
func (n *Network) Parameter(t *marian.Tensor) *Parameter { return &n.Parameters[n.index[t]] }

// Number is the place among the parameters of the one that a tensor of the model is; ok is false if it is none.
func (n *Network) Number(t *marian.Tensor) (number int, ok bool) {
	number, ok = n.index[t]
	return number, ok
}

// Values returns the part of the vector that holds a parameter.
func Values[T autodiff.Float](p *Parameter, vector []T) []T {
	return vector[p.Offset : p.Offset+p.Size() : p.Offset+p.Size()]
}

// Load copies the parameters of the model's file into the vector.
func (n *Network) Load(vector []float32) error {
	for i, t := range n.Model.Parameters() {
		values, err := t.Float32()
		if err != nil {
			return err
		}
		copy(Values(&n.Parameters[i], vector), values)
	}
	return nil
}

// File returns a model file with the parameters in the vector, copied, and the description.
func (n *Network) File(vector []float32, description []byte) *marian.File {
	f := &marian.File{Format: marian.NPZ, Config: description}
	for i, t := range n.Model.Parameters() {
		f.Tensors = append(f.Tensors, &marian.Tensor{
			Name: t.Name, Shape: t.Shape, Type: marian.Float32, Data: littleEndian(Values(&n.Parameters[i], vector)),
		})
	}
	if marker := n.Model.Marker; marker != nil {
		f.Tensors = append(f.Tensors, marker)
	}
	return f
}
