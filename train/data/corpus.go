// Package data brings sentence pairs from files into batches.
//
// Texts are read once, encoded into pieces, filtered, and kept as packed records: in memory, or in a temporary file where
// they are too many. Every epoch goes through them in another order, which depends on the seed and the number of the epoch
// alone, with no more than a given amount of memory. So a position in training is two numbers.
package data

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/sluice-mt/sluice/internal/scratch"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/corpus"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// A Pair is a sentence and its translation, as the model takes them: with the end of sentence, and for right-to-left models
// reversed before it.
type Pair struct {
	Source, Target []int32
	Further        [][]int32                 // the second source and those after it, of models that have several
	Weights        []float32                 // of the target tokens; nil is 1 each
	Alignment      []autodiff.AlignmentPoint // by target and source token; Sentence is not used

	cropped int // target tokens that were left out at the end

	texts [2][]byte // of source and target, if there is noise to change them
}

// Config says what to read.
type Config struct {
	Source, Target vocab.Vocabulary   // Source may be nil for a language model
	Further        []vocab.Vocabulary // of the second source and those after it
	Files          Files
	RightLeft      bool

	MaxLength int     // of a sentence in pieces, end of sentence included
	Crop      bool    // crop longer ones instead of leaving the pair out
	MaxRatio  float64 // of the longer side's pieces to the shorter's; 0 for any

	// Noise, if not nil, changes the texts, in each epoch in another way. A pair that it makes too long stays as it is; one that it
	// changes has no alignment. There must be one source, and Files.Weights must be of lines.
	Noise *corpus.Noise

	Memory    int64  // bytes of packed records that may be in memory at a time
	Temporary string // folder for the rest; "" for the system's
}

// A Corpus is the pairs of a training set.
type Corpus struct {
	Stats Stats

	records []byte        // all of them, if they fit into memory
	file    *scratch.File // else
	size    int64         // of all records
	memory  int64
	config  Config
}

// Stats count pairs.
type Stats struct {
	Pairs                      int // kept
	Empty, TooLong, Unbalanced int // left out
	SourceTokens, TargetTokens int64
}

// ErrEmpty is returned if no pair is left to train with.
var ErrEmpty = errors.New("the corpus has no usable sentence pair")

// Read reads a corpus. Close it after use.
func Read(c Config) (*Corpus, error) {
	read := &Corpus{memory: max(c.Memory, 1<<20), config: c}
	if err := read.read(&c); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	if s := &read.Stats; s.Pairs == 0 {
		return nil, errors.Join(fmt.Errorf("%w: %d were empty, %d too long, %d unbalanced", ErrEmpty, s.Empty, s.TooLong, s.Unbalanced),
			read.Close())
	}
	return read, nil
}

// Close deletes what was written.
func (c *Corpus) Close() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}

func (c *Corpus) read(config *Config) error {
	lines, err := config.Files.open()
	if err != nil {
		return err
	}
	defer lines.close()
	keeper := recordKeeper{corpus: c, folder: config.Temporary}
	var pair Pair
	for lines.next() {
		if !config.encode(&pair, lines, &c.Stats) {
			continue
		}
		if err := lines.extras(&pair, config.RightLeft); err != nil {
			return err
		}
		c.Stats.Pairs++
		c.Stats.SourceTokens += int64(len(pair.Source))
		c.Stats.TargetTokens += int64(len(pair.Target))
		if err := keeper.add(&pair); err != nil {
			return fmt.Errorf("keeping the corpus: %w", err)
		}
	}
	if lines.err != nil {
		return lines.err
	}
	if err := keeper.finish(); err != nil {
		return fmt.Errorf("keeping the corpus: %w", err)
	}
	return nil
}

// A recordKeeper puts records into memory, and from the moment on that they are too many into a file.
type recordKeeper struct {
	corpus *Corpus
	folder string
	out    *bufio.Writer // of the file; nil while there is none
}

