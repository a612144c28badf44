package cuda

import (
	"errors"
	"fmt"
	"sync"
)

// pinnedMemory counts the memory of this machine that a driver keeps from being paged out, for all devices.
type pinnedMemory struct {
	mutex   sync.Mutex
	bytes   uint64
	highest uint64 // that bytes have been
	most    uint64 // 0: as much as the driver gives
}

// LimitPinned bounds the memory of this machine that AllocHost returns, for all devices together. What there is already stays.
func (d *Driver) LimitPinned(bytes uint64) {
	d.pinned.mutex.Lock()
	defer d.pinned.mutex.Unlock()
	d.pinned.most = bytes
}

// Pinned says how many bytes of AllocHost's memory there are, how many there have been at a time, and how many there may be, 0 if that is not limited.
func (d *Driver) Pinned() (now, highest, most uint64) {
	d.pinned.mutex.Lock()
	defer d.pinned.mutex.Unlock()
	return d.pinned.bytes, d.pinned.highest, d.pinned.most
}

// A PinnedError says that there is no more memory of this machine that the device can work with. It is an ErrOutOfMemory: with less, one can go on.
type PinnedError struct {
	Bytes  uint64 // that were asked for
	Pinned uint64 // that there are
	Most   uint64 // that there may be; 0 where the driver refused
	Err    error  // what the driver answered, or nil
}

func (e *PinnedError) Error() string {
	const advice = "fewer or smaller batches, slots and streams take less"
	if e.Err != nil {
		return fmt.Sprintf("the driver does not keep %d bytes more of this machine's memory from being paged out, beside the %d that it does: %v; "+
			"free memory, raise the limit of locked memory (ulimit -l) or that of the container: %s", e.Bytes, e.Pinned, e.Err, advice)
	}
	return fmt.Sprintf("%d bytes more of this machine's memory would be kept from being paged out, beside %d, and %d may be: %s", e.Bytes, e.Pinned, e.Most,
		advice)
}

func (e *PinnedError) Unwrap() error { return e.Err }

// Is tells errors.Is that this is an ErrOutOfMemory.
func (e *PinnedError) Is(target error) bool { return target == ErrOutOfMemory }

// take counts memory that is asked for.
func (p *pinnedMemory) take(bytes uint64) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.most > 0 && (bytes > p.most || p.bytes > p.most-bytes) {
		return &PinnedError{Bytes: bytes, Pinned: p.bytes, Most: p.most}
	}
	p.bytes += bytes
	p.highest = max(p.highest, p.bytes)
	return nil
}

// give takes memory from the count that is freed.
func (p *pinnedMemory) give(bytes uint64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.bytes -= bytes
}

// refused takes memory from the count that the driver did not give, and returns the error. If the device is lost, that is all there is to say.
func (p *pinnedMemory) refused(bytes uint64, err error) error {
	p.give(bytes)
	if !errors.Is(err, ErrOutOfMemory) {
		return fmt.Errorf("allocate %d bytes that cannot be paged out: %w", bytes, err)
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return &PinnedError{Bytes: bytes, Pinned: p.bytes, Err: err}
}
