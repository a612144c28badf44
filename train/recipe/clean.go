package recipe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"strings"

	"github.com/sluice-mt/sluice/train/corpus/extsort"
)

// Clean makes one corpus out of texts: no pair twice, none that is empty, too long or unbalanced, in an order that depends on
// the seed and the pairs alone. Pairs may be held back, and then nothing stays that has a side in common with one of those.
type Clean struct {
	From     []Source `yaml:"from" desc:"Texts."`
	MaxWords int      `yaml:"max-words" desc:"Pairs with a side of more words are left out. Default 200."`
	MaxRatio int      `yaml:"max-ratio" desc:"Pairs are left out if one side has so many times the other's words, and at least five more. Default 4."`
	Seed     int      `yaml:"seed" desc:"Decides the order, and with it what is held back."`
	HoldBack []Held   `yaml:"hold-back" desc:"Pairs for validation and tests."`
	To       string   `yaml:"to" desc:"The corpus to write: source, tab, target."`
}

// A Source is a corpus, or two texts side by side.
type Source struct {
	Corpus string `yaml:"corpus" desc:"Sentence pairs: source, tab, target, compressed or not; instead of source and target."`
	Source string `yaml:"source" desc:"Sentences, one a line."`
	Target string `yaml:"target" desc:"Their translations."`
}

// Held are pairs that are held back.
type Held struct {
	Pairs int    `yaml:"pairs" desc:"How many."`
	To    string `yaml:"to" desc:"The corpus to write."`
}

// Defaults of Clean, and what it always asks for.
const (
	cleanMaxWords  = 200
	cleanMaxRatio  = 4
	cleanMinExcess = 5
	cleanMemory    = 256 << 20
)

func (c *Clean) inputs() []string {
	var names []string
	for _, s := range c.From {
		names = append(names, s.Corpus, s.Source, s.Target)
	}
	return names
}

func (c *Clean) outputs() []string {
	names := []string{c.To}
	for _, h := range c.HoldBack {
		names = append(names, h.To)
	}
	return names
}

func (c *Clean) check(k *checking) {
	k.need(map[string]bool{"from": len(c.From) > 0, "to": c.To != ""})
	k.corpus("to", c.To)
	for i, s := range c.From {
		at := fmt.Sprintf("from[%d]", i)
		k.corpus(at+".corpus", s.Corpus)
		if (s.Corpus == "") == (s.Source == "" && s.Target == "") || (s.Source == "") != (s.Target == "") {
			k.at(at, "expected either corpus, or source and target")
		}
	}
	for i, h := range c.HoldBack {
		at := fmt.Sprintf("hold-back[%d]", i)
		k.need(map[string]bool{at + ".pairs": h.Pairs > 0, at + ".to": h.To != ""})
		k.corpus(at+".to", h.To)
	}
}

// A cleaning is one run of Clean.
type cleaning struct {
	*Clean
	held   map[string]bool // sides of pairs that are held back
	counts struct{ read, empty, tooLong, unbalanced, twice, held, besideHeld, kept int }
}

func (c *Clean) run(w *work) error {
	sorter := extsort.New(w.scratch, cleanMemory)
	k := &cleaning{Clean: c, held: map[string]bool{}}
	err := k.gather(w, sorter)
	if err == nil {
		err = k.distribute(w, sorter)
	}
	n := &k.counts
	w.logger.Info("corpus cleaned", "pairs", n.read, "empty", n.empty, "too_long", n.tooLong, "unbalanced", n.unbalanced, "twice", n.twice,
		"held_back", n.held, "like_held_back", n.besideHeld, "kept", n.kept)
	return errors.Join(err, sorter.Close())
}