func (k *recordKeeper) add(p *Pair) error {
	c := k.corpus
	before := len(c.records)
	c.records = appendRecord(c.records, p)
	c.size += int64(len(c.records) - before)
	if k.out == nil && c.size > c.memory {
		var err error
		if c.file, err = scratch.Create(k.folder); err != nil {
			return err
		}
		k.out = bufio.NewWriterSize(c.file, 1<<20)
	}
	if k.out == nil {
		return nil
	}
	_, err := k.out.Write(c.records)
	c.records = c.records[:0]
	return err
}

func (k *recordKeeper) finish() error {
	if k.out == nil {
		return nil
	}
	k.corpus.records = nil
	return k.out.Flush()
}

// encode turns the texts of the current lines into pieces. It reports whether the pair is to be kept.
func (c *Config) encode(p *Pair, l *lines, stats *Stats) bool {
	p.Weights, p.Alignment = p.Weights[:0], p.Alignment[:0]
	if c.Noise != nil {
		p.texts = [2][]byte{l.source, l.target}
	}
	p.Target = encode(p.Target[:0], c.Target, l.target)
	if c.Source != nil {
		p.Source = encode(p.Source[:0], c.Source, l.source)
	}
	p.setFurther(len(c.Further))
	for i, v := range c.Further {
		p.Further[i] = encode(p.Further[i], v, l.further[i])
	}
	if c.isEmpty(p) {
		stats.Empty++
		return false
	}
	if !c.cut(p) {
		stats.TooLong++
		return false
	}
	if a, b := float64(len(p.Source)), float64(len(p.Target)); c.Source != nil && c.MaxRatio > 0 && max(a, b) > c.MaxRatio*min(a, b) {
		stats.Unbalanced++
		return false
	}
	if c.Source != nil {
		p.Source = finish(p.Source, c.Source, c.RightLeft)
	}
	for i, v := range c.Further {
		p.Further[i] = finish(p.Further[i], v, c.RightLeft)
	}
	p.Target = finish(p.Target, c.Target, c.RightLeft)
	return true
}

// setFurther makes room for so many further sources, all of them empty.
func (p *Pair) setFurther(n int) {
	p.Further = slices.Grow(p.Further[:0], n)[:n]
	for i := range p.Further {
		p.Further[i] = p.Further[i][:0]
	}
}

// isEmpty says whether one of the texts is empty.
func (c *Config) isEmpty(p *Pair) bool {
	empty := len(p.Target) == 0 || c.Source != nil && len(p.Source) == 0
	for _, tokens := range p.Further {
		empty = empty || len(tokens) == 0
	}
	return empty
}

// cut crops what is too long, if it may: else it reports false.
func (c *Config) cut(p *Pair) bool {
	limit := c.MaxLength - 1
	p.cropped = max(0, len(p.Target)-limit)
	fits := len(p.Target) <= limit && p.longestSource() <= limit
	if fits || !c.Crop {
		return fits
	}
	p.Source, p.Target = p.Source[:min(limit, len(p.Source))], p.Target[:min(limit, len(p.Target))]
	for i, tokens := range p.Further {
		p.Further[i] = tokens[:min(limit, len(tokens))]
	}
	return true
}

// longestSource is the number of tokens of the longest source.
func (p *Pair) longestSource() int {
	longest := len(p.Source)
	for _, tokens := range p.Further {
		longest = max(longest, len(tokens))
	}
	return longest
}

func encode(dst []int32, v vocab.Vocabulary, text []byte) []int32 {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return dst
	}
	return v.Encode(string(text), dst)
}

// finish reverses a sentence for a right-to-left model, and ends it.
func finish(tokens []int32, v vocab.Vocabulary, reverse bool) []int32 {
	if reverse {
		for i, j := 0, len(tokens)-1; i < j; i, j = i+1, j-1 {
			tokens[i], tokens[j] = tokens[j], tokens[i]
		}
	}
	return append(tokens, v.EOS())
}

