// Package pipeline carries records from a source through a translator to a sink: in order, within a fixed budget of
// memory, and such that whatever is committed is complete.
package pipeline

import "github.com/sluice-mt/sluice/internal/job"

// A Translator is what the pipeline needs of the engine.
type Translator interface {
	// Submit queues a segment. It does not block: the pipeline bounds what is in flight by its own credits.
	Submit(segment job.Segment)

	// Flush says that no further segment is to be expected soon, so that what is queued should not wait for company.
	Flush()
}
