package corpus

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/sluice-mt/sluice/internal/scratch"
	"github.com/sluice-mt/sluice/train/corpus/extsort"
)

// A Key says what makes a pair a duplicate of another.
type Key struct {
	Source, Target bool // which sides must be the same
	// Loose compares only letters and digits, without case.
	Loose bool
}

// ParseKey returns the key of that name: pair, source or target.
func ParseKey(name string) (Key, error) {
	switch name {
	case "pair":
		return Key{Source: true, Target: true}, nil
	case "source":
		return Key{Source: true}, nil
	case "target":
		return Key{Target: true}, nil
	}
	return Key{}, fmt.Errorf("%w: duplicates by %q: want pair, source or target", ErrRules, name)
}

const (
	hashSize = 16
	// spoolBuffer is for writing and reading the pairs.
	spoolBuffer = 1 << 20
)

// A Unique finds duplicates. Of pairs with the same key, the first one stays. The pairs wait in a temporary file until all
// are known; it takes as much space as the text. Keys are compared by the first 128 bits of their SHA-256, so that two
// different ones among n are taken for the same with a probability of n²/2^129. Memory is what was given, and a bit for each
// pair. Close it after use.
type Unique struct {
	key    Key
	hashes *extsort.Sorter // hash, number of the pair
	count  uint64

	file   *scratch.File
	out    *bufio.Writer
	record []byte
	hashed []byte
}

// NewUnique returns an empty Unique. The folder is where temporary files go, "" being the system's.
func NewUnique(key Key, folder string, memory int64) (*Unique, error) {
	file, err := scratch.Create(folder)
	if err != nil {
		return nil, fmt.Errorf("keeping the corpus: %w", err)
	}
	return &Unique{key: key, hashes: extsort.New(folder, memory), file: file, out: bufio.NewWriterSize(file, spoolBuffer)}, nil
}

// Close deletes what was written.
func (u *Unique) Close() error {
	return errors.Join(u.file.Close(), u.hashes.Close())
}

// Add takes a pair.
func (u *Unique) Add(p Pair) error {
	u.hashed = u.key.appendTo(u.hashed[:0], &p)
	hash := sha256.Sum256(u.hashed)
	u.record = binary.BigEndian.AppendUint64(append(u.record[:0], hash[:hashSize]...), u.count)
	if err := u.hashes.Add(u.record); err != nil {
		return err
	}
	u.count++
	u.record = append(u.record[:0], make([]byte, 4)...)
	u.record = p.appendTo(u.record)
	binary.LittleEndian.PutUint32(u.record, uint32(len(u.record)-4))
	if _, err := u.out.Write(u.record); err != nil {
		return fmt.Errorf("keeping the corpus: %w", err)
	}
	return nil
}

// appendTo appends what is compared.
func (k Key) appendTo(dst []byte, p *Pair) []byte {
	for _, side := range []struct {
		counts bool
		text   string
	}{{k.Source, p.Source}, {k.Target, p.Target}} {
		switch {
		case !side.counts:
		case k.Loose:
			dst = append(dst, strings.Map(plain, side.text)...)
		default:
			dst = append(dst, side.text...)
		}
		dst = append(dst, '\n') // which no side holds
	}
	return dst
}

// plain is for strings.Map: it keeps small letters and digits.
func plain(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) {
		return unicode.ToLower(unicode.ToUpper(r))
	}
	return -1
}

// Each calls f for every pair in order, and tells whether an earlier one has the same key. Nothing can be added afterwards.
func (u *Unique) Each(f func(p Pair, duplicate bool) error) error {
	if err := u.out.Flush(); err != nil {
		return fmt.Errorf("keeping the corpus: %w", err)
	}
	duplicates, err := u.find()
	if err != nil {
		return err
	}
	if _, err := u.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the corpus again: %w", err)
	}
	in := bufio.NewReaderSize(u.file, spoolBuffer)
	for number := range u.count {
		p, err := u.next(in)
		if err != nil {
			return fmt.Errorf("reading the corpus again: %w", err)
		}
		if err := f(p, duplicates[number/64]>>(number%64)&1 == 1); err != nil {
			return err
		}
	}
	return nil
}

// find returns a bit for each pair, which is set if it is a duplicate.
func (u *Unique) find() ([]uint64, error) {
	duplicates := make([]uint64, u.count/64+1)
	var last [hashSize]byte
	first := true
	err := u.hashes.Each(func(record []byte) error {
		if hash := record[:hashSize]; !first && bytes.Equal(last[:], hash) {
			number := binary.BigEndian.Uint64(record[hashSize:])
			duplicates[number/64] |= 1 << (number % 64)
		} else {
			first = false
			copy(last[:], hash)
		}
		return nil
	})
	return duplicates, err
}

func (u *Unique) next(in *bufio.Reader) (Pair, error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return Pair{}, err
	}
	n := int(binary.LittleEndian.Uint32(length[:]))
	if cap(u.record) < n {
		u.record = make([]byte, n)
	}
	u.record = u.record[:n]
	if _, err := io.ReadFull(in, u.record); err != nil {
		return Pair{}, err
	}
	return unpack(u.record)
}
