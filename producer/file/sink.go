// Package file writes the outputs of lanes to files and to standard output.
//
// A file appears under its name only when it is complete. Until then there are two beside it: NAME.partial, which
// grows, and NAME.checkpoint, which says how much of it counts, up to where in the input it goes, and what it was
// made of. A job that is started again goes on from there, and the file comes out as if nothing had happened;
// compressed ones too, for they are made of frames that end where the data says.
//
// The order of events is what makes that true:
//
//	commit    partial is written and synced, then the checkpoint is written beside, synced, renamed, its folder synced
//	finish    partial is synced, renamed to its name, the folder synced, the checkpoint removed
//	open      partial is cut to the length in the checkpoint
//
// A process that is killed between any two of these leaves either the old state or the new one. A file that was
// renamed while its checkpoint is still there is recognised by its inode.
//
// An advisory lock on the partial file keeps two processes from writing the same output.
package file

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

// Stdout is the path that stands for standard output.
const Stdout = "-"

// What is appended to the name of an output that is not complete.
const (
	PartialSuffix    = ".partial"
	CheckpointSuffix = ".checkpoint"
)

// An Encoder turns an output into bytes that depend on nothing but the output. It is used by all lanes at once.
type Encoder interface {
	Append(dst []byte, output *job.Output) ([]byte, error)
}

// An Input knows what the input of a lane is, so that an output is continued on the input that it was begun on.
type Input interface {
	// Identity describes the input, to be stored.
	Identity(lane string) (json.RawMessage, error)

	// Changes compares the input with an identity that was stored, and says of every difference what it is.
	Changes(lane string, stored json.RawMessage) ([]string, error)
}

// Config says what is written where, and how.
type Config struct {
	// Path gives the path of a lane's output: Stdout, or a file whose ending says how it is compressed. A pipe or
	// a device that is there already is written to as it is.
	Path func(lane string) (string, error)

	// Encoder makes the bytes.
	Encoder Encoder

	// Input recognises inputs; nil if that is not possible.
	Input Input

	// Reads names the input that a regular file is, "" if it is none. Nothing is written to what is read, Overwrite or not. nil if
	// that cannot be told.
	Reads func(fs.FileInfo) string

	// MadeWith is what the bytes depend on beside the input: the fingerprint of the model, options, by name. An
	// output that was begun with others is not continued.
	MadeWith map[string]string

	// Overwrite begins afresh where there is a partial or complete output.
	Overwrite bool

	// Folder is the one that many outputs are written to. In it the file .sluice.jsonl keeps what complete outputs
	// were made of, so that a job that is started again passes them over. "" is for a single output: a complete
	// one is then never passed over, but an error without Overwrite.
	Folder string

	// DeadLetters gives the file for the records of a lane that could not be translated, as lines of JSON. They are then
	// missing from the output. nil leaves them there, as the Encoder writes them.
	DeadLetters func(lane string) (string, error)

	// Assemble, if set, makes the output file from what the Encoder wrote, when all is there. It must give the same
	// bytes every time.
	Assemble func(ctx context.Context, lane string, spool io.Reader, out io.Writer) error

	// Stdout is written to for the path Stdout; nil means os.Stdout.
	Stdout io.Writer
}

// A Sink is a producer.Sink of files.
type Sink struct {
	config Config
	ledger *ledger
	step   func(string) // called between any two events that a crash may fall between; for tests
}

// New returns a Sink.
func New(config Config) *Sink {
	if config.Stdout == nil {
		config.Stdout = os.Stdout
	}
	return &Sink{config: config, step: func(string) {}}
}

// Connect reads what is known of complete outputs.
func (s *Sink) Connect(context.Context) error {
	if s.config.Path == nil || s.config.Encoder == nil {
		return errors.New("producer/file: Path and Encoder must be set")
	}
	var err error
	s.ledger, err = openLedger(s.config.Folder)
	return err
}

// Open prepares the output of a lane and tells where it continues.
func (s *Sink) Open(ctx context.Context, lane string) (producer.Writer, job.Position, error) {
	path, err := s.config.Path(lane)
	if err != nil {
		return nil, job.Position{}, err
	}
	if err := s.checkUnread(lane, path); err != nil {
		return nil, job.Position{}, err
	}
	stream, err := s.openStream(ctx, path)
	if err != nil {
		return nil, job.Position{}, err
	}
	if stream != nil {
		return stream, job.Position{}, nil
	}
	w := &writer{sink: s, lane: lane, names: namesOf(path), format: compress.BySuffix(path)}
	if err := w.open(); err != nil {
		return nil, job.Position{}, err
	}
	return w, w.saved.Position, nil
}

// Close releases nothing: writers are closed by whoever opened them.
func (s *Sink) Close(context.Context) error { return nil }
