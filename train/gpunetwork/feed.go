package gpunetwork

import (
	"errors"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
)

// A feed is the memory of this machine for what a mini-batch brings to the device, and for what it takes from there. The driver copies it while other
// work goes on. There are two in turn, so that the processor asks for one mini-batch while the device works on the one before.
type feed struct {
	words      pinned[int32]
	numbers    pinned[float32]
	statistics pinned[gpukernels.Statistic]
	end        *cuda.Event // behind all that the mini-batch has asked for
	begun      bool        // the device may still be reading
	result     *result     // of the mini-batch, when the device has got to the end; nil for none
}

// begin makes room for a mini-batch like the one before. The device is done with that.
func (f *feed) begin(c *cuda.Context) (err error) {
	if f.end == nil {
		if f.end, err = c.Event(); err != nil {
			return err
		}
	}
	if err := errors.Join(f.words.begin(c), f.numbers.begin(c), f.statistics.begin(c)); err != nil {
		return err
	}
	f.begun = true
	return nil
}

func (f *feed) close(c *cuda.Context) error {
	failures := []error{f.words.free(c), f.numbers.free(c), f.statistics.free(c)}
	if f.end != nil {
		failures = append(failures, f.end.Close())
		f.end = nil
	}
	return errors.Join(failures...)
}

// pinned is memory that cannot be paged out. What does not fit is Go's, for which a copy waits.
type pinned[T any] struct {
	memory []T
	taken  int // with what did not fit
}

func (p *pinned[T]) take(n int) []T {
	from := p.taken
	p.taken += n
	if p.taken > len(p.memory) {
		return make([]T, n)
	}
	return p.memory[from:p.taken]
}

// begin lets all of it be taken again: as much as was taken before, and some more.
func (p *pinned[T]) begin(c *cuda.Context) error {
	wanted := p.taken
	p.taken = 0
	if wanted <= len(p.memory) {
		return nil
	}
	if err := p.free(c); err != nil {
		return err
	}
	var err error
	p.memory, err = cuda.AllocHost[T](c, wanted+wanted/4)
	return err
}

func (p *pinned[T]) free(c *cuda.Context) error {
	memory := p.memory
	if p.memory = nil; memory == nil {
		return nil
	}
	return cuda.FreeHost(c, memory)
}

// A result is what the device says of a mini-batch.
type result struct {
	loss       network.Loss // of which it says how much it is
	statistics []gpukernels.Statistic
	weights    []float32 // of the rows' losses; nil is 1 each
	alignment  []float32
	smoothing  float64
	vocabulary int
}

func (r *result) sum() network.Loss {
	for i, s := range r.statistics {
		of := s.Loss(r.smoothing, r.vocabulary)
		if len(r.weights) > 0 {
			of *= float64(r.weights[i])
		}
		r.loss.CrossEntropy += of
	}
	for _, of := range r.alignment {
		r.loss.Alignment += float64(of)
	}
	return r.loss
}

// feed is that of the mini-batch that is being asked for.
func (t *tape) feed() *feed { return &t.feeds[t.turn] }

// turnFeed goes on with the other feed, as soon as the device is done with what that was for.
func (t *tape) turnFeed() error {
	t.turn = 1 - t.turn
	if err := t.await(t.feed()); err != nil {
		return err
	}
	return t.feed().begin(t.context)
}

// await waits until the device is done with a feed, and notes the loss.
func (t *tape) await(f *feed) error {
	switch {
	case f.result != nil:
		if err := t.worker.wait(f.end.Synchronize); err != nil {
			return err
		}
		t.losses = append(t.losses, f.result.sum())
	case f.begun: // by a mini-batch that has failed, somewhere
		if err := t.worker.wait(t.stream.Synchronize); err != nil {
			return err
		}
	}
	f.result, f.begun = nil, false
	return nil
}

// takeLosses waits for all that was asked for, and returns the losses that nobody has taken, in the order of their mini-batches.
func (t *tape) takeLosses() ([]network.Loss, error) {
	for _, f := range []*feed{&t.feeds[1-t.turn], &t.feeds[t.turn]} {
		if err := t.await(f); err != nil {
			return nil, err
		}
	}
	losses := t.losses
	t.losses = nil
	return losses, nil
}

// forget drops the losses that nobody has taken, since one of their mini-batches has failed.
func (t *tape) forget() error {
	_, err := t.takeLosses()
	return err
}

// closeFeeds gives the feeds back, of which the device is done with all.
func (t *tape) closeFeeds() error {
	return errors.Join(t.feeds[0].close(t.context), t.feeds[1].close(t.context))
}

// put copies words to the device.
func (t *tape) put(list []int32) cuda.Pointer { return fed(t, &t.feed().words, list) }

// putNumbers copies numbers to the device.
func (t *tape) putNumbers(list []float32) cuda.Pointer { return fed(t, &t.feed().numbers, list) }

func fed[T int32 | float32](t *tape, through *pinned[T], list []T) cuda.Pointer {
	at := t.floats(len(list))
	staged := through.take(len(list))
	copy(staged, list)
	t.do(func() error { return cuda.CopyIn(t.stream, at, staged) })
	return at
}
