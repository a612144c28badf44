package s3

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/producer"
)

// errLost is returned by upload.finish where another object has the name.
var errLost = errors.New("another writer was first")

// upload writes an object of any length. A short one is written in one request; of a longer one, parts are uploaded
// while it grows, and it appears when it is finished. Memory is one part, and those on their way.
type upload struct {
	sink      *Sink
	bucket    string
	key       string
	made      *made
	condition s3client.Condition
	prefix    string // of the names of steps, for tests

	buffer []byte // what is not in a part yet
	size   int64  // of everything
	begun  *s3client.Upload
	entry  *entry
	number int32 // of the last part

	// uncertain is true after a request that was to create the object failed without saying that another was first. It may
	// still be on its way, and create the object although nobody waits for it.
	uncertain bool

	flying sync.WaitGroup
	mutex  sync.Mutex
	parts  []s3client.Part
	err    error // the first failure of a part
}

func (s *Sink) newUpload(bucket, key string, m *made, condition s3client.Condition) *upload {
	return &upload{sink: s, bucket: bucket, key: key, made: m, condition: condition}
}

// partSize grows with the number of parts, so that an object may have any size that S3 allows.
func (u *upload) partSize() int { return int(u.sink.config.PartSize) << (u.number / 2000) }

// write appends to the object.
func (u *upload) write(ctx context.Context, p []byte) error {
	u.size += int64(len(p))
	for len(p) > 0 {
		room := u.partSize() - len(u.buffer)
		if room == 0 { // there is more, so this is not the last part
			if err := u.flush(ctx); err != nil {
				return err
			}
			continue
		}
		n := min(room, len(p))
		u.grow(n)
		u.buffer = append(u.buffer, p[:n]...)
		p = p[n:]
	}
	return nil
}

// grow makes room for n bytes: a little for small objects, and a whole part for those that need more than that.
func (u *upload) grow(n int) {
	const small = 1 << 20
	if need := len(u.buffer) + n; need <= cap(u.buffer) || need <= small {
		return
	}
	var larger []byte
	if full := u.partSize(); full == int(u.sink.config.PartSize) {
		select {
		case larger = <-u.sink.buffers:
		default:
		}
	}
	if cap(larger) < u.partSize() {
		larger = make([]byte, 0, u.partSize())
	}
	u.buffer = append(larger[:0], u.buffer...)
}

// begin begins an upload of parts.
func (u *upload) begin(ctx context.Context) error {
	if u.begun != nil {
		return nil
	}
	metadata, err := u.made.encode()
	if err != nil {
		return err
	}
	u.entry = &entry{sink: u.sink, token: u.made.writer, Bucket: u.bucket, Key: u.key}
	if err := u.entry.put(ctx); err != nil {
		return err
	}
	u.sink.step(u.prefix + "upload noted")
	begun, err := u.sink.client.BeginUpload(ctx, u.bucket, u.key, metadata)
	if err != nil {
		return err
	}
	u.begun = begun
	u.sink.step(u.prefix + "upload begun")
	u.entry.Upload, u.entry.Doubtful = begun.ID, begun.Doubtful
	if err := u.entry.put(ctx); err != nil {
		return err
	}
	u.sink.step(u.prefix + "upload known")
	return nil
}

// flush sends what is in the buffer on its way as a part.
func (u *upload) flush(ctx context.Context) error {
	if err := u.failure(); err != nil {
		return err
	}
	if err := u.begin(ctx); err != nil {
		return err
	}
	if err := u.next(); err != nil {
		return err
	}
	if err := u.sink.uploads.Acquire(ctx, 1); err != nil {
		return err
	}
	data, number := u.buffer, u.number
	u.buffer = nil
	u.flying.Go(func() {
		defer u.sink.uploads.Release(1)
		part, err := u.sink.client.PutPart(ctx, u.begun, number, data)
		u.arrived(part, err)
		select {
		case u.sink.buffers <- data[:0]:
		default:
		}
	})
	return nil
}

// next counts a part.
func (u *upload) next() error {
	if u.number == s3client.MaxParts {
		return fmt.Errorf("%s has more than %d parts: make them larger", s3client.URI(u.bucket, u.key), s3client.MaxParts)
	}
	u.number++
	return nil
}

func (u *upload) arrived(part s3client.Part, err error) {
	u.mutex.Lock()
	if err == nil {
		u.parts = append(u.parts, part)
	} else if u.err == nil {
		u.err = err
	}
	u.mutex.Unlock()
	u.sink.step(u.prefix + "part uploaded")
}

func (u *upload) failure() error {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return u.err
}

