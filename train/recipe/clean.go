package recipe

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"runtime"
	"strings"

	"github.com/sluice-mt/sluice/train/corpus"
	"github.com/sluice-mt/sluice/train/corpus/extsort"
)

// Clean makes one corpus out of texts: no pair twice, none that is no good, in an order that depends on the seed and the pairs
// alone. Pairs may be held back, and then nothing stays that has a side in common with one of those.
type Clean struct {
	From          []Source `yaml:"from" desc:"Texts."`
	Unicode       string   `yaml:"unicode" oneof:"nfc nfkc none" desc:"Form of characters; nfkc also replaces ligatures, full-width letters and the like. Default nfc."`
	MaxWords      int      `yaml:"max-words" desc:"Pairs with a side of more words are left out. Default 150."`
	MaxRatio      int      `yaml:"max-ratio" desc:"Pairs are left out if one side is so many times as long as the other, in characters, 10 added to both. Default 3."`
	MinLetters    float64  `yaml:"min-letters" desc:"Least share of letters among the characters of a side. Default 0: any."`
	KeepCopies    bool     `yaml:"keep-copies" desc:"Keep pairs whose sides are the same."`
	SourceScripts []string `yaml:"source-scripts" desc:"Unicode's names of the scripts of the source language, such as Latin: nine in ten letters must be of these. Default any."`
	TargetScripts []string `yaml:"target-scripts" desc:"Likewise of the target language."`
	SourceSample  string   `yaml:"source-sample" desc:"Text that is surely of the source language: with that of the target language, pairs in wrong languages are left out."`
	TargetSample  string   `yaml:"target-sample" desc:"Text that is surely of the target language."`
	OtherSamples  []string `yaml:"other-samples" desc:"Texts of languages that one of them may be taken for."`
	Seed          int      `yaml:"seed" desc:"Decides the order, and with it what is held back."`
	HoldBack      []Held   `yaml:"hold-back" desc:"Pairs for validation and tests."`
	To            string   `yaml:"to" desc:"The corpus to write: source, tab, target."`
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

// cleanMemory is what sorting takes, in bytes. The rest is in temporary files.
const cleanMemory = 256 << 20

// sampleLimit is how many bytes of a sample are read: more of them teach nothing new about a language.
const sampleLimit = 32 << 20

func (c *Clean) inputs() []string {
	var names []string
	for _, s := range c.From {
		names = append(names, s.Corpus, s.Source, s.Target)
	}
	return append(append(names, c.SourceSample, c.TargetSample), c.OtherSamples...)
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
	if _, err := corpus.NewCleaner(c.rules(nil)); err != nil {
		k.at("", "%v", err)
	}
	if (c.SourceSample == "") != (c.TargetSample == "") || c.SourceSample == "" && len(c.OtherSamples) > 0 {
		k.at("source-sample", "samples of both languages are needed to tell them apart")
	}
	for i, h := range c.HoldBack {
		at := fmt.Sprintf("hold-back[%d]", i)
		k.need(map[string]bool{at + ".pairs": h.Pairs > 0, at + ".to": h.To != ""})
		k.corpus(at+".to", h.To)
	}
}

// rules are what a pair has to be like. identifier, if not nil, knows the languages of source and target as 0 and 1.
func (c *Clean) rules(identifier *corpus.Identifier) corpus.Rules {
	rules := corpus.Rules{
		Normalise: corpus.Normaliser{Form: corpus.NFC, Controls: true, Spaces: true},
		MaxWords:  150, MaxCharacters: 2000, MaxWord: 80, MaxRatio: 3, NoCopies: !c.KeepCopies, MinLetters: c.MinLetters,
		Scripts: [2][]string{c.SourceScripts, c.TargetScripts}, MinScript: 0.9,
		Identifier: identifier, Languages: [2]int{0, 1}, MaxLead: corpus.DefaultMaxLead,
	}
	switch c.Unicode {
	case "nfkc":
		rules.Normalise.Form = corpus.NFKC
	case "none":
		rules.Normalise.Form = corpus.Unchanged
	}
	if c.MaxWords > 0 {
		rules.MaxWords = c.MaxWords
	}
	if c.MaxRatio > 0 {
		rules.MaxRatio = float64(c.MaxRatio)
	}
	return rules
}

// A cleaning is one run of Clean.
type cleaning struct {
	*Clean
	held       map[string]bool // sides of pairs that are held back
	counts     *corpus.Counts
	heldBack   int
	besideHeld int
}

func (c *Clean) run(w *work) error {
	sorter := extsort.New(w.scratch, cleanMemory)
	k := &cleaning{Clean: c, held: map[string]bool{}, counts: corpus.NewCounts()}
	err := k.gather(w, sorter)
	if err == nil {
		err = k.distribute(w, sorter)
	}
	if w.ctx.Err() != nil && err != nil {
		err = ErrInterrupted
	}
	attributes := []any{"pairs", k.counts.Read}
	for _, reason := range k.counts.Found() {
		attributes = append(attributes, string(reason), k.counts.Rejected[reason])
	}
	w.logger.Info("corpus cleaned", append(attributes, "held_back", k.heldBack, "like_held_back", k.besideHeld,
		"kept", k.counts.Kept-int64(k.heldBack+k.besideHeld))...)
	return errors.Join(err, sorter.Close())
}

// gather sorts what is good by a hash: that is the order, and equal pairs come one after another.
func (k *cleaning) gather(w *work, sorter *extsort.Sorter) error {
	identifier, err := k.learnLanguages(w)
	if err != nil {
		return err
	}
	cleaner, err := corpus.NewCleaner(k.rules(identifier))
	if err != nil {
		return err
	}
	read := func(_ context.Context, yield func(corpus.Pair) error) error {
		for i, s := range k.From {
			w.progress(0.7 * float64(i) / float64(len(k.From)))
			for p, err := range s.pairs(w) {
				if err == nil {
					err = yield(corpus.Pair{Source: p.source, Target: p.target})
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	var record []byte
	return cleaner.Each(w.ctx, runtime.GOMAXPROCS(0), read, func(p corpus.Pair, reason corpus.Reason) error {
		k.counts.Add(reason)
		if reason != corpus.Kept {
			return nil
		}
		text := p.Source + "\t" + p.Target
		record = append(binary.BigEndian.AppendUint64(record[:0], shuffleKey(k.Seed, text)), text...)
		return sorter.Add(record)
	})
}

// learnLanguages makes an identifier out of the samples, nil without any.
func (k *cleaning) learnLanguages(w *work) (*corpus.Identifier, error) {
	if k.SourceSample == "" {
		return nil, nil
	}
	samples := append([]string{k.SourceSample, k.TargetSample}, k.OtherSamples...)
	learner := corpus.NewLanguageLearner(len(samples))
	for language, name := range samples {
		size := 0
		for line, err := range Lines(w.input(name)) {
			if err != nil {
				return nil, err
			}
			learner.Add(language, line)
			if size += len(line); size > sampleLimit {
				break
			}
		}
	}
	return learner.Identifier(), nil
}

func (s *Source) pairs(w *work) iter.Seq2[pair, error] {
	if s.Corpus != "" {
		return pairs(w.input(s.Corpus))
	}
	return sideBySide(plain(w.input(s.Source)), plain(w.input(s.Target)))
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
	err = WriteText(output, func(out *bufio.Writer) error {
		var last string
		return sorter.Each(func(record []byte) error {
			text := string(record[8:])
			if text == last {
				k.counts.Reject(corpus.Duplicate)
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
			err = WriteText(f.path, func(out *bufio.Writer) error {
				_, err := out.WriteString(f.content.String())
				return err
			})
		}
	}
	if err == nil && k.counts.Kept == int64(k.heldBack+k.besideHeld) {
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
		k.heldBack++
		f.content.WriteString(text + "\n")
		return nil
	}
	if known {
		k.besideHeld++
		return nil
	}
	_, err := out.WriteString(text + "\n")
	return err
}
