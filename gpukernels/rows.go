package gpukernels

import (
	"cmp"

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

// CopyRows sets row r of result to row places[r] of x, or to row r without places; to zeros where that is -1.
//
// places: int32. x, result: fp16, rows of as many columns, in a matrix of any stride that is a multiple of 8.
func (k *Kernels) CopyRows(s *cuda.Stream, result, x Matrix, places cuda.Pointer) error {
	if result.Rows == 0 {
		return nil
	}
	if err := need(result.Columns == x.Columns && x.Columns%8 == 0 && x.stride()%8 == 0 && result.stride()%8 == 0, "copy of rows",
		"%d columns, %d apart, to %d, %d apart, must be as many and multiples of 8", x.Columns, x.stride(), result.Columns, result.stride()); err != nil {
		return err
	}
	return k.byName["copy_rows"].Launch(s, rowGrid(result.Rows), rowBlock, 0, cuda.Address(x.At), cuda.Address(places), cuda.Address(result.At),
		cuda.Int(result.Rows), cuda.Int(result.Columns), cuda.Int(x.stride()), cuda.Int(result.stride()))
}

// A RowNorm says how rows are normalised.
type RowNorm struct {
	Scale, Bias cuda.Pointer // float32, for each column; Bias may be 0 for none
	Epsilon     float32

	// Rows may consist of parts of so many columns each, of which the first Own belong to the row. The others are zeros, in Scale and Bias, too,
	// and stay so. Part 0 stands for all columns, Own 0 for all of a part.
	Part, Own int
}

// parts are Part and Own for rows of that many columns.
func (n *RowNorm) parts(columns int) (part, own int) {
	part = cmp.Or(n.Part, columns)
	return part, cmp.Or(n.Own, part)
}

func (n *RowNorm) check(kernel string, columns int) error {
	part, own := n.parts(columns)
	return need(part > 0 && part%8 == 0 && columns%part == 0 && 0 < own && own <= part, kernel, "rows of %d elements have no parts of %d, of which %d count",
		columns, part, own)
}

// LayerNorm normalises rows: with v = x + residual, result = (v - mean)/sqrt(variance + epsilon)·scale + bias, the variance being that of
// the population.
//
// x, residual, result: fp16 of one shape; residual may be 0 for none, result may be either.
func (k *Kernels) LayerNorm(s *cuda.Stream, result Matrix, x, residual cuda.Pointer, n RowNorm) error {
	if result.Rows == 0 {
		return nil
	}
	if err := needPlain("layer norm", result); err != nil {
		return err
	}
	return k.layerNorm(s, result, x, residual, n)
}

// NormColumns normalises columns of rows in place, as LayerNorm does whole rows.
func (k *Kernels) NormColumns(s *cuda.Stream, x Matrix, n RowNorm) error {
	if x.Rows == 0 {
		return nil
	}
	if err := need(x.Columns%8 == 0 && x.stride()%8 == 0, "norm of columns", "%d columns, %d apart, must be multiples of 8", x.Columns,
		x.stride()); err != nil {
		return err
	}
	return k.layerNorm(s, x, x.At, 0, n)
}

// layerNorm puts the norm of x + residual, whose rows are as far apart as those of the result, into the stream.
func (k *Kernels) layerNorm(s *cuda.Stream, result Matrix, x, residual cuda.Pointer, n RowNorm) error {
	if err := n.check("layer norm", result.Columns); err != nil {
		return err
	}
	part, own := n.parts(result.Columns)
	return k.byName["layer_norm"].Launch(s, rowGrid(result.Rows), rowBlock, 0, cuda.Address(x), cuda.Address(residual), cuda.Address(n.Scale),
		cuda.Address(n.Bias), cuda.Address(result.At), cuda.Int(result.Rows), cuda.Int(result.Columns), cuda.Int(result.stride()), cuda.Int(part),
		cuda.Int(own), cuda.Float(n.Epsilon))
}

// RMSNorm divides rows, which have no parts, by their root mean square: with v = x + residual, result = v/sqrt(mean(v²) + epsilon)·scale. Otherwise
// as LayerNorm.
func (k *Kernels) RMSNorm(s *cuda.Stream, result Matrix, x, residual cuda.Pointer, n RowNorm) error {
	if result.Rows == 0 {
		return nil
	}
	part, own := n.parts(result.Columns)
	if err := cmp.Or(n.check("rms norm", result.Columns), need(part == result.Columns && n.Bias == 0, "rms norm", "parts or a bias")); err != nil {
		return err
	}
	return k.overRows(s, "rms_norm", result, cuda.Address(x), cuda.Address(residual), cuda.Address(n.Scale), cuda.Address(result.At),
		cuda.Int(result.Rows), cuda.Int(result.Columns), cuda.Int(own), cuda.Float(n.Epsilon))
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
