package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/producer"
)

// rangeJoin is an output whose ranges are written to objects of their own, in a folder that belongs to this input, these
// options and this number of ranges. As soon as the output is there, everything in the folder is of no use, whoever
// has written it.
type rangeJoin struct {
	sink     *Sink
	lane     string // one of the ranges
	relative string
	bucket   string
	key      string // of the output
	folder   string // of the ranges' objects
	count    int
	identity json.RawMessage // of the whole input
}

func (s *Sink) newRangeJoin(lane, relative string, r Range) *rangeJoin {
	hash := sha256.New()
	madeWith, _ := json.Marshal(producer.ShortMadeWith(s.config.MadeWith)) // a map of strings can be encoded
	for _, part := range []string{relative, string(r.Identity), string(madeWith), fmt.Sprint(r.Count)} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return &rangeJoin{
		sink: s, lane: lane, relative: relative, bucket: s.output.bucket, key: s.output.prefix + relative, count: r.Count, identity: r.Identity,
		folder: s.work() + "ranges/" + hex.EncodeToString(hash.Sum(nil)[:16]) + "/",
	}
}

// rangeKey is the key of a range's object. It ends as the output does, so that it is compressed alike.
func (j *rangeJoin) rangeKey(index int) string {
	name := j.relative[strings.LastIndexByte(j.relative, '/')+1:]
	ending := ""
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		ending = name[dot:]
	}
	return fmt.Sprintf("%s%06d%s", j.folder, index, ending)
}

// letters returns the dead letters of the whole output, by a writer.
func (j *rangeJoin) letters(writer string) *letters {
	if j.sink.letters == nil {
		return nil
	}
	return j.sink.newLetters(j.lane, j.sink.letters.bucket, j.sink.letters.prefix+j.relative, writer)
}

// openRange begins the object of a range, unless it, or the whole output, is there.
func (s *Sink) openRange(ctx context.Context, lane, relative string, r Range) (producer.Writer, job.Position, error) {
	j := s.newRangeJoin(lane, relative, r)
	key := j.rangeKey(r.Index)
	if _, err := s.client.Head(ctx, j.bucket, key); err == nil { // the folder belongs to this input and these options
		if err := j.join(ctx); err != nil {
			return nil, job.Position{}, err
		}
		return nil, job.Position{}, producer.ErrDone
	} else if !errors.Is(err, s3client.ErrNotFound) {
		return nil, job.Position{}, err
	}
	if _, err := s.settled(ctx, lane, j.key, j.identity, j.letters("")); err != nil {
		if errors.Is(err, producer.ErrDone) {
			err = errors.Join(j.clear(ctx), err)
		}
		return nil, job.Position{}, err
	}
	w := &objectWriter{
		sink: s, lane: lane, bucket: j.bucket, key: key, identity: j.identity, made: s.describe(j.identity),
		condition: s3client.Condition{Absent: true}, finished: j.join,
	}
	if s.letters != nil {
		w.letters = s.newLetters(lane, j.bucket, key+".letters", w.made.writer)
	}
	if err := w.start(); err != nil {
		return nil, job.Position{}, err
	}
	return w, job.Position{}, nil
}

// join makes the output of the ranges' objects, if they are all there, and removes them. Within a process only one
// lane does so at a time, since all that end together see that all are there.
func (j *rangeJoin) join(ctx context.Context) error {
	if err := j.sink.joining.Acquire(ctx, 1); err != nil {
		return err
	}
	defer j.sink.joining.Release(1)
	parts, err := j.parts(ctx)
	if err != nil {
		return err
	}
	if len(parts) < j.count {
		return j.stray(ctx)
	}
	j.sink.step("all ranges are there")
	m := j.sink.describe(j.identity)
	condition, err := j.sink.settled(ctx, j.lane, j.key, j.identity, j.letters(""))
	if errors.Is(err, producer.ErrDone) {
		return j.clear(ctx)
	}
	if err != nil {
		return err
	}
	object := j.sink.newUpload(j.bucket, j.key, m, condition)
	object.prefix = "join: "
	l := j.letters(m.writer)
	if err := j.assemble(ctx, object, l, parts); err != nil {
		err = errors.Join(err, object.abort(), l.drop(ctx, object))
		if errors.Is(err, s3client.ErrNotFound) || errors.Is(err, s3client.ErrReplaced) { // another worker has joined them meanwhile, and removed them
			if _, settledErr := j.sink.settled(ctx, j.lane, j.key, j.identity, j.letters("")); errors.Is(settledErr, producer.ErrDone) {
				return nil
			}
		}
		return err
	}
	return j.clear(ctx)
}

// assemble writes the output and its dead letters.
func (j *rangeJoin) assemble(ctx context.Context, object *upload, l *letters, parts []*s3client.Info) error {
	for _, part := range parts {
		if part.Size > 0 {
			if err := object.copy(ctx, part); err != nil {
				return err
			}
		}
		if l != nil {
			if err := j.copyLetters(ctx, l, part); err != nil {
				return err
			}
		}
	}
	if err := l.put(ctx); err != nil {
		return err
	}
	found, err := object.finish(ctx)
	if errors.Is(err, errLost) {
		if err := errors.Join(l.drop(ctx, object), object.abort()); err != nil {
			return err
		}
		if err := j.sink.adopt(ctx, j.lane, found, j.identity, l); !errors.Is(err, producer.ErrDone) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	return l.clean(ctx, object.made.writer)
}

// copyLetters appends the dead letters of a range, which are those of the writer that its object names.
func (j *rangeJoin) copyLetters(ctx context.Context, l *letters, part *s3client.Info) error {
	info, err := j.sink.client.Head(ctx, part.Bucket, part.Key)
	if err != nil {
		return err
	}
	own := j.sink.newLetters(j.lane, part.Bucket, part.Key+".letters", info.Metadata[metaWriter])
	source, err := j.sink.client.Head(ctx, own.bucket, own.key())
	if errors.Is(err, s3client.ErrNotFound) {
		return nil
	}
	if err != nil || source.Size == 0 {
		return err
	}
	if err := l.add(ctx, nil); err != nil {
		return err
	}
	return l.object.copy(ctx, source)
}

// parts lists the ranges' objects that are there, in order.
func (j *rangeJoin) parts(ctx context.Context) ([]*s3client.Info, error) {
	wanted := map[string]bool{}
	for i := range j.count {
		wanted[j.rangeKey(i)] = true
	}
	var parts []*s3client.Info
	err := j.sink.client.List(ctx, j.bucket, j.folder, "", func(info *s3client.Info) (bool, error) {
		if wanted[info.Key] {
			parts = append(parts, info)
		}
		return true, nil
	})
	slices.SortFunc(parts, func(a, b *s3client.Info) int { return strings.Compare(a.Key, b.Key) })
	return parts, err
}

// stray removes the objects of ranges that were written although the output was there already: their writer began
// before another one joined them.
func (j *rangeJoin) stray(ctx context.Context) error {
	_, err := j.sink.settled(ctx, j.lane, j.key, j.identity, nil)
	if errors.Is(err, producer.ErrDone) {
		return j.clear(ctx)
	}
	return err
}

// clear removes everything in the folder.
func (j *rangeJoin) clear(ctx context.Context) error {
	return j.sink.client.List(ctx, j.bucket, j.folder, "", func(info *s3client.Info) (bool, error) {
		j.sink.step("before a range is removed")
		return true, j.sink.client.Delete(ctx, j.bucket, info.Key)
	})
}
