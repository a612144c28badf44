package main

import "testing"

// A sentence gets no more cores than the process has, unless more are asked for.
func TestSentenceCoresOfTheMachine(t *testing.T) {
	for _, c := range []struct{ threads, asked, cores, want int }{{0, 0, 4, 4}, {2, 0, 4, 2}, {8, 0, 2, 2}, {8, 3, 2, 3}, {8, 1, 2, 1}} {
		f := batchFlags{threads: c.threads, sentenceCores: c.asked}
		if got := f.batching(c.cores).SentenceCores; got != c.want {
			t.Errorf("%d workers on %d cores, %d asked for a sentence: %d, want %d", c.threads, c.cores, c.asked, got, c.want)
		}
	}
}
