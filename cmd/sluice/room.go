package main

import (
	"io/fs"
	"log/slog"
	"runtime/debug"

	"github.com/sluice-mt/sluice/translator"
)

// Of the memory that a control group allows, the heap keeps below four fifths, and text in flight takes an eighth of that at most.
// Without a limit, and where there is enough, nothing is changed.
const (
	leastTextMemory = 4  // MiB
	mostTextMemory  = 64 // MiB, the pipeline's default
)

// fitMemory sizes what was left open for the memory that the process's control group allows: the garbage collector's goal, the text
// in flight, and the number of workers, of which there are never more than cores. The models have been loaded.
func fitMemory(root fs.FS, b *batchFlags, parts *engineParts, logger *slog.Logger) {
	limit := memoryLimit(root)
	if limit == 0 {
		return
	}
	goal := limit / 5 * 4
	if memoryGoal() == 0 {
		debug.SetMemoryLimit(goal)
	}
	if b.memory == 0 {
		b.memory = int(min(max(goal/8>>20, leastTextMemory), mostTextMemory))
	}
	if b.threads > 0 || len(parts.models.gpus) > 0 {
		return
	}
	batching := &parts.config.Batching
	room := goal - residentBytes() - int64(b.memory)<<20
	if fit := workersWithin(room, parts.models.workerBytes(*batching)); fit < batching.Workers {
		logger.Warn("fewer workers than cores: there is no memory for more", "workers", fit, "cores", batching.Workers, "limit MiB", limit>>20)
		batching.Workers = fit
	}
}

// workersWithin is how many workers a room has place for. One there has to be.
func workersWithin(room, worker int64) int { return int(max(room/worker, 1)) }

// waitingPieces is the length of an ordinary sentence: about as many pieces are held for each slot.
const waitingPieces = 32

// workerBytes is about the most that a worker takes beside the weights, which all share: for twice as many sentences as it has
// slots their keys and values for each decoder layer, the layers of a mini-batch, and the scores of all pieces of the vocabulary.
func (e *ensemble) workerBytes(b translator.Batching) int64 {
	const float = 4
	all := int64(0)
	for _, m := range e.models {
		width, layers := m.Dim, max(m.DecoderStack.Depth, 1)
		if m.Recurrence != nil {
			width, layers = max(m.Dim, m.Recurrence.Dim), 1
		}
		contexts := int64(2*b.Slots) * waitingPieces * int64(layers) * int64(2*width)
		arena := int64(b.MiniBatchTokens) * int64(2*max(m.EncoderStack.FFNDim, 4*width))
		all += float * (contexts + arena + int64(b.Slots)*int64(m.TargetVocabulary))
	}
	return all
}
