// Package s3 reads records from the objects of Amazon S3 and of stores that speak its protocol.
//
// An object is a lane, named s3://bucket/key. Objects come from prefixes, from names that are given one by one, from
// manifests, from listings that are repeated, and from notifications of new objects. Each is read in the version that
// was found: one that is replaced meanwhile ends its lane with consumer.ErrLaneLost, and versions are never mixed.
// Reading goes on where a connection was cut. Compressed objects are inflated, whatever they are called.
//
// A huge object of plain lines can be divided into ranges, each a lane of its own; they meet at line ends.
package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/shard"
)

// Config says what is read, and how.
type Config struct {
	Client *s3client.Client

	// Inputs are names such as s3://bucket/key. One that ends in / or *, or that names a bucket alone, stands for all
	// objects whose keys begin so. Empty objects whose keys end in / stand for folders and are passed over, and so is
	// every object with a part of its key, between slashes, that begins with a dot or is named _sluice.
	Inputs []string

	// Manifests are files or objects that list objects: see ParseManifest.
	Manifests []string

	// Exclude are names of prefixes, such as s3://bucket/out/, whose objects are passed over.
	Exclude []string

	// Poll is the time between listings of the inputs; 0 lists them once, and the source ends. An object that was
	// replaced since is a lane again.
	Poll time.Duration

	// Feed tells of new objects; nil is none. A source with a feed never ends, and its inputs only say which objects
	// count; with Poll they are listed, too, for what a notification did not come of.
	Feed Feed

	// Split divides objects of plain lines that are larger into ranges of so many bytes, each a lane; 0 divides none.
	Split int64

	// Shard is the part of the lanes that this worker takes. It is not for a Feed, which divides by itself.
	Shard shard.Shard

	// Records says how records lie in the objects.
	Records recordio.Options

	Logger *slog.Logger // nil is silent
}

// A Source is a consumer.Source of objects.
type Source struct {
	config  Config
	inputs  []input
	exclude []input
	found   chan *lane // unbuffered, so that what is found is not much older than when it is read
	stop    context.CancelFunc
	finders sync.WaitGroup
	hidden  sync.Once // to say that there are objects with hidden names

	mutex sync.Mutex
	err   error // why the finders ended
	open  map[string]*lane
	seen  map[string]string // by name, the ETag of what was found in listings; only with Poll
}

// New returns a Source. Connect checks the configuration and begins to look for objects.
func New(config Config) *Source {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{config: config, found: make(chan *lane), open: map[string]*lane{}, seen: map[string]string{}}
}

// Connect begins to look for objects.
func (s *Source) Connect(context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if s.config.Feed == nil || s.config.Poll > 0 {
		s.finders.Go(func() { s.ended(s.list(ctx)) })
	}
	if s.config.Feed != nil {
		s.finders.Go(func() { s.ended(s.receive(ctx)) })
	}
	go func() {
		s.finders.Wait()
		close(s.found)
	}()
	return nil
}

func (s *Source) check() error {
	c := &s.config
	switch {
	case c.Client == nil:
		return errors.New("consumer/s3: Client must be set")
	case len(c.Inputs) == 0 && len(c.Manifests) == 0 && c.Feed == nil:
		return errors.New("s3: nothing to read: give prefixes, objects, manifests or notifications")
	case c.Split < 0 || c.Poll < 0:
		return errors.New("s3: neither the size of ranges nor the time between listings can be negative")
	case c.Feed != nil && c.Shard.Count > 1:
		return errors.New("s3: notifications divide the work among workers by themselves: take away the shard")
	case c.Feed != nil && len(c.Manifests) > 0:
		return errors.New("s3: a manifest says what there is, so notifications do not go with it")
	}
	if err := c.Records.Check(); err != nil {
		return err
	}
	var err error
	if s.inputs, err = parseInputs(c.Inputs); err != nil {
		return err
	}
	s.exclude, err = parseInputs(c.Exclude)
	return err
}

// ended keeps the first error of a finder and ends the others.
func (s *Source) ended(err error) {
	if err == nil {
		return
	}
	s.mutex.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mutex.Unlock()
	s.stop()
}

// Next returns the next lane, waiting for one, or consumer.ErrEndOfInput.
func (s *Source) Next(ctx context.Context) (consumer.Lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case l, ok := <-s.found:
		if ok {
			return l, nil
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.err != nil {
			return nil, s.err
		}
		return nil, consumer.ErrEndOfInput
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the search for objects.
func (s *Source) Close(context.Context) error {
	if s.stop == nil {
		return nil
	}
	s.stop()
	for l := range s.found { // those that nobody has taken
		l.forget()
	}
	return nil
}

// lane returns the open lane of that name.
func (s *Source) lane(name string) (*lane, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	l, ok := s.open[name]
	if !ok {
		return nil, fmt.Errorf("there is no input %s", name)
	}
	return l, nil
}

// Relative returns the key that the output of an open lane has below an output prefix. With a single input it is what
// follows the last slash of that input in the object's key; with several, or from a manifest or a notification
// without inputs, it is the whole key, behind the bucket's name if there are several buckets. Ranges of one object
// give the same.
func (s *Source) Relative(lane string) (string, error) {
	l, err := s.lane(lane)
	if err != nil {
		return "", err
	}
	return l.object.relative, nil
}

// A Range tells which part of an object a lane is.
type Range struct {
	Whole        string          // name of the object, which would be the lane if it were not divided
	Index, Count int             // Count is 1 for a lane that is a whole object
	Identity     json.RawMessage // of the whole object
}

// Range returns which part of an object an open lane is.
func (s *Source) Range(lane string) (Range, error) {
	l, err := s.lane(lane)
	if err != nil {
		return Range{}, err
	}
	whole := identity{Object: l.object.info.URI(), ETag: l.object.info.ETag, Size: l.object.info.Size}
	encoded, err := json.Marshal(whole)
	return Range{Whole: whole.Object, Index: l.part.index, Count: l.part.count, Identity: encoded}, err
}

// Parquet opens the object of an open lane once more, for recordio.AssembleParquetFrom.
func (s *Source) Parquet(ctx context.Context, lane string) (*recordio.ParquetInput, error) {
	l, err := s.lane(lane)
	if err != nil {
		return nil, err
	}
	return &recordio.ParquetInput{
		Name: l.name, Reader: s.config.Client.At(ctx, &l.object.info), Size: l.object.info.Size, Close: func() error { return nil },
	}, nil
}
