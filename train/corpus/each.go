package corpus

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// batchSize is how many pairs a worker gets at a time.
const batchSize = 256

// A batch is some consecutive pairs. done is closed when they are cleaned.
type batch struct {
	pairs   []Pair
	reasons []Reason
	done    chan struct{}
}

// Each cleans the pairs that read yields with so many workers, and calls f for each pair in order, with the reason to leave it
// out. read is called from another goroutine; it stops at the first error of yield and returns it. No more than a few hundred
// pairs for each worker are in memory.
func (c *Cleaner) Each(ctx context.Context, workers int, read func(ctx context.Context, yield func(Pair) error) error, f func(Pair, Reason) error) error {
	group, ctx := errgroup.WithContext(ctx)
	todo, inOrder := make(chan *batch, workers), make(chan *batch, 2*workers)
	group.Go(func() error {
		defer close(todo)
		defer close(inOrder)
		return distribute(ctx, read, todo, inOrder)
	})
	for range workers {
		group.Go(func() error {
			for b := range todo {
				for k := range b.pairs {
					b.reasons = append(b.reasons, c.Clean(&b.pairs[k]))
				}
				close(b.done)
			}
			return nil
		})
	}
	group.Go(func() error {
		for b := range inOrder {
			select {
			case <-b.done:
			case <-ctx.Done(): // what is not sent to a worker is never done
				return context.Cause(ctx)
			}
			for k, pair := range b.pairs {
				if err := f(pair, b.reasons[k]); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return group.Wait()
}

// distribute sends what is read to the workers, and in the order of reading.
func distribute(ctx context.Context, read func(context.Context, func(Pair) error) error, todo, inOrder chan<- *batch) error {
	pairs := make([]Pair, 0, batchSize)
	send := func() error {
		b := &batch{pairs: pairs, done: make(chan struct{})}
		pairs = make([]Pair, 0, batchSize)
		for _, channel := range []chan<- *batch{inOrder, todo} {
			select {
			case channel <- b:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
	err := read(ctx, func(p Pair) error {
		if pairs = append(pairs, p); len(pairs) == batchSize {
			return send()
		}
		return nil
	})
	if err == nil && len(pairs) > 0 {
		err = send()
	}
	return err
}
