// Package s3 writes the outputs of lanes to the objects of Amazon S3 and of stores that speak its protocol.
//
// Everything rests on objects that are created only where there is none. Who creates an object has written its
// outputs, whoever else was trying to, and what an object was made of stands in its metadata, where the next process
// finds it. There are three layouts:
//
//   - An object for a lane that ends. It appears when it is complete. Of a process that is killed before nothing is to
//     be seen, and the next one makes the object afresh. Two workers may both make it: the second finds the object of
//     the first, sees that it would have been the same, and is content.
//   - A chain for a lane that does not end: objects named by the position at which they begin, whose metadata tell
//     where they end. The next object begins there. So the chain tells where the lane continues, and it has neither
//     gap nor overlap wherever the cuts are: a second writer can only try to create the same next object, and fails.
//   - An object for the ranges of a large input. Each range is written to an object of its own in a folder _sluice
//     beside the outputs; who writes the last one joins them, in order, and removes them.
//
// Dead letters lie in objects named after the output and its writer. They are written before the output appears, and
// count if the writer that the output names is theirs; others are removed by whoever finds them.
package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/producer"
)

// An Encoder turns an output into bytes that depend on nothing but the output. It is used by all lanes at once.
type Encoder interface {
	Append(dst []byte, output *job.Output) ([]byte, error)
}

// An Input knows what the input of a lane is, so that an output is passed over only if it was made of the same.
type Input interface {
	// Identity describes the input, to be stored.
	Identity(lane string) (json.RawMessage, error)

	// Changes compares the input with an identity that was stored, and says of every difference what it is.
	Changes(lane string, stored json.RawMessage) ([]string, error)
}

// A Range tells which part of an input a lane is.
type Range struct {
	Whole        string          // name of the whole input
	Index, Count int             // Count is 1 for a lane that is a whole input
	Identity     json.RawMessage // of the whole input
}

// Config says what is written where, and how.
type Config struct {
	Client *s3client.Client

	// Job names the job. It stays the same when the job is started again, and other jobs have others.
	Job string

	// Output is a name such as s3://bucket/prefix/, below which everything is written.
	Output string

	// Key gives the key of a lane's output below Output; its ending says how it is compressed. In a chain it is the
	// folder of the lane's objects. Ranges of one input have the same.
	Key func(lane string) (string, error)

	// Encoder makes the bytes.
	Encoder Encoder

	// Input recognises inputs; nil if that is not possible.
	Input Input

	// MadeWith is what the bytes depend on beside the input: the fingerprint of the model, options, by name.
	MadeWith map[string]string

	// Overwrite replaces outputs that are there, each in the version that was found.
	Overwrite bool

	// Chain writes a chain of objects for each lane.
	Chain *Chain

	// Range tells which part of an input a lane is; nil if all lanes are whole inputs.
	Range func(lane string) (Range, error)

	// DeadLetters is a name such as s3://bucket/prefix/, below which lie the records that could not be translated,
	// under the keys of their outputs. These records are then missing from the outputs. "" leaves them there, as the
	// Encoder writes them.
	DeadLetters string

	// Assemble, if set, makes the object from what the Encoder wrote, when all is there, as for Parquet. It must give
	// the same bytes every time. What the Encoder wrote lies in a temporary file until then.
	Assemble func(ctx context.Context, lane string, spool io.Reader, out io.Writer) error

	// PartSize is the size of the parts in which objects are uploaded; 0 is 8 MiB. An object that is not larger is
	// written in one request. Memory is this times the number of open lanes and of Uploads.
	PartSize int64

	// Uploads is how many parts are on their way at once, of all lanes; 0 is 4.
	Uploads int

	// AtLeastOnce goes on where the store ignores conditional writes: outputs may be written twice, and one worker may
	// overwrite those of another.
	AtLeastOnce bool

	// Abandoned is the age from which uploads that this job began and never completed are dropped, when the sink is
	// connected; 0 is 24 h. It must be longer than a lane takes, if other workers of the job may be running.
	Abandoned time.Duration

	Logger *slog.Logger // nil is silent
}

// Chain says how the objects of a chain are cut. They are cut at commits only, and where one would become too large.
type Chain struct {
	Suffix string        // ending of the objects' names, such as .jsonl.gz, which says how they are compressed
	Bytes  int64         // an object of so many bytes is created at once; 0 is 16 MiB. Memory is this for every open lane
	Age    time.Duration // a commit creates an object only if its first record is older; 0 is at every commit

	// Continue goes on behind objects that were made with something else.
	Continue bool
}

