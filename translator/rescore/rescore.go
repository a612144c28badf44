// Package rescore gives translations the log-probability that a model assigns to them, whichever system made them: n-best
// lists can be ranked anew with models that the search could not ask, such as those that write from right to left.
//
// The translations of a sentence are scored together. Where they begin alike their history is the same, so that the model is
// asked once: they form a tree of prefixes, and the decoder holds one hypothesis for each branch that is alive. What a
// translation scores depends on its sentence, its own text and the model alone, bit for bit: not on the rest of its list, the
// sizes of batches or the number of workers.
package rescore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-mt/sluice/translator/batch"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// Config is what a Scorer is made of.
type Config struct {
	Devices []Device // where the model runs

	Sources   []vocab.Vocabulary // one for each source that the model reads; none for a language model
	Target    vocab.Vocabulary
	RightLeft bool // the model reads and writes sentences back to front
	MaxLength int  // longest source and translation in pieces, end of sentence included; longer ones are cropped
}

// A Device is where some of the workers work.
type Device struct {
	// NewStepper is called once for each worker, one after the other. The model must suppress nothing. A Stepper whose device may fail says
	// so with a method Err, error being what happened; one that has something to give back has a method Close.
	NewStepper func(slots int) (search.Stepper, error)

	// What follows changes no score. Zero values are replaced.
	Workers         int     // goroutines with a Stepper each
	Slots           int     // branches that a worker decodes at a time
	TopUp           float64 // share of free slots at which they are filled again; 0 is the processor's
	MiniBatchTokens int     // source pieces that are encoded together

	// Encoded is for how many source pieces of encoded sentences, waiting or being decoded, a worker has memory when it encodes ahead of what its
	// slots need, as a device does that encodes beside its steps; 0: sentences are encoded when slots wait for them.
	Encoded int
}

// settled is a Device without zero values.
func (d Device) settled() Device {
	d.Workers = max(d.Workers, 1)
	if d.Slots < 1 {
		d.Slots = defaultSlots
	}
	if d.TopUp <= 0 {
		d.TopUp = batch.ProcessorTopUp
	}
	if d.MiniBatchTokens < 1 {
		d.MiniBatchTokens = defaultMiniBatchTokens
	}
	return d
}

// The sizes serve lists of about ten translations: their branches fill half of the slots on average.
const (
	defaultSlots           = 128
	defaultMiniBatchTokens = 512
)

// ErrConfig is wrapped by the errors of New.
var ErrConfig = errors.New("scorer settings")

// ErrSources is wrapped by the error about a source that does not hold a text for each source of the model.
var ErrSources = errors.New("number of source texts")

// A ListError says which list an error of Score is about.
type ListError struct {
	List int // its index
	Err  error
}

func (e *ListError) Error() string { return fmt.Sprintf("list %d: %v", e.List, e.Err) }

func (e *ListError) Unwrap() error { return e.Err }

// A DeviceError says that a device failed. Nothing that was asked for meanwhile has been scored; another Scorer may do it.
type DeviceError struct {
	Device int // its place among those of Config
	Err    error
}

func (e *DeviceError) Error() string { return fmt.Sprintf("device %d: %v", e.Device, e.Err) }

func (e *DeviceError) Unwrap() error { return e.Err }

// A List is translations of one sentence.
type List struct {
	Source       string // of a model with several sources: their texts with tabs between
	Translations []string
}

// A Score is what a model says about a translation.
type Score struct {
	LogProb float64   // natural logarithm of the translation's probability: the sum of Words; NaN where the arithmetic overflowed
	Words   []float32 // log-probability of each piece in the order of generation, end of sentence last
	Cropped bool      // the source or the translation was longer than the model may take: only its beginning was looked at
}

// A Scorer scores translations with one model. It may be used by one goroutine at a time.
type Scorer struct {
	config  Config
	widest  int // branches of a tree, at most: as many as any worker has slots for
	workers []*worker
}