// copy appends the content of an object in the store, as far as possible without reading it.
func (u *upload) copy(ctx context.Context, source *s3client.Info) error {
	from, least := int64(0), u.sink.least
	if len(u.buffer) > 0 { // what is there must become a part first, which must not be too small
		if missing := least - int64(len(u.buffer)); missing > 0 {
			from = min(missing, source.Size)
			if err := u.stream(ctx, source, 0, from); err != nil {
				return err
			}
		}
		if int64(len(u.buffer)) >= least && source.Size-from >= least {
			if err := u.flush(ctx); err != nil {
				return err
			}
		}
	}
	if len(u.buffer) > 0 || source.Size-from < least {
		return u.stream(ctx, source, from, source.Size)
	}
	if err := u.begin(ctx); err != nil {
		return err
	}
	for from < source.Size {
		length := source.Size - from
		if length > s3client.MaxPart {
			length = s3client.MaxPart - least // so that what is left is not too small
		}
		if err := u.next(); err != nil {
			return err
		}
		part, err := u.sink.client.CopyPart(ctx, u.begun, u.number, source, s3client.Range{From: from, Length: length})
		if errors.Is(err, s3client.ErrNotOffered) {
			u.number--
			return u.stream(ctx, source, from, source.Size)
		}
		if err != nil {
			return err
		}
		u.arrived(part, nil)
		u.size += length
		from += length
	}
	return nil
}

// stream appends bytes of an object in the store by reading them.
func (u *upload) stream(ctx context.Context, source *s3client.Info, from, to int64) error {
	r, err := u.sink.client.OpenAt(ctx, source, from)
	if err != nil {
		return err
	}
	defer r.Close()
	piece := make([]byte, 256<<10)
	for from < to {
		n, err := r.Read(piece[:min(int64(len(piece)), to-from)])
		if writeErr := u.write(ctx, piece[:n]); writeErr != nil {
			return writeErr
		}
		from += int64(n)
		if err != nil && from < to {
			return err
		}
	}
	return nil
}

// finish makes the object appear. errLost is returned, with what is known of it, if another is there.
func (u *upload) finish(ctx context.Context) (*s3client.Info, error) {
	metadata, err := u.made.encode()
	if err != nil {
		return nil, err
	}
	if u.begun == nil {
		u.sink.step(u.prefix + "before the object is created")
		_, err = u.sink.client.Put(ctx, u.bucket, u.key, u.buffer, u.condition, metadata)
		u.sink.step(u.prefix + "object created")
		return u.outcome(ctx, err)
	}
	if len(u.buffer) > 0 {
		if err := u.flush(ctx); err != nil {
			return nil, err
		}
	}
	u.flying.Wait()
	if err := u.failure(); err != nil {
		return nil, err
	}
	slices.SortFunc(u.parts, func(a, b s3client.Part) int { return int(a.Number - b.Number) })
	u.sink.step(u.prefix + "before the upload is completed")
	_, err = u.sink.client.Complete(ctx, u.begun, u.parts, u.condition)
	u.sink.step(u.prefix + "upload completed")
	found, err := u.outcome(ctx, err)
	if err == nil {
		u.begun = nil
		return nil, u.entry.remove(ctx)
	}
	return found, err
}

// outcome finds out what became of the request that was to create the object. An error may come after it succeeded:
// its answer was lost, and the next attempt found our own object. So the object's writer decides.
func (u *upload) outcome(ctx context.Context, err error) (*s3client.Info, error) {
	if err == nil {
		return nil, nil
	}
	looking, cancel := afterwards(ctx)
	defer cancel()
	info, headErr := u.sink.client.Head(looking, u.bucket, u.key)
	switch {
	case headErr == nil && info.Metadata[metaWriter] == u.made.writer:
		return nil, nil
	case headErr == nil && (errors.Is(err, s3client.ErrExists) || errors.Is(err, s3client.ErrConflict)):
		return info, errLost
	case errors.Is(err, s3client.ErrConflict), errors.Is(err, s3client.ErrExists) && errors.Is(headErr, s3client.ErrNotFound):
		return nil, fmt.Errorf("%w: %w", producer.ErrFenced, err) // the other may have failed: begin again
	default:
		u.uncertain = true
		return nil, err
	}
}

// abort drops what was uploaded. It is called after finish, too, and does nothing where that succeeded.
func (u *upload) abort() error {
	u.flying.Wait()
	u.buffer = nil
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if u.begun != nil {
		if err := u.sink.client.Abort(ctx, u.begun); err != nil {
			return err
		}
		u.begun = nil
		return u.entry.remove(ctx)
	}
	return nil
}
