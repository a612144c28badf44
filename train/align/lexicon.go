package align

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/train/corpus/extsort"
)

// A Lexicon counts which words are linked to which. It needs the given memory and what one source word's translations take,
// and a temporary file beyond. Close it after use.
type Lexicon struct {
	pairs  *extsort.Sorter
	linked []bool
	record [8]byte
}

// nowhere stands for the target of source words without a link. It sorts behind all target words.
const nowhere = 1<<32 - 1

// NewLexicon returns an empty lexicon. The folder is where temporary files go, "" being the system's.
func NewLexicon(folder string, memory int64) *Lexicon {
	return &Lexicon{pairs: extsort.New(folder, memory)}
}

// Close deletes what was written.
func (l *Lexicon) Close() error { return l.pairs.Close() }

// Add counts the links of a pair of sentences.
func (l *Lexicon) Add(source, target []int32, links []Link) error {
	l.linked = resized(l.linked, len(source))
	clear(l.linked)
	for _, link := range links {
		l.linked[link.Source] = true
		if err := l.add(uint32(source[link.Source]), uint32(target[link.Target])); err != nil {
			return err
		}
	}
	for i, linked := range l.linked {
		if !linked {
			if err := l.add(uint32(source[i]), nowhere); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Lexicon) add(source, target uint32) error {
	binary.BigEndian.PutUint32(l.record[:], source)
	binary.BigEndian.PutUint32(l.record[4:], target)
	return l.pairs.Add(l.record[:])
}

// A translation is how often a source word was linked to a target word.
type translation struct {
	target uint32
	count  int64
}

// WriteText writes "target source probability" on each line, which is what shortlists are made from, by source word and then
// from the most probable target word. The probability is the share of the source word's links that lead to the target word,
// where a word without any counts as one that leads nowhere. Pairs less probable than a millionth are left out, and so are
// words that the form has no place for: empty ones, those with white space, and NULL, which stands for nowhere. Nothing can
// be added afterwards.
func (l *Lexicon) WriteText(w io.Writer, source, target func(id int32) string) error {
	out := bufio.NewWriterSize(w, 1<<16)
	var open uint32
	var found []translation
	err := l.pairs.Each(func(record []byte) error {
		from, to := binary.BigEndian.Uint32(record), binary.BigEndian.Uint32(record[4:])
		if from != open {
			if err := writeTranslations(out, source(int32(open)), found, target); err != nil {
				return err
			}
			open, found = from, found[:0]
		}
		if last := len(found) - 1; last >= 0 && found[last].target == to {
			found[last].count++
		} else {
			found = append(found, translation{to, 1})
		}
		return nil
	})
	if err == nil && len(found) > 0 {
		err = writeTranslations(out, source(int32(open)), found, target)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("writing the lexicon: %w", err)
	}
	return nil
}

func writeTranslations(out *bufio.Writer, source string, found []translation, name func(id int32) string) error {
	total := int64(0)
	for _, t := range found {
		total += t.count
	}
	slices.SortFunc(found, func(a, b translation) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.target, b.target))
	})
	for _, t := range found {
		probability := strconv.FormatFloat(float64(t.count)/float64(total), 'f', 6, 64)
		if t.target == nowhere || probability == "0.000000" || !nameable(source) {
			continue
		}
		target := name(int32(t.target))
		if !nameable(target) {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s %s %s\n", target, source, probability); err != nil {
			return err
		}
	}
	return nil
}

func nameable(word string) bool {
	return word != "" && word != "NULL" && !strings.ContainsAny(word, " \t\n\v\f\r")
}
