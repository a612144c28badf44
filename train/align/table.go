package align

import (
	"math/bits"
	"sync/atomic"
)

// unit is what expected counts are counted in. An integer of 64 bits then holds four thousand million of them, and what is
// lost by rounding is nothing beside alpha.
const unit = 1 << 32

const (
	entrySize = 24
	// A table is filled to fullness/8 at most: searching gets slow beyond.
	fullness = 6
)

// A table holds the pairs of source and target words that stand in the same sentences: a hash table with open addressing and
// linear probing, which several goroutines may fill and count in at the same time.
type table struct {
	entries []entry
	used    atomic.Int64
	limit   int64
}

// An entry is free if its key is 0.
type entry struct {
	key         uint64
	count       uint64 // in units, of the iteration that runs
	probability float64
}

// pairKey is never 0. The source word -1 is no word.
func pairKey(source, target int32) uint64 {
	return uint64(uint32(target)+1)<<32 | uint64(uint32(source+1))
}

func sourceOf(key uint64) int32 { return int32(uint32(key)) - 1 }

func newTable(entries []entry) *table {
	return &table{entries: entries, limit: int64(len(entries)) / 8 * fullness}
}

// place is where to look for a key first.
func (t *table) place(key uint64) int {
	key ^= key >> 32
	key *= 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, as in Knuth's multiplicative hashing
	key ^= key >> 29
	key *= 0xbf58476d1ce4e5b9
	high, _ := bits.Mul64(key, uint64(len(t.entries)))
	return int(high)
}

// insert returns the place of a key, which it adds if need be, and -1 where the table is full.
func (t *table) insert(key uint64) int {
	for i := t.place(key); ; {
		switch atomic.LoadUint64(&t.entries[i].key) {
		case key:
			return i
		case 0:
			if t.used.Load() >= t.limit {
				return -1
			}
			if atomic.CompareAndSwapUint64(&t.entries[i].key, 0, key) {
				t.used.Add(1)
				return i
			}
			continue // somebody else took the place, perhaps for the same key
		}
		if i++; i == len(t.entries) {
			i = 0
		}
	}
}

// find returns the place of a key that is in the table, while nothing is inserted.
func (t *table) find(key uint64) int {
	for i := t.place(key); ; {
		if t.entries[i].key == key {
			return i
		}
		if i++; i == len(t.entries) {
			i = 0
		}
	}
}

// add counts a share of an alignment.
func (t *table) add(at int, share float64) {
	atomic.AddUint64(&t.entries[at].count, uint64(share*unit+0.5))
}
