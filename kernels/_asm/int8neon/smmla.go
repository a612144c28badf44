package main

import (
	"github.com/sluice-mt/sluice/kernels/_asm/neon"
)

// mulInt8SMMLA generates blocks of pairs of rows by 8 columns, for FEAT_I8MM.
//
// SMMLA multiplies two rows with two columns along 8 k and adds the 2×2 products to a register. Two steps of weights,
// zipped, are 8 k of two columns:
//
//	c0 k0-3 | c1 k0-3 | c2 k0-3 | c3 k0-3      zip1      c0 k0-7 | c1 k0-7
//	c0 k4-7 | c1 k4-7 | c2 k4-7 | c3 k4-7      zip2      c2 k0-7 | c3 k0-7
//
// and so are the halves of two rows of activations.
func mulInt8SMMLA(file *neon.File) {
	f := file.Func("mulInt8SMMLA", signature("uint8", "int8"), "",
		"mulInt8SMMLA computes blocks of height (2, 4, 6 or 8) rows of mulInt8Generic for whole panels of 32 columns. See mulInt8SDOT.")
	dispatch(f, []int{8, 6, 4, 2}, func(rows int) {
		m := smmla{product{Func: f, rows: rows, columns: 8}}
		m.product.body, m.product.finish = m.multiply, m.write
		m.generate()
	})
}

type smmla struct{ product }

// Registers: the sums, halves of k of pairs of activations, weights.
const (
	pairA  v = 16 // two for each pair of rows
	raw    v = 24
	zipped v = 26
)

func (m smmla) pairs() int { return m.rows / 2 }

// sum holds the sums of a pair of rows and a pair of columns: row 0's two, then row 1's two.
func (m smmla) sum(pair, columns int) v { return v(pair*4 + columns) }

func (m smmla) multiply() {
	for i := range m.pairs() {
		for c := range 4 {
			m.Zero(m.sum(i, c))
		}
	}
	m.Label(m.label("turn"))
	for i := range m.pairs() {
		for j := range 2 {
			m.LoadNext(raw+v(j), row+r(2*i+j))
			m.Op("eor", raw+v(j), raw+v(j), signs)
		}
		for half := range 2 {
			m.ZipHalves(pairA+v(2*i+half), raw, raw+1, half == 1)
		}
	}
	for half := range 2 {
		for four := range 2 {
			for step := range 2 {
				m.Load(raw+v(step), weights, (2*half+step)*stepBytes+16*four)
			}
			m.Op("zip1", zipped, raw, raw+1)
			m.Op("zip2", zipped+1, raw, raw+1)
			for i := range m.pairs() {
				for c := range 2 {
					m.SMMLA(m.sum(i, 2*four+c), pairA+v(2*i+half), zipped+v(c))
				}
			}
		}
	}
	m.Step(4*stepBytes, weights)
	m.G("SUBS $4, %v", k)
	m.G("BNE %s", m.label("turn"))
}

func (m smmla) write() {
	const scale, offset, aScale, temporary, result = 16, 18, 20, 21, 22
	for four := range 2 {
		m.Load(scale+v(four), scales, 16*four)
		m.Load(offset+v(four), bias, 16*four)
	}
	for i := range m.pairs() {
		for second := range 2 {
			m.LoadLaneNext(aScale, aScales)
			for four := range 2 {
				m.ZipHalves(result+v(four), m.sum(i, 2*four), m.sum(i, 2*four+1), second == 1)
				m.scaled(result+v(four), scale+v(four), offset+v(four), aScale, temporary)
				m.Store(result+v(four), y, 16*four)
			}
			m.G("ADD %v, %v", yStride, y)
		}
	}
}
