package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/scratch"
	"github.com/sluice-mt/sluice/producer"
)

// openObject begins the object of a lane, unless it is there.
func (s *Sink) openObject(ctx context.Context, lane, relative string) (producer.Writer, job.Position, error) {
	identity, err := s.identity(lane)
	if err != nil {
		return nil, job.Position{}, err
	}
	w := &objectWriter{sink: s, lane: lane, bucket: s.output.bucket, key: s.output.prefix + relative, identity: identity}
	w.made = s.describe(identity)
	if s.letters != nil {
		w.letters = s.newLetters(lane, s.letters.bucket, s.letters.prefix+relative, w.made.writer)
	}
	w.condition, err = s.settled(ctx, lane, w.key, identity, w.letters)
	if err == nil {
		err = w.start()
	}
	if err != nil {
		return nil, job.Position{}, err
	}
	return w, job.Position{}, nil
}

// settled looks whether an output is there. It returns producer.ErrDone if it is the one that would be made, and
// otherwise the condition under which it may be written.
func (s *Sink) settled(ctx context.Context, lane, key string, identity json.RawMessage, l *letters) (s3client.Condition, error) {
	info, err := s.client.Head(ctx, s.output.bucket, key)
	switch {
	case errors.Is(err, s3client.ErrNotFound):
		return s3client.Condition{Absent: true}, nil
	case err != nil:
		return s3client.Condition{}, err
	case s.config.Overwrite:
		return s3client.Condition{ETag: info.ETag}, nil
	}
	return s3client.Condition{}, s.adopt(ctx, lane, info, identity, l)
}

// adopt returns producer.ErrDone for an output that is the one that would be made, whoever has made it.
func (s *Sink) adopt(ctx context.Context, lane string, info *s3client.Info, identity json.RawMessage, l *letters) error {
	found, err := parseMade(info)
	if err == nil {
		err = s.compare(lane, info, found, identity)
	}
	if err == nil {
		err = l.clean(ctx, found.writer)
	}
	if err != nil {
		return err
	}
	return producer.ErrDone
}

// objectWriter writes the object of a lane, or of a range.
type objectWriter struct {
	sink      *Sink
	lane      string
	bucket    string
	key       string
	identity  json.RawMessage
	made      *made
	condition s3client.Condition
	letters   *letters // nil if what failed stays in the output

	object  *upload
	out     *uploadWriter
	packed  *compress.Writer
	spool   *scratch.File // what Assemble reads; nil without it
	record  []byte
	records int64
	done    bool
	err     error // the first failure; nothing is written after it

	finished func(ctx context.Context) error // after the object is there; nil if nothing is to be done
}

func (w *objectWriter) start() error {
	w.object = w.sink.newUpload(w.bucket, w.key, w.made, w.condition)
	w.out = &uploadWriter{object: w.object}
	var out io.Writer = w.out
	format := compress.BySuffix(w.key)
	if w.sink.config.Assemble != nil {
		spool, err := scratch.Create("")
		if err != nil {
			return err
		}
		w.spool, out, format = spool, spool, compress.Gzip
	}
	var err error
	w.packed, err = compress.NewWriter(out, format)
	return err
}

// uploadWriter makes an io.Writer of an upload, for the duration of a call that has a context.
type uploadWriter struct {
	object *upload
	ctx    context.Context
}

func (w *uploadWriter) Write(p []byte) (int, error) {
	if err := w.object.write(w.ctx, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Write encodes a run and uploads what fills a part.
func (w *objectWriter) Write(ctx context.Context, run []job.Output) error {
	if w.err != nil {
		return w.err
	}
	w.out.ctx = ctx
	for i := range run {
		if err := w.writeOne(ctx, &run[i]); err != nil {
			return w.fail(err)
		}
	}
	return nil
}

func (w *objectWriter) writeOne(ctx context.Context, output *job.Output) error {
	if dead, err := w.letters.take(ctx, output); dead || err != nil {
		return err
	}
	var err error
	if w.record, err = w.sink.config.Encoder.Append(w.record[:0], output); err != nil {
		return err
	}
	w.records++
	if _, err := w.packed.Write(w.record); err != nil {
		return err
	}
	_, err = w.packed.Cut()
	return err
}

func (w *objectWriter) fail(err error) error {
	w.err = fmt.Errorf("writing %s: %w", s3client.URI(w.bucket, w.key), err)
	return w.err
}

// Commit returns the beginning of the lane: nothing of an object is durable before all is.
func (w *objectWriter) Commit(context.Context) (job.Position, error) { return job.Position{}, w.err }

// Finish makes the object appear. One that another worker has made of the same is as good.
func (w *objectWriter) Finish(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	w.out.ctx = ctx
	if err := w.finish(ctx); err != nil {
		return w.fail(err)
	}
	w.done = true
	return nil
}

func (w *objectWriter) finish(ctx context.Context) error {
	if err := w.packed.Finish(true); err != nil {
		return err
	}
	if w.spool != nil {
		if err := w.assemble(ctx); err != nil {
			return err
		}
	}
	if w.object.begun == nil {
		w.made.records = w.records
	}
	if err := w.letters.put(ctx); err != nil {
		return err
	}
	found, err := w.object.finish(ctx)
	switch {
	case errors.Is(err, errLost):
		err = w.lost(ctx, found)
	case err == nil:
		err = w.letters.clean(ctx, w.made.writer)
	}
	if err == nil && w.finished != nil {
		err = w.finished(ctx)
	}
	return err
}

// lost deals with an object that another worker was the first to create.
func (w *objectWriter) lost(ctx context.Context, found *s3client.Info) error {
	if err := errors.Join(w.letters.drop(ctx, w.object), w.object.abort()); err != nil {
		return err
	}
	if err := w.sink.adopt(ctx, w.lane, found, w.identity, w.letters); !errors.Is(err, producer.ErrDone) {
		return err
	}
	w.sink.config.Logger.Info("another worker was first", "lane", w.lane)
	return nil
}

func (w *objectWriter) assemble(ctx context.Context) error {
	if _, err := w.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	spool, err := compress.NewReader(w.spool)
	if err != nil {
		return err
	}
	defer spool.Close()
	return w.sink.config.Assemble(ctx, w.lane, spool, w.out)
}

// Close drops what did not appear.
func (w *objectWriter) Close() error {
	var err error
	if w.spool != nil {
		err = w.spool.Close()
	}
	if w.done {
		return err
	}
	ctx, cancel := afterwards(context.Background())
	defer cancel()
	return errors.Join(err, w.object.abort(), w.letters.drop(ctx, w.object))
}
