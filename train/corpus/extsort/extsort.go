// Package extsort sorts more records than fit into memory.
//
// Records are byte strings and are ordered as such. What fits is sorted in memory; beyond that, sorted runs go to a temporary
// file and are merged. The result does not depend on how much memory there was.
package extsort

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-mt/sluice/internal/scratch"
)

const (
	// MinMemory is the least that a Sorter works with.
	MinMemory = 1 << 20

	// entryMemory is what a record takes beside its bytes, twice, since a slice that grows is there twice.
	entryMemory = 2 * 32
	chunkSize   = 256 << 10

	// fanIn is how many runs are merged at once. With more of them, their buffers would be too small to read from a disk.
	fanIn     = 64
	runBuffer = 64 << 10
)

// A Sorter takes records and gives them back in order. It needs the given memory, that of one record and, when it merges,
// some 4 MiB of buffers, and in the temporary folder as much space as its records, twice where it has to merge more
// than once.
type Sorter struct {
	folder string
	memory int64

	chunks  [][]byte // the bytes of the records in memory; those from used on are free
	used    int
	entries []entry
	bytes   int64 // of all records in memory

	file *scratch.File // of the runs; nil while everything is in memory
	size int64
	runs []run
}

// An entry is a record in memory. Most comparisons are decided by the first eight bytes.
type entry struct {
	prefix uint64
	record []byte
}

// A run is a sorted part of the file: records, each behind its length as a varint.
type run struct{ from, to int64 }

// New returns a Sorter that keeps so many bytes in memory, at least MinMemory, and the rest in a file in a folder, "" being
// the system's for temporary files. Close it after use.
func New(folder string, memory int64) *Sorter {
	return &Sorter{folder: folder, memory: max(memory, MinMemory)}
}

// Add copies a record.
func (s *Sorter) Add(record []byte) error {
	if len(s.entries) > 0 && s.bytes+int64(len(record))+entryMemory*int64(len(s.entries)+1) > s.memory {
		if err := s.spill(); err != nil {
			return fmt.Errorf("sorting: %w", err)
		}
	}
	kept := s.keep(record)
	s.entries = append(s.entries, entry{prefixOf(kept), kept})
	s.bytes += int64(len(record))
	return nil
}

// keep copies a record to a chunk.
func (s *Sorter) keep(record []byte) []byte {
	if len(record) > chunkSize/4 {
		return bytes.Clone(record)
	}
	if s.used == 0 || cap(s.chunks[s.used-1])-len(s.chunks[s.used-1]) < len(record) {
		if s.used == len(s.chunks) {
			s.chunks = append(s.chunks, make([]byte, 0, chunkSize))
		}
		s.used++
	}
	chunk := &s.chunks[s.used-1]
	from := len(*chunk)
	*chunk = append(*chunk, record...)
	return (*chunk)[from:len(*chunk):len(*chunk)]
}

func prefixOf(record []byte) uint64 {
	if len(record) >= 8 {
		return binary.BigEndian.Uint64(record)
	}
	var padded [8]byte
	copy(padded[:], record)
	return binary.BigEndian.Uint64(padded[:])
}

func (s *Sorter) sort() {
	slices.SortFunc(s.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.prefix, b.prefix), bytes.Compare(a.record, b.record))
	})
}

// spill writes what is in memory as a run.
func (s *Sorter) spill() error {
	if s.file == nil {
		var err error
		if s.file, err = scratch.Create(s.folder); err != nil {
			return err
		}
	}
	s.sort()
	out := newRunWriter(s.file, s.size)
	for i := range s.entries {
		if err := out.add(s.entries[i].record); err != nil {
			return err
		}
	}
	added, err := out.finish()
	if err != nil {
		return err
	}
	s.runs, s.size = append(s.runs, added), added.to
	for i := range s.chunks[:s.used] {
		s.chunks[i] = s.chunks[i][:0]
	}
	clear(s.entries)
	s.used, s.entries, s.bytes = 0, s.entries[:0], 0
	return nil
}

