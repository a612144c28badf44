// Package autodiff differentiates translation models: reverse-mode differentiation on a tape, over whole-layer operations
// whose gradients are written by hand.
//
// # Words
//
// An operation computes its result at once, from matrices that exist, and leaves a record on the tape. The gradient of a
// matrix is the derivative of the loss by each of its elements. Tape.Backward goes through the records from the last to the
// first; each one takes the gradient of its result and adds to the gradients of its inputs. Losses leave no record: the
// derivative of the sum of all losses by each of them is one, so they add to the gradients of their inputs at once.
//
// # Layout
//
// Batches are ragged: the rows of a matrix are the tokens of all sentences, one sentence after another, without padding.
// Only attention and recurrences look at sentences, through Segments.
//
// # Memory
//
// Values and gradients come from the tape's arena, records from slabs. Tape.Reset takes all of it back. Once the largest
// batch has been seen, a step allocates nothing.
//
// # Reproducibility
//
// All sums have a fixed order, and random numbers are functions of a seed and of the number of the operation. The same
// parameters, batch and seed give the same gradients, to the last bit.
//
// # Devices
//
// Operations are generic in the type of numbers. What is worth a kernel goes through a Device: Plain is the reference, for
// both types; CPU runs on package kernels, and BFloat16CPU, too, with operands of products rounded. Gradients are checked in float64, where finite differences are exact enough to
// find any mistake, and the float32 device is compared with that.
package autodiff