func (c Config) withDefaults() Config {
	if c.PartSize == 0 {
		c.PartSize = 8 << 20
	}
	if c.Uploads == 0 {
		c.Uploads = 4
	}
	if c.Abandoned == 0 {
		c.Abandoned = 24 * time.Hour
	}
	if c.Chain != nil && c.Chain.Bytes == 0 {
		chain := *c.Chain
		chain.Bytes = 16 << 20
		c.Chain = &chain
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A place is a bucket and the beginning of keys in it.
type place struct{ bucket, prefix string }

func parsePlace(name string) (place, error) {
	bucket, prefix, err := s3client.ParseURI(name)
	if err == nil && prefix != "" && !strings.HasSuffix(prefix, "/") {
		err = fmt.Errorf("%q is to hold several objects: end it with a slash", name)
	}
	return place{bucket, prefix}, err
}

// A Sink is a producer.Sink of objects.
type Sink struct {
	config  Config
	client  *s3client.Client
	output  place
	letters *place // nil without dead letters
	uploads *semaphore.Weighted
	joining *semaphore.Weighted
	buffers chan []byte                 // full-sized ones that are not in use
	step    func(name string)           // called between any two events that a crash may fall between; for tests
	least   int64                       // bytes of a part, except the last
	probe   func(context.Context) error // whether the store keeps the conditions of writes
	now     func() time.Time            // for the age of a chain's objects
}

// New returns a Sink. Connect checks the configuration.
func New(config Config) *Sink {
	config = config.withDefaults()
	s := &Sink{
		config: config, client: config.Client, least: s3client.MinPart, step: func(string) {}, now: time.Now,
		joining: semaphore.NewWeighted(1),
		uploads: semaphore.NewWeighted(int64(max(1, config.Uploads))), buffers: make(chan []byte, max(1, config.Uploads)),
	}
	s.probe = func(ctx context.Context) error { return s.client.Probe(ctx, s.output.bucket, s.output.prefix) }
	return s
}

// Connect checks that the store keeps the conditions of writes, without which nothing here holds, and drops uploads
// that this job has abandoned.
func (s *Sink) Connect(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	err := s.probe(ctx)
	if errors.Is(err, s3client.ErrNoConditions) && s.config.AtLeastOnce {
		s.config.Logger.Warn("outputs may be written twice", "why", err)
		err = nil
	}
	if err != nil {
		return err
	}
	return s.Clean(ctx, s.config.Abandoned)
}

func (s *Sink) check() error {
	c := &s.config
	switch {
	case c.Client == nil || c.Key == nil || c.Encoder == nil:
		return errors.New("producer/s3: Client, Key and Encoder must be set")
	case c.Job == "" || strings.ContainsAny(c.Job, "/\\") || len(c.Job) > 100:
		return fmt.Errorf("s3: %q cannot be the name of a job: it has up to 100 characters and no slash", c.Job)
	case c.PartSize < s.least || c.PartSize > 1<<30:
		return fmt.Errorf("s3: parts of %d bytes: they have between 5 MiB and 1 GiB", c.PartSize)
	case c.Chain != nil && (c.Range != nil || c.Assemble != nil || c.Overwrite):
		return errors.New("s3: a chain is neither divided into ranges, nor assembled, nor overwritten")
	case c.Assemble != nil && c.Range != nil:
		return errors.New("s3: what is assembled cannot be divided into ranges")
	}
	var err error
	if s.output, err = parsePlace(c.Output); err != nil {
		return err
	}
	if c.DeadLetters != "" {
		letters, err := parsePlace(c.DeadLetters)
		if err != nil {
			return err
		}
		if letters == s.output {
			return fmt.Errorf("s3: outputs and dead letters cannot both lie in %s", c.Output)
		}
		s.letters = &letters
	}
	_, err = s.describe(nil).encode()
	return err
}

// Open finds out what there is of a lane's output and where the lane continues.
func (s *Sink) Open(ctx context.Context, lane string) (producer.Writer, job.Position, error) {
	relative, err := s.config.Key(lane)
	if err != nil {
		return nil, job.Position{}, err
	}
	if relative == "" || len(s.output.prefix)+len(relative) > 1000 {
		return nil, job.Position{}, fmt.Errorf("%s: the key of its output has %d bytes: it has between 1 and 1000", lane, len(s.output.prefix)+len(relative))
	}
	if s.config.Chain != nil {
		return s.openChain(ctx, lane, relative)
	}
	if s.config.Range != nil {
		r, err := s.config.Range(lane)
		if err != nil {
			return nil, job.Position{}, err
		}
		if r.Count > 1 {
			return s.openRange(ctx, lane, relative, r)
		}
	}
	return s.openObject(ctx, lane, relative)
}

// Close releases nothing: writers are closed by whoever opened them.
func (s *Sink) Close(context.Context) error { return nil }

// work is the folder for what the job needs while it is running.
func (s *Sink) work() string { return s.output.prefix + "_sluice/" + s.config.Job + "/" }

// afterwards is a context for what must be done although the one that was given may have ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
}
