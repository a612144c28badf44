package cpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

// A pool lends runs of contiguous rows of float32 and takes them back, in any order. It keeps its memory.
type pool struct {
	width    int // elements of a row
	segments []segment
}

// A segment is a piece of the pool's memory with its free runs, ascending and not touching each other.
type segment struct {
	data []float32
	free []run
}

type run struct{ first, count int }

// A loan is a run of rows in use. The zero loan is of no rows.
type loan struct {
	segment int
	run
}

// minSegment is the rows of the first segment.
const minSegment = 1024

// take lends rows, the first run that is long enough. A new segment is at least half as large as all before.
func (p *pool) take(rows int) loan {
	if rows == 0 || p.width == 0 {
		return loan{}
	}
	total := 0
	for i := range p.segments {
		s := &p.segments[i]
		if first, ok := s.take(rows); ok {
			return loan{i, run{first, rows}}
		}
		total += len(s.data) / p.width
	}
	size := max(rows, total/2, minSegment)
	p.segments = append(p.segments, segment{data: hugepage.Make[float32](size * p.width), free: []run{{0, size}}})
	return p.take(rows)
}

func (s *segment) take(rows int) (first int, ok bool) {
	for i := range s.free {
		f := &s.free[i]
		if f.count < rows {
			continue
		}
		first = f.first
		f.first, f.count = f.first+rows, f.count-rows
		if f.count == 0 {
			s.free = slices.Delete(s.free, i, i+1)
		}
		return first, true
	}
	return 0, false
}

// give takes a loan, or a part of it, back.
func (p *pool) give(l loan) {
	if l.count == 0 {
		return
	}
	s := &p.segments[l.segment]
	i := 0
	for i < len(s.free) && s.free[i].first < l.first {
		i++
	}
	s.free = slices.Insert(s.free, i, l.run)
	if i+1 < len(s.free) && s.free[i].first+s.free[i].count == s.free[i+1].first {
		s.free[i].count += s.free[i+1].count
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].first+s.free[i-1].count == s.free[i].first {
		s.free[i-1].count += s.free[i].count
		s.free = slices.Delete(s.free, i, i+1)
	}
}

// rows returns the memory of a loan.
func (p *pool) rows(l loan) []float32 {
	if l.count == 0 {
		return nil
	}
	return p.segments[l.segment].data[l.first*p.width : (l.first+l.count)*p.width]
}

// A cache holds the rows that hypotheses refer to: for self-attention, the keys and values of a target word, in all layers.
// Hypotheses with a common beginning share its rows.
type cache struct {
	width int
	data  []float32
	uses  []int32 // of each row
	free  []int32 // rows that nothing refers to
}

// add returns a row with one use.
func (c *cache) add() int32 {
	if n := len(c.free); n > 0 {
		row := c.free[n-1]
		c.free = c.free[:n-1]
		c.uses[row] = 1
		return row
	}
	row := int32(len(c.uses))
	c.uses = add(c.uses, 1)
	if need := len(c.uses) * c.width; cap(c.data) < need {
		larger := lone[float32](max(2*need, 256*c.width))
		copy(larger, c.data)
		c.data = larger
	}
	c.data = c.data[:len(c.uses)*c.width]
	return row
}

// share adds a use to each of the rows.
func (c *cache) share(rows []int32) {
	for _, row := range rows {
		c.uses[row]++
	}
}

// drop takes a use from each of the rows.
func (c *cache) drop(rows []int32) {
	for _, row := range rows {
		if c.uses[row]--; c.uses[row] == 0 {
			c.free = add(c.free, row)
		}
	}
}

func (c *cache) row(row int32) []float32 {
	return c.data[int(row)*c.width : (int(row)+1)*c.width]
}
