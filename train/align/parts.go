package align

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-mt/sluice/internal/scratch"
)

const leastTable = 4096

// A part is a range of target words whose pairs are in the table together.
type part struct {
	from, to int32 // to is not part of it
	file     *scratch.File
	pairs    int64 // in the file
}

func (p *part) holds(word int32) bool { return p.from <= word && word < p.to }

// parts keeps the pairs of all parts but the one whose turn it is.
type parts struct {
	folder  string
	entries int // of the largest table
	memory  []entry
	list    []part
	density float64 // how many of the pairs that words can have the last table took
}

// newParts is for a table of so many bytes. One word at least must fit into it, whatever it takes.
func newParts(folder string, memory int64, sources int) *parts {
	single := (sources+1)/fullness*8 + leastTable
	return &parts{folder: folder, entries: max(int(min(memory, 1<<48)/entrySize), single), density: 1}
}

func (p *parts) limit() float64 { return float64(p.entries) / 8 * fullness }

// guess returns how far a part that begins with a target word might go. weights are how many pairs each word can have. Most
// pairs stand in several sentences, about as many as in the part before.
func (p *parts) guess(weights []int64, from int) int {
	if len(p.list) == 0 {
		return len(weights) // often all of them fit
	}
	pairs := 0.0
	for to := from; to < len(weights); to++ {
		pairs += float64(weights[to]) * p.density
		if pairs > 0.8*p.limit() && to > from {
			return to
		}
	}
	return len(weights)
}

// learn takes note of how full the table got with words of the given weights.
func (p *parts) learn(t *table, weights []int64) {
	p.density = float64(t.used.Load()) / float64(sum(weights))
}

func sum(weights []int64) (total int64) {
	for _, w := range weights {
		total += w
	}
	return total
}

// halfway returns where the first half of a part ends. Both halves have words, if the part has two.
func halfway(weights []int64, from, to int) int {
	total, before := sum(weights[from:to]), int64(0)
	for k := from; k < to-1; k++ {
		if before += weights[k]; before >= total/2 {
			return k + 1
		}
	}
	return max(to-1, from+1)
}

// newTable returns a table for words that can have so many pairs, as large as it has to be and may be.
func (p *parts) newTable(weights []int64) *table {
	return p.table(int(min(sum(weights)/fullness*8+leastTable, int64(p.entries))))
}

// table returns an empty table in the memory of the one before.
func (p *parts) table(entries int) *table {
	if len(p.memory) < entries {
		p.memory = make([]entry, entries) // the first table is the largest
	}
	clear(p.memory[:entries])
	return newTable(p.memory[:entries])
}

// write puts the pairs of the table and their counts into a file: key and count, of 8 bytes each.
func (p *parts) write(k int, t *table) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping what was learnt: %w", err)
		}
	}()
	into := &p.list[k]
	if into.file == nil {
		if into.file, err = scratch.Create(p.folder); err != nil {
			return err
		}
	}
	if _, err = into.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out := bufio.NewWriterSize(into.file, 1<<20)
	into.pairs = 0
	var record [16]byte
	for i := range t.entries {
		e := &t.entries[i]
		if e.key == 0 {
			continue
		}
		binary.LittleEndian.PutUint64(record[:], e.key)
		binary.LittleEndian.PutUint64(record[8:], e.count)
		if _, err = out.Write(record[:]); err != nil {
			return err
		}
		into.pairs++
	}
	return out.Flush()
}

// read returns a table of the pairs of a part and their counts.
func (p *parts) read(k int) (*table, error) {
	from := &p.list[k]
	in := bufio.NewReaderSize(io.NewSectionReader(from.file, 0, 16*from.pairs), 1<<20)
	t := p.table(min(int(from.pairs)/fullness*8+leastTable, p.entries))
	t.limit = from.pairs // several goroutines together may have gone a little beyond the usual one
	var record [16]byte
	for range from.pairs {
		if _, err := io.ReadFull(in, record[:]); err != nil {
			return nil, fmt.Errorf("reading what was learnt: %w", err)
		}
		at := t.insert(binary.LittleEndian.Uint64(record[:]))
		if at < 0 {
			return nil, fmt.Errorf("%s was changed by another program", from.file.Name())
		}
		t.entries[at].count = binary.LittleEndian.Uint64(record[8:])
	}
	return t, nil
}

// close deletes what was written.
func (p *parts) close() error {
	var err error
	for k := range p.list {
		if file := p.list[k].file; file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}
