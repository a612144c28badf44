package pieces

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"unicode"

	"golang.org/x/sync/errgroup"
)

// A Corpus gives the sentences of a text, the same ones in the same order each time it is called. It stops at the
// first error of yield and returns it.
type Corpus func(yield func(sentence string) error) error

// A tally counts the words and characters of a text.
type tally struct {
	words      map[string]int64
	characters []int64 // by code point
	sentences  int64
	total      int64 // characters
	tooLong    int64 // sentences that were left out
	forgotten  int64 // words, each as often as it occurred
}

func newTally() *tally {
	return &tally{words: map[string]int64{}, characters: make([]int64, unicode.MaxRune+1)}
}

// A chunk is a part of the corpus that one worker counts.
type chunk struct {
	sentences []string
	words     map[string]int64
	text      []byte // normalised, for the characters
	counted   chan struct{}
}

// chunkSize is the number of sentences of a chunk. Where words are forgotten depends on it, so that it is the same always.
const chunkSize = 4096

// count counts the corpus, or the sample of it that the options ask for.
func count(ctx context.Context, corpus Corpus, options *Options, d *divider, logger *slog.Logger) (*tally, error) {
	t := newTally()
	sample, err := newSample(ctx, corpus, options)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	inOrder := make(chan *chunk, 2*options.Workers) // as they were read
	toCount := make(chan *chunk, options.Workers)
	group.Go(func() error {
		defer close(inOrder)
		defer close(toCount)
		return t.read(ctx, corpus, sample, options.Spec.MaxSentenceLength, inOrder, toCount)
	})
	for range options.Workers {
		group.Go(func() error {
			for c := range toCount {
				c.count(d)
			}
			return nil
		})
	}
	group.Go(func() error {
		for c := range inOrder {
			select {
			case <-c.counted:
			case <-ctx.Done():
				return ctx.Err()
			}
			t.add(c, options.MaxWords)
			if before := t.sentences - int64(len(c.sentences)); before/1_000_000 < t.sentences/1_000_000 {
				logger.Info("counting words", "sentences", t.sentences, "words", len(t.words))
			}
		}
		return nil
	})
	return t, group.Wait()
}

// read divides the sample of the corpus into chunks.
func (t *tally) read(ctx context.Context, corpus Corpus, sample *sample, longest int, inOrder, toCount chan<- *chunk) error {
	c := &chunk{}
	send := func() error {
		c.counted = make(chan struct{})
		for _, to := range []chan<- *chunk{inOrder, toCount} {
			select {
			case to <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c = &chunk{}
		return nil
	}
	err := corpus(func(sentence string) error {
		if len(sentence) > longest {
			t.tooLong++
			return nil
		}
		if sentence == "" || !sample.takes() {
			return nil
		}
		if c.sentences = append(c.sentences, sentence); len(c.sentences) == chunkSize {
			return send()
		}
		return nil
	})
	if err == nil && len(c.sentences) > 0 {
		err = send()
	}
	return err
}

// count normalises the sentences and counts their words.
func (c *chunk) count(d *divider) {
	defer close(c.counted)
	c.words = map[string]int64{}
	var scratch []byte
	var text string
	for _, sentence := range c.sentences {
		text, scratch = d.normalized(scratch, sentence)
		c.text = append(c.text, text...)
		d.words(text, func(word string) { c.words[word]++ })
	}
}

// add adds what a chunk has counted. When there are too many words the rarest are forgotten.
func (t *tally) add(c *chunk, maxWords int) {
	t.sentences += int64(len(c.sentences))
	for _, r := range string(c.text) {
		if r != 0 && r != boundaryRune && r != unicode.ReplacementChar {
			t.characters[r]++
			t.total++
		}
	}
	for word, n := range c.words {
		t.words[word] += n
	}
	if len(t.words) > maxWords {
		t.forget(maxWords / 2)
	}
}

// forget removes all words that occurred at most as often as it takes to keep no more than so many.
func (t *tally) forget(keep int) {
	counts := slices.Sorted(maps.Values(t.words))
	least := counts[len(counts)-1-keep]
	maps.DeleteFunc(t.words, func(_ string, n int64) bool {
		if n <= least {
			t.forgotten += n
		}
		return n <= least
	})
}

// A sample decides which sentences are taken.
type sample struct {
	random         *rand.Rand
	wanted, coming int64
}

// newSample counts the sentences if only some of them are wanted.
func newSample(ctx context.Context, corpus Corpus, options *Options) (*sample, error) {
	s := &sample{wanted: int64(options.Spec.InputSentenceSize)}
	if s.wanted == 0 {
		return s, nil
	}
	s.random = rand.New(rand.NewPCG(options.Seed, 0))
	err := corpus(func(sentence string) error {
		if sentence != "" && len(sentence) <= options.Spec.MaxSentenceLength {
			s.coming++
		}
		return ctx.Err()
	})
	return s, err
}

func (s *sample) takes() bool {
	if s.random == nil {
		return true
	}
	takes := s.coming > 0 && s.random.Int64N(s.coming) < s.wanted
	s.coming--
	if takes {
		s.wanted--
	}
	return takes
}

// alphabet returns the characters that become pieces, ascending: those that are required, and the most frequent ones until they
// make up as much of the text as is to be covered.
func (t *tally) alphabet(required string, coverage float64) []rune {
	asked := map[rune]bool{}
	for _, r := range required {
		asked[r] = true
	}
	var characters []rune
	for r, n := range t.characters {
		if n > 0 || asked[rune(r)] {
			characters = append(characters, rune(r))
		}
	}
	slices.SortFunc(characters, func(a, b rune) int {
		switch {
		case asked[a] && !asked[b]:
			return -1
		case asked[b] && !asked[a]:
			return 1
		}
		return cmp.Or(cmp.Compare(t.characters[b], t.characters[a]), cmp.Compare(a, b))
	})
	covered := int64(0)
	for i, r := range characters {
		if !asked[r] && float64(covered) >= coverage*float64(t.total) {
			characters = characters[:i]
			break
		}
		covered += t.characters[r]
	}
	slices.Sort(characters)
	return characters
}
