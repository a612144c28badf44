// Package quantise rounds parameters to few bits while they are trained, so that a model learns to do with them.
//
// # How it is trained
//
// The optimiser keeps parameters in full precision. After every update, a rounded copy is made of them: losses, gradients and
// validation see that copy alone, and the gradient with respect to a rounded parameter is taken for that of the parameter
// itself (the straight-through estimator). The optimiser's parameter is the rounded one plus all that rounding has withheld so
// far. So this is the error feedback of Aji and Heafield (2020), the way in which Marian trains with --quantize-bits: there the
// model is rounded in place and what was cut off is added before the next rounding.
//
// # Which numbers are left
//
// Fixed-point numbers are q·scale with whole q from -(2^(bits-1)-1) to 2^(bits-1)-1. A matrix of 8 bits has a scale for each
// output, as the engine gives it to a float32 model that it runs in 8 bits, or one for all, as a stored 8-bit model has it.
// Logarithmic numbers are those of a marian.LogGrid: Marian's with one scale for a matrix, or those of marian.RoundLogBlocks,
// with one for each 64 numbers, which come closer. Either can be stored in 4 bits if they have no more. With blocks, the first
// rows of a matrix may be left in 8 bits.
package quantise

import (
	"errors"
	"fmt"

	"github.com/sluice-mt/sluice/translator/marian"
)

// ErrConfig is wrapped by the errors of Validate.
var ErrConfig = errors.New("settings of quantisation")

// Config says how parameters are rounded. Marian's names of the settings stand behind them.
type Config struct {
	Bits      int     // quantize-bits
	Log       bool    // quantize-log-based
	Steps     int     // quantize-optimization-steps: of the iteration that fits a scale
	Biases    bool    // quantize-biases: what has one row only, norms included, is rounded, too
	PerMatrix bool    // fixed-point numbers have one scale for a matrix, not one for each output
	Blocks    bool    // logarithmic numbers have one scale for each 64 numbers, and half powers of two
	Cut       float64 // without steps: fixed-point numbers are cut off this many standard deviations from their mean; 0 for never
}

// Validate returns an error that names the first setting that makes no sense.
func (c *Config) Validate() error {
	switch {
	case c.Bits < 2 || c.Bits > 8:
		return fmt.Errorf("%w: quantize-bits is %d, but must be from 2 to 8, or 0 for none", ErrConfig, c.Bits)
	case c.Blocks && !c.Log:
		return fmt.Errorf("%w: quantize-scales: blocks is for quantize-log-based only", ErrConfig)
	case c.Steps < 0:
		return fmt.Errorf("%w: quantize-optimization-steps is %d, but must not be negative", ErrConfig, c.Steps)
	}
	return nil
}

// A Matrix is a parameter.
type Matrix struct {
	Rows, Cols int
	Outputs    Axis // of a product with it
	Eight      int  // of its first rows, which Blocks leave in 8 bits: those of a tensor of marian.Log4Mixed
}

// An Axis says what the outputs of a matrix are.
type Axis uint8

// The axes. Tables of vectors, as embeddings and output layers are, have rows for outputs.
const (
	Columns Axis = iota
	Rows
)

// Round writes the rounded elements of a matrix into dst, or the elements themselves if the matrix is not to be rounded.
func (c *Config) Round(dst, src []float32, m Matrix) {
	switch {
	case m.Rows == 1 && !c.Biases:
		copy(dst, src)
	case c.Log && c.Blocks:
		roundRows8(dst, src, m)
		rest := m.Eight * m.Cols
		marian.RoundLogBlocks(dst[rest:], src[rest:], c.Bits, c.Steps)
	case c.Log:
		marian.FitLogGrid(src, c.Bits, c.Steps).Round(dst, src)
	case c.PerMatrix || m.Rows == 1:
		c.fixed(dst, src, 1, len(src), 1)
	case m.Outputs == Rows:
		for i := range m.Rows {
			c.fixed(dst[i*m.Cols:], src[i*m.Cols:], 1, m.Cols, 1)
		}
	default:
		c.fixed(dst, src, m.Cols, m.Rows, m.Cols)
	}
}

// roundRows8 rounds the rows that have 8 bits.
func roundRows8(dst, src []float32, m Matrix) {
	for i := range m.Eight {
		marian.RoundRow8(dst[i*m.Cols:(i+1)*m.Cols], src[i*m.Cols:(i+1)*m.Cols])
	}
}
