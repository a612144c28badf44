package cpumodel

import (
	"math"
	"time"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// DefaultKnownPieces is of how many pieces of a vocabulary the products with the first cells are kept, where reading them is faster than
// multiplying.
const DefaultKnownPieces = 1024

// A known holds what the product of a cell makes of the embeddings of the first pieces of a vocabulary, computed at load by the same
// product that computes the others, so that it has the same bits.
type known struct {
	embedding *embedding
	pieces    int
	width     int
	values    []float32 // pieces × width, and a row for the zeros before the first word
}

// row returns what is known of a token, nil if it is not.
func (k *known) row(token search.Token) []float32 {
	at := int(token)
	if token == search.NoToken {
		at = k.pieces
	} else if at >= k.pieces {
		return nil
	}
	return k.values[at*k.width : (at+1)*k.width]
}

// knowEmbeddings computes what first cells make of the embeddings of so many pieces of each vocabulary, 0 for as many as usual where that
// pays.
func (w *Weights) knowEmbeddings(pieces int) {
	if pieces == 0 {
		w.knowPieces(DefaultKnownPieces, (*known).pays)
		return
	}
	w.knowPieces(pieces, func(*known, time.Duration) bool { return true })
}

// knowPieces keeps what first cells make of the embeddings of so many pieces if that pays, given how long the product of a row takes.
func (w *Weights) knowPieces(pieces int, pays func(k *known, product time.Duration) bool) {
	if w.network == nil || pieces <= 0 || !w.uses(KnownEmbeddings) {
		return
	}
	s := w.NewStepper(0)
	n := w.network
	for _, stack := range [][]cellLayer{n.forward, n.backward} {
		if len(stack) > 0 {
			s.know(stack[0].cells[0], w.source, pieces, pays)
		}
	}
	if n.devlin != nil {
		s.know(n.devlin.bottom, w.target, pieces, pays)
	} else if len(n.base) > 0 && n.hard == nil {
		s.know(n.base[0], w.target, pieces, pays)
	}
	for _, further := range w.further {
		further.knowPieces(pieces, pays)
	}
}

// know computes what a cell makes of the first embeddings of a table, and keeps it if that pays.
func (s *Stepper) know(c *cell, e *embedding, pieces int, pays func(k *known, product time.Duration) bool) {
	const block = 64
	pieces = min(pieces, e.pieces())
	width, dim := c.input.linear.n, e.dim
	k := &known{embedding: e, pieces: pieces, width: width, values: make([]float32, (pieces+1)*width)}
	x, fastest := make([]float32, block*dim), time.Duration(math.MaxInt64)
	for first := 0; first <= pieces; first += block {
		rows := min(block, pieces+1-first)
		for i := range rows {
			token := search.Token(first + i)
			if first+i == pieces {
				token = search.NoToken
			}
			s.embed(x[i*dim:(i+1)*dim], e, token, 0)
		}
		begin := time.Now()
		s.product(k.values[first*width:], c.input, x, rows)
		fastest = min(fastest, time.Since(begin)/time.Duration(rows))
	}
	if pays(k, fastest) {
		c.known = k
	}
}

// pays reports whether a row is read faster than multiplied. Rows are read from all over the table, as tokens come.
func (k *known) pays(product time.Duration) bool {
	const rows, rounds, apart = 64, 3, 389
	reading, at := time.Duration(math.MaxInt64), 0
	for range rounds {
		begin := time.Now()
		for range rows {
			at = (at + apart) % (k.pieces + 1)
			kernels.AbsMax(k.values[at*k.width : (at+1)*k.width])
		}
		reading = min(reading, time.Since(begin)/rows)
	}
	return reading < product
}

// fromEmbeddings is fromInputs for embeddings, whose tokens are in the buffer of tokens. Rows that are known are not copied, and must
// not be changed.
func (s *Stepper) fromEmbeddings(c *cell, x []float32, rows int) [][]float32 {
	if c.known == nil || s.observe != nil {
		return s.fromInputs(c, x, rows)
	}
	b, width, dim := &s.network, c.input.linear.n, c.input.linear.k
	b.unknown = b.unknown[:0]
	y := s.cells.inputRows[:0]
	for i, token := range b.tokens[:rows] {
		row := c.known.row(token)
		if row == nil {
			b.unknown = append(b.unknown, int32(i))
		}
		y = append(y, row)
	}
	s.cells.inputRows = y
	n := len(b.unknown)
	if n == 0 {
		return y
	}
	b.rare, b.fromRare = grow(b.rare, n*dim), grow(b.fromRare, n*width)
	for j, i := range b.unknown {
		copy(b.rare[j*dim:(j+1)*dim], x[int(i)*dim:])
		y[i] = b.fromRare[j*width : (j+1)*width]
	}
	s.product(b.fromRare, c.input, b.rare, n)
	return y
}

// pieces is the number of tokens that have an embedding.
func (e *embedding) pieces() int { return max(len(e.float), len(e.int8)) / e.dim }