// appendRecord packs a pair: its length in bytes, then the numbers of source tokens, target tokens, points, weights and bytes of
// both texts, and all of them, tokens and points as varints, weights as their bits. Further sources follow, each after the number
// of its tokens.
func appendRecord(dst []byte, p *Pair) []byte {
	body := [6]int{len(p.Source), len(p.Target), len(p.Alignment), len(p.Weights), len(p.texts[0]), len(p.texts[1])}
	size := 4*len(p.Weights) + len(p.texts[0]) + len(p.texts[1])
	for _, n := range body {
		size += varintSize(uint64(n))
	}
	for _, tokens := range [2][]int32{p.Source, p.Target} {
		for _, token := range tokens {
			size += varintSize(uint64(token))
		}
	}
	for _, point := range p.Alignment {
		size += varintSize(uint64(point.Query)) + varintSize(uint64(point.Key))
	}
	for _, tokens := range p.Further {
		size += varintSize(uint64(len(tokens)))
		for _, token := range tokens {
			size += varintSize(uint64(token))
		}
	}
	dst = binary.AppendUvarint(dst, uint64(size))
	for _, n := range body {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, tokens := range [2][]int32{p.Source, p.Target} {
		for _, token := range tokens {
			dst = binary.AppendUvarint(dst, uint64(token))
		}
	}
	for _, point := range p.Alignment {
		dst = binary.AppendUvarint(dst, uint64(point.Query))
		dst = binary.AppendUvarint(dst, uint64(point.Key))
	}
	for _, w := range p.Weights {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(w))
	}
	dst = append(append(dst, p.texts[0]...), p.texts[1]...)
	for _, tokens := range p.Further {
		dst = binary.AppendUvarint(dst, uint64(len(tokens)))
		for _, token := range tokens {
			dst = binary.AppendUvarint(dst, uint64(token))
		}
	}
	return dst
}

func varintSize(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// unpack reads a record, without its length, into a pair. Records are this process' own.
func unpack(record []byte, p *Pair) {
	next := func() int {
		v, n := binary.Uvarint(record)
		record = record[n:]
		return int(v)
	}
	var counts [6]int
	for i := range counts {
		counts[i] = next()
	}
	p.Source, p.Target, p.Alignment, p.Weights = p.Source[:0], p.Target[:0], p.Alignment[:0], p.Weights[:0]
	for range counts[0] {
		p.Source = append(p.Source, int32(next()))
	}
	for range counts[1] {
		p.Target = append(p.Target, int32(next()))
	}
	for range counts[2] {
		query := next()
		p.Alignment = append(p.Alignment, autodiff.AlignmentPoint{Query: int32(query), Key: int32(next())})
	}
	for range counts[3] {
		p.Weights = append(p.Weights, math.Float32frombits(binary.LittleEndian.Uint32(record)))
		record = record[4:]
	}
	for i := range p.texts {
		p.texts[i], record = append(p.texts[i][:0], record[:counts[4+i]]...), record[counts[4+i]:]
	}
	further := p.Further[:0]
	for len(record) > 0 {
		further = slices.Grow(further, 1)[:len(further)+1]
		last := &further[len(further)-1]
		*last = (*last)[:0]
		for range next() {
			*last = append(*last, int32(next()))
		}
	}
	p.Further = further
}

// each calls f with the number and the content of every record, in the order of the corpus.
func (c *Corpus) each(f func(number uint64, record []byte)) error {
	if c.file == nil {
		rest := c.records
		for number := uint64(0); len(rest) > 0; number++ {
			size, n := binary.Uvarint(rest)
			f(number, rest[n:n+int(size)])
			rest = rest[n+int(size):]
		}
		return nil
	}
	if _, err := c.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the corpus again: %w", err)
	}
	in := bufio.NewReaderSize(c.file, 1<<20)
	var record []byte
	for number := uint64(0); ; number++ {
		size, err := binary.ReadUvarint(in)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			record = grow(record, int(size))
			_, err = io.ReadFull(in, record)
		}
		if err != nil {
			return fmt.Errorf("reading the corpus again from %s: %w", c.file.Name(), err)
		}
		f(number, record)
	}
}

func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n, n+n/2)
	}
	return b[:n]
}
