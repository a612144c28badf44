package shortlist

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// lineLimit bounds a line of the text form, in bytes.
const lineLimit = 64 << 10

// maxPairs bounds the lines of a text file, and with them the memory it takes (12 bytes each, twice while sorting).
const maxPairs = 1 << 26

// null stands for no word in the output of word alignment. Its lines are skipped.
const null = "NULL"

// A pair is a line of the text form.
type pair struct {
	source, target int32
	probability    float32
}

func readText(r *bufio.Reader, options Options) (*Shortlist, error) {
	sources, targets, err := options.sizes()
	if err != nil {
		return nil, err
	}
	pairs, err := readPairs(r, options)
	if err != nil {
		return nil, err
	}
	list := choose(pairs, sources, targets, options.Parameters)
	list.shared = options.Shared
	return list, nil
}

func readPairs(r *bufio.Reader, options Options) ([]pair, error) {
	source := lookup{vocabulary: options.Source, known: make(map[string]int32)}
	target := lookup{vocabulary: options.Target, known: make(map[string]int32)}
	var pairs []pair
	for number := 1; ; number++ {
		line, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			return nil, &LineError{number, fmt.Sprintf("has more than %d bytes: this is not a shortlist", lineLimit)}
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		fields, n := split(line)
		switch {
		case n == 3:
			probability, problem := parseProbability(fields[2])
			if problem != "" {
				return nil, &LineError{number, problem}
			}
			if string(fields[0]) == null || string(fields[1]) == null {
				break
			}
			if len(pairs) == maxPairs {
				return nil, &LineError{number, fmt.Sprintf("is beyond the %d pairs that are accepted: drop the improbable ones", maxPairs)}
			}
			p := pair{source.id(fields[1]), target.id(fields[0]), probability}
			if p.source >= 0 && p.target >= 0 { // a vocabulary may have no id for unknown pieces
				pairs = append(pairs, p)
			}
		case n != 0:
			return nil, &LineError{number, fmt.Sprintf("has %d fields instead of three (target source probability)", n)}
		}
		if err == io.EOF {
			return pairs, nil
		}
	}
}

// split cuts a line at ASCII white space, the only one that never is part of a piece. n counts all fields; the first
// three are returned.
func split(line []byte) (fields [3][]byte, n int) {
	start := -1
	for i := 0; i <= len(line); i++ {
		blank := i == len(line) || line[i] == ' ' || '\t' <= line[i] && line[i] <= '\r'
		if !blank && start < 0 {
			start = i
		}
		if blank && start >= 0 {
			if n < len(fields) {
				fields[n] = line[start:i]
			}
			n++
			start = -1
		}
	}
	return fields, n
}

func parseProbability(field []byte) (p float32, problem string) {
	v, err := strconv.ParseFloat(string(field), 32)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Sprintf("%q is not a probability", field)
	}
	return float32(v), ""
}

// lookup remembers the ids of pieces that were met, so that a string is made once for each of them.
type lookup struct {
	vocabulary Vocabulary
	known      map[string]int32
	last       []byte // the piece before, since files are mostly sorted by source
	lastID     int32
}

func (l *lookup) id(piece []byte) int32 {
	if l.last == nil || !bytes.Equal(piece, l.last) {
		l.lastID = l.find(piece)
		l.last = append(l.last[:0], piece...)
	}
	return l.lastID
}

func (l *lookup) find(piece []byte) int32 {
	if id, ok := l.known[string(piece)]; ok {
		return id
	}
	name := string(piece)
	id, ok := l.vocabulary.ID(name)
	if !ok {
		return l.vocabulary.Unk()
	}
	l.known[name] = id
	return id
}

// choose keeps the best pairs of each source piece: of two lines for one pair the last counts, of two pairs that are
// equally probable the one with the larger target id comes first.
func choose(pairs []pair, sources, targets int, params Parameters) *Shortlist {
	pairs = bySource(pairs, sources)
	offsets := make([]byte, 0, 8*(sources+1))
	var ids []byte
	entries := 0
	var best []int32
	for source, start := 0, 0; source < sources; source++ {
		end := start
		for end < len(pairs) && int(pairs[end].source) == source {
			end++
		}
		best = chooseBest(pairs[start:end], params, best[:0])
		offsets = binary.LittleEndian.AppendUint64(offsets, uint64(entries))
		for _, id := range best {
			ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
		}
		entries += len(best)
		start = end
	}
	offsets = binary.LittleEndian.AppendUint64(offsets, uint64(entries))
	return &Shortlist{params: params, targets: targets, offsets: offsets, ids: ids}
}

// bySource sorts by source id and keeps the order of lines otherwise. Files are mostly sorted already.
func bySource(pairs []pair, sources int) []pair {
	order := func(a, b pair) int { return cmp.Compare(a.source, b.source) }
	if slices.IsSortedFunc(pairs, order) {
		return pairs
	}
	next := make([]int, sources+1)
	for _, p := range pairs {
		next[p.source+1]++
	}
	for i := 1; i <= sources; i++ {
		next[i] += next[i-1]
	}
	sorted := make([]pair, len(pairs))
	for _, p := range pairs {
		sorted[next[p.source]] = p
		next[p.source]++
	}
	return sorted
}

// chooseBest appends the chosen targets of one source piece in ascending order. It reorders the pairs.
func chooseBest(pairs []pair, params Parameters, dst []int32) []int32 {
	pairs = lastOfEach(pairs)
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.probability, a.probability), cmp.Compare(b.target, a.target))
	})
	for _, p := range pairs[:min(params.Best, len(pairs))] {
		if !(p.probability > float32(params.Threshold)) {
			break
		}
		dst = append(dst, p.target)
	}
	slices.Sort(dst)
	return dst
}

// lastOfEach drops all but the last pair for each target, in place.
func lastOfEach(pairs []pair) []pair {
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.target, b.target) })
	kept := pairs[:0]
	for i, p := range pairs {
		if i+1 == len(pairs) || pairs[i+1].target != p.target {
			kept = append(kept, p)
		}
	}
	return kept
}
