package cpumodel

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What is known of embeddings is kept where it is read faster than multiplied, and where a number of pieces was asked for.
func TestKnownWherePays(t *testing.T) {
	for i, kind := range recurrentKinds {
		m := synthesise(t, describe(kind.lines), false, rand.New(rand.NewPCG(uint64(i), 27)))
		if m.Recurrence == nil {
			continue
		}
		w := pack(t, m, Float32, Options{KnownPieces: -1})
		if n := w.knowing(); n != 0 {
			t.Fatalf("%s: %d cells know embeddings that nobody asked for", kind.name, n)
		}
		asked := 0
		w.knowPieces(4, func(k *known, product time.Duration) bool {
			if asked++; k.pieces != 4 || product < 0 || product > time.Minute {
				t.Errorf("%s: %d pieces, %v for the product of a row", kind.name, k.pieces, product)
			}
			return false
		})
		if n := w.knowing(); n != 0 {
			t.Errorf("%s: told that it does not pay, %d cells know embeddings", kind.name, n)
		}
		w.knowEmbeddings(4)
		if n, all := w.knowing(), w.readingEmbeddings(); n != all || asked != all {
			t.Errorf("%s: %d cells know embeddings that were asked for, %d were asked whether it pays, %d read any", kind.name, n, asked, all)
		}
	}
}

// knowing is how many cells know embeddings.
func (w *Weights) knowing() (cells int) {
	n := w.network
	for _, stack := range [][]cellLayer{n.forward, n.backward} {
		if len(stack) > 0 && stack[0].cells[0].known != nil {
			cells++
		}
	}
	if len(n.base) > 0 && n.base[0].known != nil || n.devlin != nil && n.devlin.bottom.known != nil {
		cells++
	}
	for _, further := range w.further {
		cells += further.knowing()
	}
	return cells
}

// readingEmbeddings is how many cells could know embeddings: those of hard attention read other things beside them.
func (w *Weights) readingEmbeddings() (cells int) {
	n := w.network
	for _, stack := range [][]cellLayer{n.forward, n.backward} {
		if len(stack) > 0 {
			cells++
		}
	}
	if n.devlin != nil || len(n.base) > 0 && n.hard == nil {
		cells++
	}
	for _, further := range w.further {
		cells += further.readingEmbeddings()
	}
	return cells
}

// Reading is compared with multiplying.
func TestKnownPays(t *testing.T) {
	k := &known{pieces: 1024, width: 512, values: make([]float32, 1025*512)}
	if k.pays(0) {
		t.Error("nothing is faster than no time, and yet reading pays")
	}
	if !k.pays(time.Hour) {
		t.Error("an hour for the product of a row, and yet reading does not pay")
	}
}
