package align

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/internal/scratch"
)

const (
	// LongestSentence is the most words that a sentence may have: positions are kept in two bytes.
	LongestSentence = math.MaxUint16 - 1

	// blockSize is after how many bytes of sentences a block ends. Blocks are what workers share out, and must not depend on
	// their number.
	blockSize = 64 << 10
)

// A Corpus holds pairs of sentences as numbers of words, in a temporary file. Close it after use.
type Corpus struct {
	Sentences   int   // all that were added
	Skipped     int   // of them, those with an empty side or one that is too long: they are aligned to nothing
	SourceWords int64 // of sentences that are not skipped
	TargetWords int64
	maxLength   int
	file        *scratch.File
	size        int64
	blocks      []block
	open        block
	pending     []byte            // of the open block
	pairs       [2][]int64        // by source and by target word, the words beside which it stood
	lengths     map[lengths]int64 // how many sentences there are of each pair of lengths
}

// A block is some consecutive sentences. The record of one is the number of source words and of target words and the words
// themselves, as varints.
type block struct {
	at                       int64
	size                     int
	sentences                int
	firstSource, firstTarget int64 // words of each side before the block
	sourceWords, targetWords int
}

type lengths struct{ source, target uint16 }

// NewCorpus returns an empty corpus. Pairs with a sentence of more than maxLength words are skipped. The folder is where the
// temporary file goes, "" being the system's.
func NewCorpus(maxLength int, folder string) (*Corpus, error) {
	if maxLength < 1 || maxLength > LongestSentence {
		return nil, fmt.Errorf("%w: the longest sentence has %d words, but must have 1 to %d", ErrOptions, maxLength, LongestSentence)
	}
	file, err := scratch.Create(folder)
	if err != nil {
		return nil, fmt.Errorf("keeping the corpus: %w", err)
	}
	return &Corpus{maxLength: maxLength, file: file, lengths: map[lengths]int64{}}, nil
}

// Close deletes what was written.
func (c *Corpus) Close() error {
	return c.file.Close()
}

// Add appends a pair of sentences. Words are numbers from 0, of vocabularies of which the tables below have a line for each.
func (c *Corpus) Add(source, target []int32) error {
	for _, words := range [2][]int32{source, target} {
		for _, word := range words {
			if word < 0 || word == math.MaxInt32 {
				return fmt.Errorf("%w: sentence %d has the word %d", ErrCorpus, c.Sentences+1, word)
			}
		}
	}
	c.Sentences++
	if len(source) == 0 || len(target) == 0 || max(len(source), len(target)) > c.maxLength {
		c.Skipped++
		source, target = nil, nil
	} else {
		c.count(source, target)
	}
	c.pending = appendSentence(c.pending, source, target)
	c.open.sentences++
	c.open.sourceWords += len(source)
	c.open.targetWords += len(target)
	if len(c.pending) >= blockSize {
		return c.endBlock()
	}
	return nil
}

func (c *Corpus) count(source, target []int32) {
	c.SourceWords += int64(len(source))
	c.TargetWords += int64(len(target))
	c.lengths[lengths{uint16(len(source)), uint16(len(target))}]++
	for side, words := range [2][]int32{source, target} {
		others := int64(len(source)+len(target)-len(words)) + 1 // and nothing
		for _, word := range words {
			for int(word) >= len(c.pairs[side]) {
				c.pairs[side] = append(c.pairs[side], 0)
			}
			c.pairs[side][word] += others
		}
	}
}

func (c *Corpus) endBlock() error {
	if c.open.sentences == 0 {
		return nil
	}
	if _, err := c.file.WriteAt(c.pending, c.size); err != nil {
		return fmt.Errorf("keeping the corpus: %w", err)
	}
	c.open.at, c.open.size = c.size, len(c.pending)
	c.blocks = append(c.blocks, c.open)
	c.size += int64(len(c.pending))
	c.open = block{firstSource: c.open.firstSource + int64(c.open.sourceWords), firstTarget: c.open.firstTarget + int64(c.open.targetWords)}
	c.pending = c.pending[:0]
	return nil
}

func appendSentence(dst []byte, source, target []int32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(source)))
	dst = binary.AppendUvarint(dst, uint64(len(target)))
	for _, words := range [2][]int32{source, target} {
		for _, word := range words {
			dst = binary.AppendUvarint(dst, uint64(word))
		}
	}
	return dst
}

// A blockReader reads the sentences of blocks. Each worker has its own.
type blockReader struct {
	bytes          []byte
	source, target []int32
}

// each calls f for every sentence of a block, in order; for reverse with the sides exchanged. The slices are used again.
func (r *blockReader) each(c *Corpus, b block, reverse bool, f func(source, target []int32)) error {
	r.bytes = resized(r.bytes, b.size)
	if _, err := c.file.ReadAt(r.bytes, b.at); err != nil {
		return fmt.Errorf("reading the corpus again: %w", err)
	}
	in := bytes.NewReader(r.bytes)
	for range b.sentences {
		sources, err1 := binary.ReadUvarint(in)
		targets, err2 := binary.ReadUvarint(in)
		if err := errors.Join(err1, err2); err != nil || max(sources, targets) > LongestSentence {
			return fmt.Errorf("%s was changed by another program", c.file.Name())
		}
		r.source, r.target = resized(r.source, int(sources)), resized(r.target, int(targets))
		for _, words := range [2][]int32{r.source, r.target} {
			for i := range words {
				word, err := binary.ReadUvarint(in)
				if err != nil || word >= math.MaxInt32 {
					return fmt.Errorf("%s was changed by another program", c.file.Name())
				}
				words[i] = int32(word)
			}
		}
		if reverse {
			f(r.target, r.source)
		} else {
			f(r.source, r.target)
		}
	}
	return nil
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}
