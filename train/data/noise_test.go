package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/train/corpus"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// noisy reads 1,000 numbered pairs, of which about 300 are in capitals in each epoch: the vocabulary has each word in both ways.
// Every pair has an alignment and a weight of its own.
func noisy(t *testing.T, change func(*Config)) *Corpus {
	t.Helper()
	const pairs = 1000
	var words, source, target, points, weights strings.Builder
	words.WriteString("</s>: 0\n<unk>: 1\n")
	for i := range pairs {
		fmt.Fprintf(&words, "w%d: %d\nW%d: %d\nx: %d\nX: %d\n", i, 2*i+2, i, 2*i+3, 2*pairs+2, 2*pairs+3)
		fmt.Fprintf(&source, "w%d x x\n", i)
		fmt.Fprintf(&target, "x w%d\n", i)
		fmt.Fprintf(&points, "0-1\n")
		fmt.Fprintf(&weights, "%d\n", 1+i%7)
	}
	v, err := vocab.Open(write(t, "vocab.yml", onlyOnce(words.String())))
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Source: v, Target: v, MaxLength: 50, Memory: 1 << 30, Temporary: t.TempDir(), Noise: &corpus.Noise{Seed: 3, Upper: 0.3},
		Files: Files{
			Source: write(t, "x", source.String()), Target: write(t, "y", target.String()),
			Alignment: write(t, "a", points.String()), Weights: write(t, "w", weights.String()),
		},
	}
	change(&c)
	read, err := Read(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := read.Close(); err != nil {
			t.Error(err)
		}
	})
	return read
}

// onlyOnce removes lines that came before.
func onlyOnce(text string) string {
	lines := strings.SplitAfter(text, "\n")
	seen := map[string]bool{}
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		again := seen[line]
		seen[line] = true
		return again
	}), "")
}

// capitals returns which pairs of the epochs from a position on are in capitals, and checks everything else.
func capitals(t *testing.T, c *Corpus, from Position, epochs int) []map[int32]bool {
	t.Helper()
	batches, err := c.Batches(Batching{Budget: Budget{Sentences: 1}, Maxi: 10, Seed: 1}, from)
	if err != nil {
		t.Fatal(err)
	}
	found := make([]map[int32]bool, epochs)
	for i := range found {
		found[i] = map[int32]bool{}
	}
	var b network.Batch
	for {
		position, err := batches.Peek()
		if err != nil {
			t.Fatal(err)
		}
		if position.Epoch == epochs {
			return found
		}
		if err := batches.Next(&b); err != nil {
			t.Fatal(err)
		}
		number, capital := (b.Source.Tokens[0]-2)/2, b.Source.Tokens[0]%2 == 1
		x := int32(2*c.Stats.Pairs + 2)
		word := 2*number + 2
		if capital {
			found[position.Epoch][number] = true
			x, word = x+1, word+1
		}
		weight := float32(1 + number%7)
		if !slices.Equal(b.Source.Tokens, []int32{word, x, x, 0}) || !slices.Equal(b.Target.Tokens, []int32{x, word, 0}) ||
			(len(b.Alignment) == 1) == capital || !slices.Equal(b.Weights, []float32{weight, weight, weight}) {
			t.Fatalf("pair %d is %v, %v, aligned %v, weights %v", number, b.Source.Tokens, b.Target.Tokens, b.Alignment, b.Weights)
		}
	}
}

// TestNoise wants other pairs to be changed in each epoch, the same ones whatever the memory, and after an interruption.
func TestNoise(t *testing.T) {
	whole := capitals(t, noisy(t, func(*Config) {}), Position{}, 2)
	for epoch, changed := range whole {
		if n := len(changed); n < 230 || n > 370 {
			t.Errorf("epoch %d changes %d of 1,000 pairs, want about 300", epoch, n)
		}
	}
	both := 0
	for number := range whole[0] {
		if whole[1][number] {
			both++
		}
	}
	if both < 40 || both > 150 {
		t.Errorf("%d pairs are changed in both epochs, want about 90", both)
	}
	small := capitals(t, noisy(t, func(c *Config) { c.Memory = 1 << 10 }), Position{}, 2)
	for epoch := range whole {
		if len(small[epoch]) != len(whole[epoch]) {
			t.Errorf("with little memory, epoch %d changes %d pairs, else %d", epoch, len(small[epoch]), len(whole[epoch]))
		}
	}
	late := capitals(t, noisy(t, func(*Config) {}), Position{Epoch: 1, Batch: 400}, 2)
	for number := range late[1] {
		if !whole[1][number] {
			t.Errorf("after an interruption pair %d is changed", number)
		}
	}
}

// TestNoiseKeepsWhatIsTooLong wants pairs to stay as they are that noise would make longer than the limit.
func TestNoiseKeepsWhatIsTooLong(t *testing.T) {
	v := letters(t)
	c := Config{Source: v, Target: v, MaxLength: 4, Noise: &corpus.Noise{Upper: 1}, Memory: 1 << 20,
		Files: Files{Source: write(t, "x", "w1 w2 w3\n"), Target: write(t, "y", "w1\n")}}
	read, err := Read(c)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p := Pair{Source: []int32{3, 4, 5, 0}, Target: []int32{3, 0}, texts: [2][]byte{[]byte("w1 w2 w3"), []byte("w1")}}
	read.config.disturb(&p, 0)
	if !slices.Equal(p.Source, []int32{1, 1, 1, 0}) || !slices.Equal(p.Target, []int32{1, 0}) {
		t.Errorf("in capitals it is %v, %v", p.Source, p.Target)
	}
	p = Pair{Source: []int32{3, 0}, texts: [2][]byte{[]byte("w1 w2 w3 w4"), []byte("w1")}}
	read.config.disturb(&p, 0)
	if !slices.Equal(p.Source, []int32{3, 0}) {
		t.Errorf("a pair that is too long becomes %v", p.Source)
	}
}
