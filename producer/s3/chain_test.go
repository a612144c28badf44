package s3

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

func newChainFixture(t testing.TB, chain Chain) *fixture {
	f := newFixture(t)
	f.config.Chain = &chain
	f.config.Input = nil
	return f
}

// content returns the lines of a chain's objects in the order of their keys.
func (f *fixture) content(t testing.TB) []string {
	t.Helper()
	lines := []string{}
	for _, key := range f.store.Keys(t, f.bucket, "out/topic/3/") {
		data, _ := f.store.Get(t, f.bucket, key)
		lines = append(lines, linesOf(t, data)...)
	}
	return lines
}

func records(from, to int) []string {
	lines := []string{}
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprint("record ", i))
	}
	return lines
}

func openChain(t testing.TB, sink *Sink) (producer.Writer, job.Position) {
	t.Helper()
	w, at, err := sink.Open(withTimeout(t), "topic/3")
	if err != nil {
		t.Fatal(err)
	}
	return w, at
}

// A commit creates an object only if the open one is old enough; what a commit was put off for is created in the end.
func TestObjectsOfAChainWaitForTheirAge(t *testing.T) {
	f := newChainFixture(t, Chain{Suffix: ".txt", Age: time.Minute})
	clock := time.Unix(1e9, 0)
	sink := f.sink(t)
	sink.now = func() time.Time { return clock }
	w, _ := openChain(t, sink)
	commit := func(want int) {
		t.Helper()
		at, err := w.Commit(withTimeout(t))
		if err != nil || at.Record != int64(want) {
			t.Errorf("committed up to %+v, want %d, %v", at, want, err)
		}
		if got := f.content(t); !slices.Equal(got, records(0, want)) {
			t.Errorf("%q can be seen, want %d", got, want)
		}
	}
	write := func(from, to int) {
		t.Helper()
		if err := w.Write(withTimeout(t), run(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 3)
	commit(0)
	clock = clock.Add(30 * time.Second)
	write(3, 5)
	commit(0)
	clock = clock.Add(30 * time.Second)
	commit(5)
	write(5, 9)
	commit(5)
	if err := w.Close(); err != nil { // creates what the last commit was put off for
		t.Fatal(err)
	}
	w, at := openChain(t, sink)
	if at.Record != 9 || !slices.Equal(f.content(t), records(0, 9)) {
		t.Errorf("the lane continues at %+v with %q", at, f.content(t))
	}
	write(9, 12)
	if err := w.Close(); err != nil { // there was no commit
		t.Fatal(err)
	}
	if _, at := openChain(t, sink); at.Record != 9 {
		t.Errorf("the lane continues at %+v", at)
	}
}

func TestALargeObjectOfAChainIsCreatedAtOnce(t *testing.T) {
	f := newChainFixture(t, Chain{Suffix: ".txt", Bytes: 1000, Age: time.Hour})
	w, _ := openChain(t, f.sink(t))
	if err := w.Write(withTimeout(t), run(0, 1000)); err != nil {
		t.Fatal(err)
	}
	for _, key := range f.store.Keys(t, f.bucket, "out/") {
		if data, _ := f.store.Get(t, f.bucket, key); len(data) > 1020 {
			t.Errorf("%s has %d bytes", key, len(data))
		}
	}
	if err := errors.Join(w.Finish(withTimeout(t)), w.Close()); err != nil || !slices.Equal(f.content(t), records(0, 1000)) {
		t.Errorf("%d records, %v", len(f.content(t)), err)
	}
}

// The end of a chain is found by halving where there are too many objects to list them.
func TestTheEndOfALongChain(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a thousand objects")
	}
	f := newChainFixture(t, Chain{Suffix: ".txt"})
	sink := f.sink(t)
	w, _ := openChain(t, sink)
	const n = mostListed + 150
	for i := range n {
		if err := w.Write(withTimeout(t), run(i, i+1)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(withTimeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	f.store.Put(t, f.bucket, "out/topic/3/_SUCCESS", nil) // of somebody else
	if _, at := openChain(t, sink); at.Record != n {
		t.Errorf("the lane continues at %+v", at)
	}
	c := &objects{sink: sink, bucket: f.bucket, folder: "out/topic/3/", suffix: ".txt"}
	for _, from := range []int64{0, 1, 500, n - 2} {
		if at, err := c.search(withTimeout(t), from); err != nil || at != n-1 {
			t.Errorf("the search from %d finds %d, %v", from, at, err)
		}
	}
}

func TestChainsThatCannotBeContinued(t *testing.T) {
	f := newChainFixture(t, Chain{Suffix: ".txt"})
	w, _ := openChain(t, f.sink(t))
	for i := range 3 {
		if err := w.Write(withTimeout(t), run(2*i, 2*i+2)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(withTimeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what, says string) {
		t.Helper()
		_, _, err := f.sink(t).Open(withTimeout(t), "topic/3")
		if err == nil && says != "" || err != nil && (says == "" || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.config.Chain = &Chain{Suffix: ".gz"}
	expect("another ending", `does not end in ".gz"`)
	f.config.Chain = &Chain{Suffix: ".txt"}
	f.config.MadeWith = map[string]string{"model": "m2"}
	expect("another model", "model was m1 and is now m2")
	f.config.Chain = &Chain{Suffix: ".txt", Continue: true}
	expect("another model, as wanted", "")
	f.store.Put(t, f.bucket, "out/topic/3/00000000000000000004.txt", []byte("foreign"))
	expect("an object that is not ours", "do not say that sluice has made it")
}

func TestALaneThatAChainCannotHold(t *testing.T) {
	f := newChainFixture(t, Chain{Suffix: ".txt"})
	for _, end := range []job.Position{{Record: 1, Input: 1, Offset: 5}, {Record: 1, Offset: 0}} {
		w, _ := openChain(t, f.sink(t))
		output := run(0, 1)
		output[0].Record.End = end
		if err := w.Write(withTimeout(t), output); err == nil {
			t.Errorf("a lane that goes on at %+v was accepted", end)
		}
		w.Close()
	}
}

// Many workers write one lane, each from where it finds the chain, and lose it to each other all the time.
func TestWorkersThatFightForAChain(t *testing.T) {
	f := newChainFixture(t, Chain{Suffix: ".txt"})
	f.config.DeadLetters = "s3://" + f.bucket + "/dead/"
	const n = 400
	var workers sync.WaitGroup
	var mutex sync.Mutex
	fenced := 0
	for worker := range 5 {
		sink := New(f.config).checked(t)
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		workers.Go(func() {
			for {
				done, lost, err := fight(sink, random, n)
				if err != nil {
					t.Error(err)
					return
				}
				if lost {
					mutex.Lock()
					fenced++
					mutex.Unlock()
				}
				if done {
					return
				}
			}
		})
	}
	workers.Wait()
	var want []string
	for i, line := range records(0, n) {
		if i%10 != 3 {
			want = append(want, line)
		}
	}
	if got := f.content(t); !slices.Equal(got, want) {
		t.Errorf("%d records, want %d, or other ones", len(got), len(want))
	}
	if _, _, err := New(f.config).checked(t).Open(withTimeout(t), "topic/3"); err != nil {
		t.Error(err)
	}
	letters := 0
	for _, key := range f.store.Keys(t, f.bucket, "dead/") {
		data, _ := f.store.Get(t, f.bucket, key)
		letters += len(linesOf(t, data))
	}
	if letters != n/10 {
		t.Errorf("%d dead letters, want %d", letters, n/10)
	}
	if fenced == 0 {
		t.Error("no worker was ever fenced")
	}
}

// fight writes until the lane is lost or complete.
func fight(sink *Sink, random *rand.Rand, n int) (done, lost bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w, at, err := sink.Open(ctx, "topic/3")
	if err != nil {
		return false, false, err
	}
	defer w.Close()
	for next := int(at.Record); next < n; {
		to := min(n, next+1+random.IntN(8))
		outputs := run(next, to)
		for i := range outputs {
			if outputs[i].Record.Seq%10 == 3 {
				outputs[i].Result.Err = errors.New("poison")
			}
		}
		err := w.Write(ctx, outputs)
		if err == nil {
			_, err = w.Commit(ctx)
		}
		if errors.Is(err, producer.ErrFenced) {
			return false, true, nil
		}
		if err != nil {
			return false, false, err
		}
		next = to
	}
	return true, false, nil
}

// The letters of a loser must not outlive it, and those of the winner must.
func TestLettersOfAWriterThatLost(t *testing.T) {
	f := newChainFixture(t, Chain{Suffix: ".txt"})
	f.config.DeadLetters = "s3://" + f.bucket + "/dead/"
	outputs := run(0, 2)
	outputs[0].Result.Err = errors.New("poison")
	first, _ := openChain(t, f.sink(t))
	second, _ := openChain(t, f.sink(t))
	for _, w := range []producer.Writer{first, second} {
		if err := w.Write(withTimeout(t), outputs); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := first.Commit(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Commit(withTimeout(t)); !errors.Is(err, producer.ErrFenced) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Error(err)
	}
	keys := f.store.Keys(t, f.bucket, "dead/")
	info, err := f.config.Client.Head(withTimeout(t), f.bucket, "out/topic/3/00000000000000000000.txt")
	if err != nil {
		t.Fatal(err)
	}
	if want := "dead/topic/3/00000000000000000000." + info.Metadata[metaWriter] + ".jsonl"; !slices.Equal(keys, []string{want}) {
		t.Errorf("%q, want %s", keys, want)
	}
}
