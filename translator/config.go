package translator

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// ErrConfig is wrapped by the errors of New that say which setting makes no sense.
var ErrConfig = errors.New("engine settings")

// Models make the device's side of the engine. NewSteppers is called once for each worker and returns one Stepper for
// each model of the ensemble, all with that many slots. Calls may overlap: workers that take over from a device that is lost are
// made while a sentence begins to be searched in float32.
type Models interface {
	NewSteppers(slots int) []search.Stepper
}

// Text says how text becomes pieces and back.
type Text struct {
	Source, Target vocab.Vocabulary
	// Further are the vocabularies of the second source and those after it, for models that have several. The text of a segment
	// then holds a text for each source, separated by tabs.
	Further    []vocab.Vocabulary
	Shortlist  *shortlist.Shortlist // nil scores the whole vocabulary
	RightLeft  bool                 // the models read and write sentences back to front
	Pieces     bool                 // the input is in pieces already, separated by spaces
	KeepPieces bool                 // results hold the target pieces beside the text
	MaxLength  int                  // longest source in pieces, end of sentence included; longer ones are divided
	Crop       bool                 // crop longer sources instead
}

// Batching sizes the batches. Translations never depend on it. Zero values are replaced by Automatic's.
type Batching struct {
	Workers         int           // goroutines with a decoder each
	Slots           int           // hypotheses decoded at a time by a worker
	TopUp           float64       // share of free slots at which they are filled again; 0 is what suits the device
	MiniBatchTokens int           // source pieces of one encoder batch
	MiniBatchLines  int           // sentences of one encoder batch
	MaxiBatch       int           // sentences that are sorted together
	Unsorted        bool          // keep the order of arrival
	Latency         time.Duration // how long a sentence waits for company
	SentenceCores   int           // that may work for one worker while others have nothing to do, where that is faster
}

// Config is what an Engine is made of.
type Config struct {
	Models  Models
	Weights []float32 // of the models in an ensemble; nil is 1 each
	// Precise, if not nil, gives models in float32 for the rare sentence whose arithmetic overflows in Models'.
	Precise func() (Models, error)
	// Devices, if there are any, translate in place of Models. Once all of them have failed, Precise's models take over.
	Devices []Device
	// OnFailure, if not nil, is told of every failure of a device, by the worker that it concerns.
	OnFailure func(Failure)
	Text      Text
	Search    search.Options
	// KeepRepetition leaves translations that repeat themselves endlessly as they are instead of searching again without
	// repetition. They are flagged either way.
	KeepRepetition bool
	Batching       Batching
}

// The sizes below were found by trying --slots, --top-up and --mini-batch-words of `sluice bench` on the demo model; throughput is
// flat around them. More hypotheses at a time find fewer of their keys, values and rare candidates in the second-level cache; fewer source
// pieces in a mini-batch fetch the encoder's weights more often.
const (
	defaultSlots           = 48
	defaultMiniBatchTokens = 512
	defaultMaxiBatch       = 2048
	defaultLatency         = 200 * time.Millisecond
)

// Automatic fills in what was left open, for a machine that gives the process that many cores.
func (b Batching) Automatic(cores int) Batching {
	b.Workers = positiveOr(b.Workers, max(cores, 1))
	b.Slots = positiveOr(b.Slots, defaultSlots)
	b.MiniBatchTokens = positiveOr(b.MiniBatchTokens, defaultMiniBatchTokens)
	b.MiniBatchLines = positiveOr(b.MiniBatchLines, b.MiniBatchTokens)
	b.MaxiBatch = positiveOr(b.MaxiBatch, defaultMaxiBatch)
	if b.TopUp < 0 || b.TopUp > 1 {
		b.TopUp = 0
	}
	b.SentenceCores = positiveOr(b.SentenceCores, b.Workers)
	if b.Latency <= 0 {
		b.Latency = defaultLatency
	}
	return b
}

func positiveOr(value, otherwise int) int {
	if value > 0 {
		return value
	}
	return otherwise
}

// check refuses settings that contradict each other.
func (c *Config) check() error {
	switch {
	case c.Models == nil && len(c.Devices) == 0:
		return fmt.Errorf("%w: no model", ErrConfig)
	case c.Text.Source == nil || c.Text.Target == nil:
		return fmt.Errorf("%w: source and target vocabulary are needed", ErrConfig)
	case c.Text.MaxLength < 2:
		return fmt.Errorf("%w: the longest source is %d pieces, but must be at least 2", ErrConfig, c.Text.MaxLength)
	}
	return c.Search.Validate()
}
