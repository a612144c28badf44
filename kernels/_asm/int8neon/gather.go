package main

import "github.com/sluice-mt/sluice/kernels/_asm/neon"

// gatherPanel generates the packing of chosen rows as the columns of a panel. Four bytes of a row are a word of 32 bits, and four rows by four words
// are transposed at a time:
//
//	panel[step][column] = row(ids[column])[step]
func gatherPanel(file *neon.File) {
	const (
		to, table, stride, ids, columns, column, left r = 0, 1, 2, 3, 4, 5, 6
		row                                           r = 8 // of four columns

		read, between, steps v = 0, 4, 8 // four of each
	)
	f := file.Func("gatherPanelNEON", "panel *int8, table *int8, stride int, ids *int32, steps int", "",
		"gatherPanelNEON computes gatherColumns for one panel of 32 columns. stride is in bytes. steps counts groups of 4 bytes of a row, a multiple of 4, at least 4.")
	f.Args(to, "panel", "table", "stride", "ids")
	f.G("MOVD $%d, %v", panel/4, columns)
	f.Label("columns")
	for i := range r(4) {
		f.G("MOVW.P 4(%v), %v", ids, row+i)
		f.G("MADD %v, %v, %v, %v", stride, table, row+i, row+i) // times stride, and table
	}
	f.G("MOVD %v, %v", to, column)
	f.Arg("steps", left)
	f.Label("steps")
	for i := range v(4) {
		f.LoadNext(read+i, row+r(i))
	}
	for i := range v(2) {
		f.Op("zip1", between+2*i, read+i, read+2+i)
		f.Op("zip2", between+2*i+1, read+i, read+2+i)
	}
	for i := range v(2) {
		f.Op("zip1", steps+2*i, between+i, between+2+i)
		f.Op("zip2", steps+2*i+1, between+i, between+2+i)
	}
	for i := range v(4) {
		f.Store(steps+i, column, stepBytes*int(i))
	}
	f.Step(4*stepBytes, column)
	f.G("SUBS $4, %v", left)
	f.G("BNE steps")
	f.Step(16, to)
	f.G("SUBS $1, %v", columns)
	f.G("BNE columns")
	f.G("RET")
}
