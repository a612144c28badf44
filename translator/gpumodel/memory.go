package gpumodel

import (
	"errors"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// A buffer is memory of the device that grows. What was in it is lost then.
type buffer struct {
	at    cuda.Pointer
	bytes int
}

// reserve makes room for a number of bytes.
func (b *buffer) reserve(c *cuda.Context, bytes int) error {
	if bytes <= b.bytes {
		return nil
	}
	if err := c.Free(b.at); err != nil {
		return err
	}
	*b = buffer{}
	at, err := cuda.Alloc[byte](c, bytes)
	if err == nil {
		*b = buffer{at, bytes}
	}
	return err
}

// extend makes room and keeps what there was, and where it was if it cannot. streams are all that work on it.
func (b *buffer) extend(c *cuda.Context, bytes int, streams ...*cuda.Stream) error {
	if bytes <= b.bytes {
		return nil
	}
	bytes = max(bytes, 2*b.bytes)
	at, err := cuda.Alloc[byte](c, bytes)
	if err != nil {
		return err
	}
	if b.at != 0 {
		if err := b.copyTo(at, streams); err != nil {
			return errors.Join(err, c.Free(at))
		}
	}
	old := b.at
	*b = buffer{at, bytes}
	return c.Free(old)
}

// copyTo copies what there is to another place, after the work of the streams.
func (b *buffer) copyTo(at cuda.Pointer, streams []*cuda.Stream) error {
	for _, s := range streams {
		if err := s.Synchronize(); err != nil {
			return err
		}
	}
	if err := streams[0].Copy(at, b.at, b.bytes); err != nil {
		return err
	}
	return streams[0].Synchronize()
}

// A run is contiguous rows.
type run struct{ first, count int }

// A pool lends contiguous rows of the memory for keys and values.
type pool struct {
	memory buffer
	width  int // bytes of a row
	rows   int
	free   []run // ascending and not touching each other
}

// minRows is what the pool begins with.
const minRows = 1024

// take lends the first run that is long enough, and makes the memory larger if there is none.
func (p *pool) take(c *cuda.Context, rows int, streams ...*cuda.Stream) (int, error) {
	for i := range p.free {
		f := &p.free[i]
		if f.count < rows {
			continue
		}
		first := f.first
		f.first, f.count = f.first+rows, f.count-rows
		if f.count == 0 {
			p.free = slices.Delete(p.free, i, i+1)
		}
		return first, nil
	}
	more := max(rows, p.rows, minRows)
	if err := p.memory.extend(c, (p.rows+more)*p.width, streams...); err != nil {
		return 0, err
	}
	p.give(run{p.rows, more})
	p.rows += more
	return p.take(c, rows, streams...)
}

// give takes a run, or a part of it, back.
func (p *pool) give(r run) {
	if r.count == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(p.free, r.first, func(f run, first int) int { return f.first - first })
	p.free = slices.Insert(p.free, i, r)
	if i+1 < len(p.free) && r.first+r.count == p.free[i+1].first {
		p.free[i].count += p.free[i+1].count
		p.free = slices.Delete(p.free, i+1, i+2)
	}
	if i > 0 && p.free[i-1].first+p.free[i-1].count == p.free[i].first {
		p.free[i-1].count += p.free[i].count
		p.free = slices.Delete(p.free, i, i+1)
	}
}

// A shelf is memory of this machine that the device reads.
type shelf struct {
	host []int32     // nil at first
	read *cuda.Event // when the device has read host
}

// reserve makes room for so many numbers. What was there is lost, once the device has read it.
func (h *shelf) reserve(c *cuda.Context, n int) error {
	if h.read == nil {
		var err error
		if h.read, err = c.Event(); err != nil {
			return err
		}
	}
	if n <= len(h.host) {
		return nil
	}
	n = max(n, 2*len(h.host), 1024)
	if err := h.close(c); err != nil {
		return err
	}
	var err error
	if h.read, err = c.Event(); err != nil {
		return err
	}
	h.host, err = cuda.AllocHost[int32](c, n)
	return err
}

// close frees everything, once the device has read what there was, or has failed.
func (h *shelf) close(c *cuda.Context) error {
	var failed []error
	if h.read != nil {
		failed = append(failed, h.read.Synchronize(), h.read.Close())
	}
	failed = append(failed, freeHost(c, h.host))
	*h = shelf{}
	return errors.Join(failed...)
}

// A feed carries small lists of numbers to the device, all of a call at once.
type feed struct {
	shelf
	device buffer
}

// put returns where the lists are on the device. They stay there until the next put.
func (f *feed) put(c *cuda.Context, s *cuda.Stream, lists ...[]int32) ([]cuda.Pointer, error) {
	n := 0
	for _, list := range lists {
		n += len(list) + 1 // an empty list has an address, too
	}
	if n > len(f.host) { // work may be using the old lists
		if err := s.Synchronize(); err != nil {
			return nil, err
		}
	}
	if err := f.reserve(c, n); err != nil {
		return nil, err
	}
	if err := f.read.Synchronize(); err != nil {
		return nil, err
	}
	places, at := make([]cuda.Pointer, len(lists)), 0
	for i, list := range lists {
		places[i] = cuda.Offset[int32](f.device.at, at)
		at += copy(f.host[at:], list)
		f.host[at] = 0
		at++
	}
	if err := cuda.CopyIn(s, f.device.at, f.host[:at]); err != nil {
		return nil, err
	}
	return places, s.Record(f.read)
}

// reserve makes room for so many numbers, here and on the device.
func (f *feed) reserve(c *cuda.Context, n int) error {
	if err := f.shelf.reserve(c, n); err != nil {
		return err
	}
	return f.device.reserve(c, 4*len(f.host))
}

// Sizes of batches for a GPU. They are estimates that keep a card busy and its memory bounded; what does not fit after all is halved by
// the engine.
const (
	mostSlots, fewestSlots = 512, 16
	tokensOfSlot           = 16 // source tokens encoded at a time for each slot
	tokensKept             = 64 // source tokens, of each source, whose keys and values are kept for each slot
)

// TopUp is the share of free slots at which the slots of a GPU are best filled again. It is less than the processor's: the step of a GPU
// costs nearly as much with fewer hypotheses.
const TopUp = 0.25

// Encoded is for how many source tokens, of all sources, a worker with so many slots has memory, those of sentences that are being decoded included: the
// encoder may be as far ahead.
func Encoded(slots, sources int) int { return slots * tokensKept * max(1, sources) }

// MiniBatch is how many source tokens, of all sources, a worker with so many slots encodes at a time. It could be as many of each, since one is encoded
// after another, but a text may have all of them.
func MiniBatch(slots int) int { return slots * tokensOfSlot }

// A Sharing says what shares the memory of a device.
type Sharing struct {
	Workers int
	Models  int  // that each worker runs together, all of them like one
	Joint   bool // one model samples, or has noisy beams, among all tokens, whose scores are kept then as those of several models always are
}

// Sources is how many sources the model reads.
func (w *Weights) Sources() int { return len(w.encoders) }

// Batch returns how many slots, and how many source tokens at a time, each worker should have: as many as keep a GPU busy, less if its free memory
// is little.
func (w *Weights) Batch(by Sharing) (slots, tokens int) {
	room := w.room(by)
	slots = mostSlots
	for slots > fewestSlots && slots > room {
		slots /= 2
	}
	return slots, MiniBatch(slots)
}

// Fits says whether there is memory for as many slots of each worker.
func (w *Weights) Fits(by Sharing, slots int) bool { return slots <= w.room(by) }

// room is for how many slots of each worker half of the free memory is enough.
func (w *Weights) room(by Sharing) int {
	free := w.device.properties.Memory / 2
	_ = w.device.bound(func() error { // if nobody knows, half of the memory is the guess
		if now, _, err := w.device.context.Memory(); err == nil {
			free = now
		}
		return nil
	})
	free -= min(free, uint64(2*by.Workers*by.Models*w.workspace))
	slot := (1+tokensOfSlot)*w.rowBytes() + 2*w.contextWidth()*max(1, len(w.encoders))*tokensKept + 8*w.decoderLayers()*w.layerState +
		2*turns*w.dim + w.vocabulary
	if w.autoreg == model.SelfAttention {
		slot += 2 * w.wordWidth() * tokensKept
	}
	return slotsWithin(int(free/2/uint64(by.Workers)), by.Models*slot, w.jointBytes(by))
}

// slotsWithin is how many slots so many bytes are enough for, if each takes some bytes, and the first jointlyScored take more.
func slotsWithin(bytes, slot, more int) int {
	if slots := bytes / (slot + more); slots < jointlyScored {
		return slots
	}
	return (bytes - jointlyScored*more) / slot
}