// gather sorts what is usable by a hash: that is the order, and equal pairs come one after another.
func (k *cleaning) gather(w *work, sorter *extsort.Sorter) error {
	var record []byte
	for i, s := range k.From {
		w.progress(0.7 * float64(i) / float64(len(k.From)))
		for p, err := range s.pairs(w) {
			if err == nil && k.counts.read%(1<<16) == 0 && w.ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ErrInterrupted, w.ctx.Err())
			}
			if err != nil {
				return err
			}
			k.counts.read++
			p.source, p.target = tidy(p.source), tidy(p.target)
			if !k.usable(p) {
				continue
			}
			text := p.source + "\t" + p.target
			record = append(binary.BigEndian.AppendUint64(record[:0], shuffleKey(k.Seed, text)), text...)
			if err := sorter.Add(record); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Source) pairs(w *work) iter.Seq2[pair, error] {
	if s.Corpus != "" {
		return pairs(w.input(s.Corpus))
	}
	return sideBySide(plain(w.input(s.Source)), plain(w.input(s.Target)))
}

// tidy leaves one space between words.
func tidy(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
}

// shuffleKey is where a pair stands in the order.
func shuffleKey(seed int, text string) uint64 {
	h := fnv.New64a()
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(seed))
	h.Write(number[:])
	h.Write([]byte(text))
	x := h.Sum64() // whose upper bits are alike for texts that end alike; so they are mixed (the constants are SplitMix64's)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// usable says whether a pair can be learnt from.
func (k *cleaning) usable(p pair) bool {
	a, b := strings.Count(p.source, " ")+1, strings.Count(p.target, " ")+1
	limit, ratio := k.MaxWords, k.MaxRatio
	if limit == 0 {
		limit = cleanMaxWords
	}
	if ratio == 0 {
		ratio = cleanMaxRatio
	}
	switch more, less := max(a, b), min(a, b); {
	case p.source == "" || p.target == "":
		k.counts.empty++
	case more > limit:
		k.counts.tooLong++
	case more >= ratio*less && more >= less+cleanMinExcess:
		k.counts.unbalanced++
	default:
		return true
	}
	return false
}

// distribute writes the sorted pairs: those that are held back first.
func (k *cleaning) distribute(w *work, sorter *extsort.Sorter) error {
	w.progress(0.7)
	var files []*heldFile
	for _, h := range k.HoldBack {
		path, err := w.output(h.To)
		if err != nil {
			return err
		}
		files = append(files, &heldFile{path: path, room: h.Pairs})
	}
	output, err := w.output(k.To)
	if err != nil {
		return err
	}
	err = write(output, func(out *bufio.Writer) error {
		var last string
		return sorter.Each(func(record []byte) error {
			text := string(record[8:])
			if text == last {
				k.counts.twice++
				return nil
			}
			last = text
			return k.place(text, files, out)
		})
	})
	for _, f := range files {
		if err == nil && f.room > 0 {
			err = fmt.Errorf("%w: there are too few pairs to hold back as many as the recipe says", ErrFormat)
		}
		if err == nil {
			err = write(f.path, func(out *bufio.Writer) error {
				_, err := out.WriteString(f.content.String())
				return err
			})
		}
	}
	if err == nil && k.counts.kept == 0 {
		err = fmt.Errorf("%w: no pair is left", ErrFormat)
	}
	return err
}

// A heldFile is pairs that are held back. There are few, so they stay in memory until they are written.
type heldFile struct {
	path    string
	room    int
	content strings.Builder
}

// place writes a pair to where it belongs.
func (k *cleaning) place(text string, files []*heldFile, out *bufio.Writer) error {
	source, target, _ := strings.Cut(text, "\t")
	known := k.held["s"+source] || k.held["t"+target]
	for _, f := range files {
		if f.room == 0 || known { // a pair that has a side in common with another test would make this one easy
			continue
		}
		f.room--
		k.held["s"+source], k.held["t"+target] = true, true
		k.counts.held++
		f.content.WriteString(text + "\n")
		return nil
	}
	if known {
		k.counts.besideHeld++
		return nil
	}
	k.counts.kept++
	_, err := out.WriteString(text + "\n")
	return err
}
