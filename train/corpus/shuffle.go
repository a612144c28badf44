package corpus

import (
	"encoding/binary"

	"github.com/sluice-mt/sluice/train/corpus/extsort"
)

// A Shuffler brings pairs into a random order, which depends on the seed and the number of pairs alone: each pair draws a
// number of 64 bits by which they are sorted. Memory is what was given; the rest is in a temporary file. Close it after use.
type Shuffler struct {
	seed   uint64
	count  uint64
	pairs  *extsort.Sorter
	record []byte
}

// NewShuffler returns an empty Shuffler. The folder is where temporary files go, "" being the system's.
func NewShuffler(seed uint64, folder string, memory int64) *Shuffler {
	return &Shuffler{seed: seed, pairs: extsort.New(folder, memory)}
}

// Close deletes what was written.
func (s *Shuffler) Close() error { return s.pairs.Close() }

// Add takes a pair.
func (s *Shuffler) Add(p Pair) error {
	s.record = binary.BigEndian.AppendUint64(s.record[:0], drawn(s.seed, s.count))
	s.record = binary.BigEndian.AppendUint64(s.record, s.count)
	s.record = p.appendTo(s.record)
	s.count++
	return s.pairs.Add(s.record)
}

// Each calls f for every pair in the random order. Nothing can be added afterwards.
func (s *Shuffler) Each(f func(Pair) error) error {
	return s.pairs.Each(func(record []byte) error {
		p, err := unpack(record[16:])
		if err != nil {
			return err
		}
		return f(p)
	})
}

// drawn is the random number of a line, by two rounds of the finalisation of SplitMix64 (Steele, Lea and Flood 2014).
func drawn(seed, line uint64) uint64 { return mixed(mixed(seed) ^ mixed(line+0x9e3779b97f4a7c15)) }

func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
