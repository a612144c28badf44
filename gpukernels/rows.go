package gpukernels

import (
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Embed sets row r of result to table[tokens[r]]·factor + signal[positions[r]]. Token -1 has a vector of zeros.
//
// tokens, positions: int32, one for each row. table: fp16, a row for each token. signal: float32, a row for each position.
func (k *Kernels) Embed(s *cuda.Stream, result Matrix, tokens, positions, table, signal cuda.Pointer, factor float32) error {
	if result.Rows == 0 {
		return nil
	}
	if err := needPlain("embed", result); err != nil {
		return err
	}
	return k.byName["embed"].Launch(s, rowGrid(result.Rows), rowBlock, 0, cuda.Address(tokens), cuda.Address(positions), cuda.Address(table),
		cuda.Address(signal), cuda.Address(result.At), cuda.Int(result.Rows), cuda.Int(result.Columns), cuda.Float(factor))
}

// LayerNorm normalises rows: with v = x + residual, result = (v - mean)/sqrt(variance + epsilon)·scale + bias, the variance being that of
// the population.
//
// x, residual, result: fp16 of one shape; residual may be 0 for none, result may be either. scale, bias: float32; bias may be 0.
func (k *Kernels) LayerNorm(s *cuda.Stream, result Matrix, x, residual, scale, bias cuda.Pointer, epsilon float32) error {
	if result.Rows == 0 {
		return nil
	}
	if err := needPlain("layer norm", result); err != nil {
		return err
	}
	return k.layerNorm(s, result, x, residual, scale, bias, epsilon)
}

// NormColumns normalises columns of rows in place, as LayerNorm does whole rows. bias may be 0.
func (k *Kernels) NormColumns(s *cuda.Stream, x Matrix, scale, bias cuda.Pointer, epsilon float32) error {
	if x.Rows == 0 {
		return nil
	}
	if err := need(x.Columns%8 == 0 && x.stride()%8 == 0, "norm of columns", "%d columns, %d apart, must be multiples of 8", x.Columns,
		x.stride()); err != nil {
		return err
	}
	return k.layerNorm(s, x, x.At, 0, scale, bias, epsilon)
}

// layerNorm puts the norm of x + residual, whose rows are as far apart as those of the result, into the stream.
func (k *Kernels) layerNorm(s *cuda.Stream, result Matrix, x, residual, scale, bias cuda.Pointer, epsilon float32) error {
	return k.byName["layer_norm"].Launch(s, rowGrid(result.Rows), rowBlock, 0, cuda.Address(x), cuda.Address(residual), cuda.Address(scale),
		cuda.Address(bias), cuda.Address(result.At), cuda.Int(result.Rows), cuda.Int(result.Columns), cuda.Int(result.stride()), cuda.Float(epsilon))
}

// States are what recurrent units keep: float32, those of a slot Stride elements behind those of the slot before. From, To and Positions
// are int32, one for each row: it reads the state of slot From and writes that of slot To, which may be the same; at position 0 its state
// begins as 0.
type States struct {
	At                  cuda.Pointer
	Stride              int
	From, To, Positions cuda.Pointer
}

// SSRU advances simpler simple recurrent units: c = σ(f)·c + (1-σ(f))·x, h = max(0, c).
//
// gates: fp16, for each row x and then f. h: fp16.
func (k *Kernels) SSRU(s *cuda.Stream, h Matrix, gates cuda.Pointer, c States) error {
	return k.overRows(s, "ssru", h, cuda.Address(gates), cuda.Address(c.From), cuda.Address(c.To), cuda.Address(c.Positions),
		cuda.Address(c.At), cuda.Address(h.At), cuda.Int(h.Rows), cuda.Int(h.Columns), cuda.Int(c.Stride))
}

// needPlain reports a matrix whose rows do not lie one after another or are not read 8 elements at a time.
func needPlain(kernel string, m Matrix) error {
	return need(m.stride() == m.Columns && m.Columns%8 == 0, kernel, "rows of %d elements, %d apart, must be multiples of 8 without gaps",
		m.Columns, m.stride())
}
