package align

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/sluice-mt/sluice/internal/scratch"
)

// A Link says that a target word comes from a source word: their positions, from 0.
type Link struct{ Source, Target int }

// AppendPharaoh appends links in Pharaoh's form, such as "0-0 1-2".
func AppendPharaoh(dst []byte, links []Link) []byte {
	for k, link := range links {
		if k > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, int64(link.Source), 10)
		dst = append(dst, '-')
		dst = strconv.AppendInt(dst, int64(link.Target), 10)
	}
	return dst
}

// Links are the source positions of all target words of a corpus, or for reverse the target positions of all source words, in
// a temporary file. Close them after use.
type Links struct {
	reverse bool
	file    *scratch.File // two bytes for each word: a position from 1, or 0 for none
}

func newLinks(corpus *Corpus, reverse bool, folder string) (*Links, error) {
	file, err := scratch.Create(folder)
	if err != nil {
		return nil, fmt.Errorf("keeping the alignment: %w", err)
	}
	l := &Links{reverse: reverse, file: file}
	words := corpus.TargetWords
	if reverse {
		words = corpus.SourceWords
	}
	if err := file.Truncate(2 * words); err != nil {
		return nil, errors.Join(fmt.Errorf("keeping the alignment: %w", err), l.Close())
	}
	return l, nil
}

// Close deletes what was written.
func (l *Links) Close() error { return l.file.Close() }

// place returns where the links of a block are in the file, and their size.
func (l *Links) place(b block) (at int64, size int) {
	if l.reverse {
		return 2 * b.firstSource, 2 * b.sourceWords
	}
	return 2 * b.firstTarget, 2 * b.targetWords
}

func (l *Links) read(dst []byte, b block) ([]byte, error) {
	at, size := l.place(b)
	dst = resized(dst, size)
	if _, err := l.file.ReadAt(dst, at); err != nil && size > 0 {
		return nil, fmt.Errorf("reading the alignment again: %w", err)
	}
	return dst, nil
}

func (l *Links) write(links []byte, b block) error {
	at, _ := l.place(b)
	if _, err := l.file.WriteAt(links, at); err != nil {
		return fmt.Errorf("keeping the alignment: %w", err)
	}
	return nil
}

// A linkReader reads the links of one sentence after the other.
type linkReader struct {
	links     *Links
	bytes     []byte
	rest      []byte
	positions []int
}

func (r *linkReader) begin(b block) (err error) {
	if r.links == nil {
		return nil
	}
	r.bytes, err = r.links.read(r.bytes, b)
	r.rest = r.bytes
	return err
}

// next returns the positions that so many words are linked to, -1 for none.
func (r *linkReader) next(words int) []int {
	if r.links == nil {
		return nil
	}
	r.positions = resized(r.positions, words)
	for j := range r.positions {
		r.positions[j] = int(binary.LittleEndian.Uint16(r.rest[2*j:])) - 1
	}
	r.rest = r.rest[2*words:]
	return r.positions
}

// Each calls f with the sentences of a corpus and their links, by source and then by target position. The slices are valid
// during the call only. forward and reverse are what Learn made of this corpus; one of them may be nil, and method is not
// used then.
func Each(ctx context.Context, corpus *Corpus, forward, reverse *Links, method Method, f func(source, target []int32, links []Link) error) error {
	if forward != nil && forward.reverse || reverse != nil && !reverse.reverse {
		return fmt.Errorf("%w: the links of one direction were given for the other", ErrOptions)
	}
	both := forward != nil && reverse != nil
	there, back := linkReader{links: forward}, linkReader{links: reverse}
	var reader blockReader
	var joiner Joiner
	for _, b := range corpus.blocks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := errors.Join(there.begin(b), back.begin(b)); err != nil {
			return err
		}
		var failed error
		err := reader.each(corpus, b, false, func(source, target []int32) {
			if failed != nil {
				return
			}
			sources, targets := there.next(len(target)), back.next(len(source))
			m := method
			switch {
			case both:
			case forward != nil:
				m, targets = Union, joiner.none(len(source))
			default:
				m, sources = Union, joiner.none(len(target))
			}
			failed = f(source, target, joiner.Join(m, sources, targets))
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}
