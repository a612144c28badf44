//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// Whichever call of the driver fails, and when it does: that is an error at most, no score is wrong, and nothing stays on the device.
func TestAnyCallFails(t *testing.T) {
	at := library(t, emulated.Unwatched)
	driver, err := cuda.Open(at)
	must(t, err)
	m, source := randomModel(t, small("")), randomSources(5, 6)
	want, err := translateOnce(driver, m, source, at)
	must(t, err)
	failed, calls := 0, emulated.FailingCalls()
	for call, code := range calls {
		for _, nth := range []int{1, 5, 21} { // each second cuCtxSetCurrent unbinds
			free := freeOn(t, driver)
			setEmulated(t, "fault", fmt.Sprintf("%s:%d:%d", call, nth, code), "")
			got, err := translateOnce(driver, m, source, at)
			setEmulated(t, "fault", "", "")
			if err != nil {
				failed++
			} else if !slices.Equal(got, want) {
				t.Errorf("call %d of %s fails: no error, and the scores are %v, want %v", nth, call, got, want)
			}
			// Where the context cannot be bound, memory cannot be freed either: the driver does so when the device is given back.
			if left := freeOn(t, driver); left != free && call != "cuCtxSetCurrent" {
				t.Errorf("call %d of %s fails (%v), and %d bytes stay on the device", nth, call, err, free-left)
			}
			if err == nil && !emulated.Dispensable(call) {
				break // it is not made so often
			}
		}
	}
	if failed < len(calls) {
		t.Errorf("%d translations failed, of %d calls", failed, len(calls))
	}
}

// translateOnce returns the best scores of two steps, of which the second is run ahead.
func translateOnce(driver *cuda.Driver, m *model.Model, sources []search.Source, library string) (scores []search.Scored, err error) {
	d, err := Open(driver, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.UseBLAS(library); err != nil {
		return nil, err
	}
	w, err := d.Load(m, Options{Tuning: &Tuning{Way: gpukernels.MeasuredProducts, Known: gpukernels.ProductTuning{}, Time: 50 * time.Millisecond}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	s, err := w.NewStepper(2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	contexts, slots, tokens := make([]search.Context, len(sources)), []search.Slot{0, 1}, []search.Token{search.NoToken, search.NoToken}
	s.Encode(sources, contexts)
	for i, context := range contexts {
		s.Begin(slots[i], context)
	}
	for range 2 {
		s.Step(slots, tokens, false)
		s.Foresee(greedily(2))
		best := make([]search.Scored, 2)
		s.Best([]int32{0, 1}, nil, best)
		scores, tokens = append(scores, best...), []search.Token{best[0].Token, best[1].Token}
		if s.Err() != nil {
			break
		}
	}
	for _, context := range contexts {
		s.Release(context)
	}
	return scores, s.Err()
}

// freeOn is what is free on the first device.
func freeOn(t *testing.T, driver *cuda.Driver) uint64 {
	t.Helper()
	c, err := driver.Context(0)
	must(t, err)
	release, err := c.Bind()
	must(t, err)
	defer release()
	free, _, err := c.Memory()
	must(t, err)
	must(t, c.Close())
	return free
}

// A shelf is given back even if the device fails before it has read what is there.
func TestShelfOfFailedDevice(t *testing.T) {
	d := openDevice(t)
	must(t, d.bound(func() error {
		var h shelf
		must(t, h.reserve(d.context, 5))
		was := h.host
		setEmulated(t, "fault", "cuEventSynchronize:1:700", "")
		if err := h.close(d.context); err == nil || h.read != nil || h.host != nil {
			t.Errorf("%v, and %+v is kept", err, h)
		}
		if cuda.FreeHost(d.context, was) == nil {
			t.Error("the memory was not freed")
		}
		return nil
	}))
}

// Memory that cannot grow, since the device fails while what is there is copied, stays what it was, and is given back as such.
func TestExtensionOnFailedDevice(t *testing.T) {
	d := openDevice(t)
	free := func() uint64 {
		free, _, err := d.context.Memory()
		must(t, err)
		return free
	}
	must(t, d.bound(func() error {
		stream, err := d.context.Stream()
		must(t, err)
		before := free()
		for _, fault := range []string{"cuStreamSynchronize:1:700", "cuStreamSynchronize:2:700", "cuMemcpyDtoDAsync:1:700"} {
			var b buffer
			must(t, b.extend(d.context, 1000, stream))
			was, left := b, free()
			setEmulated(t, "fault", fault, "")
			if err := b.extend(d.context, 3000, stream); err == nil || b != was || free() != left {
				t.Errorf("%s: %v, %+v is now %+v, and %d bytes are lost", fault, err, was, b, left-free())
			}
			must(t, d.context.Free(b.at))
		}
		if after := free(); after != before {
			t.Errorf("%d bytes stay on the device", before-after)
		}
		return stream.Close()
	}))
}
