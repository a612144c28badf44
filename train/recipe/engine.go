package recipe

import (
	"context"
	"log/slog"

	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/train"
)

// An Engine trains models and carries texts through them, as sluice train and sluice translate do.
type Engine interface {
	// Train trains a model, or goes on with it. An error that wraps train.ErrInterrupted says that the context has ended.
	Train(ctx context.Context, config train.Config, logger *slog.Logger) (train.Result, error)
	// Check says what is wrong with an option of sluice translate.
	Check(option jobfile.Option) error
	// Translate translates a file. The output appears under its name when it is complete; a call that was interrupted, even by
	// force, is continued by an equal one, with the same bytes in the end. An error that wraps ErrInterrupted says that the
	// context has ended.
	Translate(ctx context.Context, t Translation) (Throughput, error)
	// Rescore ranks an n-best list anew, with tuned weights if there is something to tune with. Outputs that exist are replaced.
	// An error that wraps ErrInterrupted says that the context has ended.
	Rescore(ctx context.Context, r Rescoring) error
}

// A Rescoring is an n-best list to be ranked anew.
type Rescoring struct {
	Models       []string // that score
	Vocabularies []string // of source and target
	List, Source string   // the list, and the text that was translated

	TuneList, TuneSource, TuneReference string // a list with its text and references, to tune weights with; "" for none
	Metric                              string // to tune for; "" is bleu
	Weights                             string // file for the tuned weights

	Folder   string // for files on the way
	Output   string // file for the best translations
	Logger   *slog.Logger
	Progress func(share float64) // is told which share is done
}

// A Translation is a file to be translated.
type Translation struct {
	Models       []string // several are an ensemble
	Vocabularies []string // of source and target
	Shortlist    string   // "" for none
	Options      []jobfile.Option
	Input        string
	Column       int  // of a table with tabs, counted from 1; 0 is plain text
	NBest        bool // as many translations as the beam has, in Marian's form
	Measured     bool // how fast this machine does it is wanted, not only the result
	Output       string
	Logger       *slog.Logger
	// Progress is told, now and then, which share of the input is done; nil if nobody wants to know.
	Progress func(share float64)
}

// Throughput is what an engine has done, without what an interrupted call did before.
type Throughput struct {
	Lines, Words int64 // of the source
	Seconds      float64
	CPUSeconds   float64 // of the whole process; 0 where the system does not tell
	Precision    string  // of the arithmetic
	Workers      int
}