// Each calls f for every record in order, and stops at its first error. The record is valid during the call only. Nothing
// can be added afterwards.
func (s *Sorter) Each(f func(record []byte) error) error {
	if s.file == nil {
		s.sort()
		for i := range s.entries {
			if err := f(s.entries[i].record); err != nil {
				return err
			}
		}
		return nil
	}
	if len(s.entries) > 0 {
		if err := s.spill(); err != nil {
			return fmt.Errorf("sorting: %w", err)
		}
	}
	s.chunks, s.entries = nil, nil
	for len(s.runs) > fanIn {
		if err := s.mergeGroups(); err != nil {
			return fmt.Errorf("sorting: %w", err)
		}
	}
	return merge(s.file, s.runs, f)
}

// mergeGroups makes one run out of every fanIn, in a new file.
func (s *Sorter) mergeGroups() error {
	next, err := scratch.Create(s.folder)
	if err != nil {
		return err
	}
	var runs []run
	size := int64(0)
	for group := range slices.Chunk(s.runs, fanIn) {
		out := newRunWriter(next, size)
		err := merge(s.file, group, out.add)
		var merged run
		if err == nil {
			merged, err = out.finish()
		}
		if err != nil {
			return errors.Join(err, next.Close())
		}
		runs, size = append(runs, merged), merged.to
	}
	err = s.file.Close()
	s.file, s.runs, s.size = next, runs, size
	return err
}

// Close deletes what was written.
func (s *Sorter) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// A runWriter appends a run to a file.
type runWriter struct {
	out    *bufio.Writer
	run    run
	length [binary.MaxVarintLen64]byte
}

func newRunWriter(file *scratch.File, at int64) *runWriter {
	return &runWriter{out: bufio.NewWriterSize(io.NewOffsetWriter(file, at), 1<<20), run: run{at, at}}
}

func (w *runWriter) add(record []byte) error {
	n := binary.PutUvarint(w.length[:], uint64(len(record)))
	w.run.to += int64(n + len(record))
	if _, err := w.out.Write(w.length[:n]); err != nil {
		return err
	}
	_, err := w.out.Write(record)
	return err
}

func (w *runWriter) finish() (run, error) { return w.run, w.out.Flush() }

// A runReader stands at a record of a run.
type runReader struct {
	in     *bufio.Reader
	prefix uint64
	record []byte
}

// next goes to the next record; io.EOF is the end.
func (r *runReader) next() error {
	length, err := binary.ReadUvarint(r.in)
	if err != nil {
		return err
	}
	if uint64(cap(r.record)) < length {
		r.record = make([]byte, length, length+length/2)
	}
	r.record = r.record[:length]
	if _, err = io.ReadFull(r.in, r.record); err != nil {
		return fmt.Errorf("reading a sorted run: %w", err)
	}
	r.prefix = prefixOf(r.record)
	return nil
}

func (r *runReader) before(other *runReader) bool {
	if r.prefix != other.prefix {
		return r.prefix < other.prefix
	}
	return bytes.Compare(r.record, other.record) < 0
}

// merge gives the records of several runs in order, through a heap of readers whose root stands at the smallest record.
func merge(file *scratch.File, runs []run, f func(record []byte) error) error {
	var heap []*runReader
	for _, part := range runs {
		r := &runReader{in: bufio.NewReaderSize(io.NewSectionReader(file, part.from, part.to-part.from), runBuffer)}
		switch err := r.next(); err {
		case nil:
			heap = append(heap, r)
		case io.EOF:
		default:
			return err
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	for len(heap) > 0 {
		if err := f(heap[0].record); err != nil {
			return err
		}
		switch err := heap[0].next(); err {
		case nil:
		case io.EOF:
			last := len(heap) - 1
			heap[0] = heap[last]
			heap = heap[:last]
		default:
			return err
		}
		sink(heap, 0)
	}
	return nil
}

// sink moves a reader down the heap to its place.
func sink(heap []*runReader, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1].before(heap[child]) {
			child++
		}
		if !heap[child].before(heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
