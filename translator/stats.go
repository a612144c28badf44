package translator

import (
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// Stats count what an engine has done so far, over all workers.
type Stats struct {
	Workers, Slots int   // slots of one worker
	Waiting        int   // sentences that wait to be encoded
	Sentences      int64 // encoded; one that is searched again counts again
	Tokens         int64 // source pieces encoded
	MiniBatches    int64
	Steps          int64 // of the decoders
	Rows           int64 // hypotheses that were advanced; divided by Steps and Slots it tells how full the decoders are
	Redone         int64 // sentences searched again without repetition
	Precise        int64 // sentences searched again in float32
	Returned       int64 // sentences that are translated again since a device failed

	Encode, Decode time.Duration // of workers
	Idle           time.Duration // that workers waited for sentences
}

// counters are what Stats are made of. They are touched once for a mini-batch or a step, and have lines of their own: what workers read all the
// time would leave their caches otherwise.
type counters struct {
	_ [cpu.LinePair]byte

	sentences, tokens, miniBatches, steps, rows, redone, precise, returned atomic.Int64
	encode, decode, idle                                                   atomic.Int64 // nanoseconds

	_ [cpu.LinePair]byte
}

// Stats returns the counts so far.
func (e *Engine) Stats() Stats {
	e.mutex.Lock()
	waiting := e.pool.Len() + len(e.urgent) + len(e.returned)
	e.mutex.Unlock()
	c := &e.counters
	return Stats{
		Workers: e.config.Batching.Workers, Slots: e.config.Batching.Slots, Waiting: waiting,
		Sentences: c.sentences.Load(), Tokens: c.tokens.Load(), MiniBatches: c.miniBatches.Load(),
		Steps: c.steps.Load(), Rows: c.rows.Load(), Redone: c.redone.Load(), Precise: c.precise.Load(), Returned: c.returned.Load(),
		Encode: time.Duration(c.encode.Load()), Decode: time.Duration(c.decode.Load()), Idle: time.Duration(c.idle.Load()),
	}
}

// since adds the time since start.
func since(start time.Time, to *atomic.Int64) { to.Add(int64(time.Since(start))) }
