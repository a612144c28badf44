package gpumodel

import (
	"errors"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// The encoder has a stream of its own, so that sentences can be encoded while others are decoded. A step waits for what its own rows came from, and
// for nothing that was encoded behind that. The other way round, an encode waits for a step only before it writes to memory where sentences were
// that are done (takeMemory): what it needs until then, activations and lists, the encoder's stream alone uses.
//
// Encodes are numbered, and the stream does them in order: who has waited for one has waited for all before it.

// openEncodes is of how many encodes the ends can be told apart. An older one's event has been recorded again since, further on in the same stream:
// who waits for it waits longer than needed, but never too short.
const openEncodes = 8

// encodes are the ends of what the encoder's stream was asked for.
type encodes struct {
	ends    [openEncodes]*cuda.Event
	newest  int // its number; 0 if there was none
	awaited int // the number of the newest one that the decoder's stream waits for
}

// end is where the encode of that number ends.
func (e *encodes) end(number int) *cuda.Event { return e.ends[number%openEncodes] }

// recordEncode ends an encode, of a source of these contexts.
func (s *Stepper) recordEncode(contexts []search.Context) error {
	e := &s.encodes
	e.newest++
	for _, handle := range contexts {
		s.contexts[handle].encode = e.newest
	}
	return s.encoding.stream.Record(e.end(e.newest))
}

// awaitEncodes lets the decoder's stream wait for the encodes that the rows of a turn came from.
func (s *Stepper) awaitEncodes(t *turn) error {
	needed := 0
	for i := range t.rows {
		needed = max(needed, s.contexts[t.rows[i].context].encode)
	}
	e := &s.encodes
	if needed <= e.awaited {
		return nil
	}
	e.awaited = needed
	return s.stream.Wait(e.end(needed))
}

// open makes the events.
func (e *encodes) open(c *cuda.Context) (err error) {
	for i := range e.ends {
		if e.ends[i], err = c.Event(); err != nil {
			return err
		}
	}
	return nil
}

// close gives them back.
func (e *encodes) close() error {
	var failed []error
	for i, end := range e.ends {
		if end != nil {
			failed = append(failed, end.Close())
			e.ends[i] = nil
		}
	}
	return errors.Join(failed...)
}