// New returns a Scorer, which has to be closed. The error is a *DeviceError if a Stepper cannot be made.
func New(config Config) (*Scorer, error) {
	switch {
	case len(config.Devices) == 0 || config.Target == nil:
		return nil, fmt.Errorf("%w: a device and the target vocabulary are needed", ErrConfig)
	case config.MaxLength < 2:
		return nil, fmt.Errorf("%w: the longest sentence is %d pieces, but must be at least 2", ErrConfig, config.MaxLength)
	}
	s := &Scorer{config: config, widest: math.MaxInt}
	for number := range config.Devices {
		if err := s.addWorkers(number); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// addWorkers adds those of a device.
func (s *Scorer) addWorkers(number int) error {
	d := s.config.Devices[number].settled()
	s.widest = min(s.widest, d.Slots)
	for range d.Workers {
		stepper, err := d.NewStepper(d.Slots)
		if err != nil {
			return &DeviceError{number, err}
		}
		w := &worker{device: number, stepper: stepper, miniBatchTokens: d.MiniBatchTokens, encoded: d.Encoded}
		s.workers = append(s.workers, w)
		if err := s.ready(w, d.TopUp); err != nil {
			return err
		}
	}
	return nil
}

// ready checks a worker's model, and prepares the worker.
func (s *Scorer) ready(w *worker, topUp float64) error {
	if size := s.config.Target.Size(); w.stepper.Vocabulary() != size {
		return fmt.Errorf("%w: the model writes %d pieces, but its vocabulary has %d", ErrConfig, w.stepper.Vocabulary(), size)
	}
	return w.prepare(topUp)
}

// Close gives back what the Steppers have on their devices.
func (s *Scorer) Close() error {
	var failed []error
	for _, w := range s.workers {
		if c, ok := w.stepper.(io.Closer); ok {
			failed = append(failed, c.Close())
		}
	}
	s.workers = nil
	return errors.Join(failed...)
}

// Score scores the translations of all lists: the answers stand where the translations do. An error about what is in a list is
// a *ListError, that of a device that failed a *DeviceError.
func (s *Scorer) Score(ctx context.Context, lists []List) ([][]Score, error) {
	scores := make([][]Score, len(lists))
	trees := make([][]*tree, len(lists))
	err := s.parallel(ctx, len(lists), func(i int) error {
		var err error
		scores[i] = make([]Score, len(lists[i].Translations))
		if trees[i], err = s.trees(&lists[i], scores[i]); err != nil {
			return &ListError{i, err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := slices.Concat(trees...)
	slices.SortStableFunc(all, func(a, b *tree) int {
		return cmp.Or(cmp.Compare(b.longest(), a.longest()), cmp.Compare(len(b.source.Tokens), len(a.source.Tokens)))
	})
	if err := s.decode(ctx, all); err != nil {
		return nil, err
	}
	for _, list := range scores {
		for i := range list {
			for _, word := range list[i].Words {
				list[i].LogProb += float64(word)
			}
		}
	}
	return scores, nil
}

// parallel calls f for all numbers below n, from as many goroutines as there are workers.
func (s *Scorer) parallel(ctx context.Context, n int, f func(int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(n, len(s.workers)) {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// decode hands the trees out to the workers, in their order.
func (s *Scorer) decode(ctx context.Context, trees []*tree) error {
	group, ctx := errgroup.WithContext(ctx)
	from := &supply{trees: trees, others: len(s.workers) - 1}
	for _, t := range trees {
		from.longest = max(from.longest, t.source.Pieces())
	}
	for _, w := range s.workers {
		group.Go(func() error { return w.run(ctx, from) })
	}
	return group.Wait()
}

// A supply is trees that workers take one after another.
type supply struct {
	trees   []*tree
	longest int          // source pieces of a tree
	taken   atomic.Int64 // and more, when there are no trees any more
	others  int          // workers beside the one that takes
}

// next is the next tree, nil behind the last one.
func (s *supply) next() *tree {
	if i := int(s.taken.Add(1)) - 1; i < len(s.trees) {
		return s.trees[i]
	}
	return nil
}

// spares says whether a worker that is decoding so many trees may take others that it would not begin at once. The last ones are left to who can
// begin them: as many as all others could be decoding.
func (s *supply) spares(decoding int) bool {
	return len(s.trees)-int(s.taken.Load()) > s.others*decoding
}

// trees makes the trees of a list, usually one, whose results go to scores.
func (s *Scorer) trees(list *List, scores []Score) ([]*tree, error) {
	c := &s.config
	source, cropped, err := c.source(list.Source)
	if err != nil {
		return nil, err
	}
	leaves := make([]leaf, len(list.Translations))
	for i, text := range list.Translations {
		tokens, cut := c.encode(c.Target, text)
		leaves[i] = leaf{tokens: tokens, score: &scores[i]}
		scores[i].Words = make([]float32, 0, len(tokens))
		scores[i].Cropped = cropped || cut
	}
	slices.SortFunc(leaves, func(a, b leaf) int { return slices.Compare(a.tokens, b.tokens) })
	var trees []*tree
	for part := range slices.Chunk(leaves, s.widest) {
		trees = append(trees, newTree(source, part))
	}
	return trees, nil
}

// source encodes the text of all sources.
func (c *Config) source(text string) (source search.Source, cropped bool, err error) {
	if len(c.Sources) == 0 { // a language model looks at none
		return search.Source{Tokens: []search.Token{c.Target.EOS()}}, false, nil
	}
	texts := []string{text}
	if len(c.Sources) > 1 {
		texts = strings.Split(text, "\t")
	}
	if len(texts) != len(c.Sources) {
		return source, false, fmt.Errorf("%w: there are %d texts, separated by tabs, but the model reads %d", ErrSources, len(texts), len(c.Sources))
	}
	for i, vocabulary := range c.Sources {
		tokens, cut := c.encode(vocabulary, texts[i])
		cropped = cropped || cut
		if i == 0 {
			source.Tokens = tokens
		} else {
			source.Further = append(source.Further, tokens)
		}
	}
	return source, cropped, nil
}

// bytesPerPiece is more bytes than a piece stands for, but in texts that are cropped sooner for it.
const bytesPerPiece = 256

// encode returns the pieces of a text in the order of the model, end of sentence last, and whether there were more.
func (c *Config) encode(vocabulary vocab.Vocabulary, text string) (tokens []search.Token, cropped bool) {
	if most := bytesPerPiece * c.MaxLength; len(text) > most {
		text, cropped = strings.ToValidUTF8(text[:most], ""), true
	}
	tokens = vocabulary.Encode(text, nil)
	if len(tokens) > c.MaxLength-1 {
		tokens, cropped = tokens[:c.MaxLength-1], true
	}
	if c.RightLeft {
		slices.Reverse(tokens)
	}
	return append(tokens, vocabulary.EOS()), cropped
}
