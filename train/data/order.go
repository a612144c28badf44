package data

import (
	"encoding/binary"
	"math/rand/v2"
)

// An epochReader gives the records of one epoch in its order. The corpus is divided into as many parts as memory asks for;
// which part a pair is in, and its place there, follow from the seed and the epoch. The parts are read one after another, by
// going through the whole corpus each time: that costs less than it seems, since sequential reading is fast and parts are
// few, and leaves no files behind.
type epochReader struct {
	corpus *Corpus
	seed   uint64
	epoch  int
	keep   bool // the order of the corpus

	parts, part int
	records     []byte // of the part
	places      []int  // where the records of the part begin
	at          int
}

func (c *Corpus) epoch(seed uint64, epoch int, keep bool) *epochReader {
	r := &epochReader{corpus: c, seed: seed, epoch: epoch, keep: keep}
	r.parts = int((c.size + c.memory - 1) / c.memory)
	return r
}

// next returns the next record, without its length; nil at the end of the epoch.
func (r *epochReader) next() ([]byte, error) {
	for r.at == len(r.places) {
		if r.part == r.parts {
			return nil, nil
		}
		if err := r.load(); err != nil {
			return nil, err
		}
		r.part++
	}
	rest := r.records[r.places[r.at]:]
	r.at++
	size, n := binary.Uvarint(rest)
	return rest[n : n+int(size)], nil
}

// load reads the part and shuffles it.
func (r *epochReader) load() error {
	r.records, r.places, r.at = r.records[:0], r.places[:0], 0
	if r.parts == 1 && r.corpus.file == nil {
		r.all()
	} else if err := r.some(); err != nil {
		return err
	}
	if !r.keep {
		random := r.random(1 + uint64(r.part))
		random.Shuffle(len(r.places), func(i, j int) { r.places[i], r.places[j] = r.places[j], r.places[i] })
	}
	return nil
}

// all takes the records as they lie in memory.
func (r *epochReader) all() {
	r.records = r.corpus.records
	for at := 0; at < len(r.records); {
		r.places = append(r.places, at)
		size, n := binary.Uvarint(r.records[at:])
		at += n + int(size)
	}
}

// some picks the records of the part.
func (r *epochReader) some() error {
	total := uint64(r.corpus.Stats.Pairs)
	return r.corpus.each(func(number uint64, record []byte) {
		part := number * uint64(r.parts) / total
		if !r.keep {
			part = scatter(r.seed, uint64(r.epoch), number) % uint64(r.parts)
		}
		if part != uint64(r.part) {
			return
		}
		r.places = append(r.places, len(r.records))
		r.records = binary.AppendUvarint(r.records, uint64(len(record)))
		r.records = append(r.records, record...)
	})
}

// random returns the random numbers of a purpose in the epoch.
func (r *epochReader) random(purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(r.seed, scatter(0, uint64(r.epoch), purpose)))
}

// scatter mixes numbers: SplitMix64's finaliser, over each in turn.
func scatter(numbers ...uint64) uint64 {
	h := uint64(0)
	for _, n := range numbers {
		h += 0x9e3779b97f4a7c15 + n
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
