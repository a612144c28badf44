package s3client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Reader reads one version of an object from some byte to its end. Where the connection is cut, or gives nothing
// for Config.StallTimeout, it asks for the rest anew, of the same version; ErrReplaced says that there is another one
// now. It is never shorter than the object: io.EOF comes after the last byte only.
type Reader struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	info   Info
	offset int64 // of the next byte

	body    io.ReadCloser
	stop    context.CancelFunc // ends the request that body belongs to
	stalled *time.Timer
	failed  int // attempts since the last byte
}

// Open begins to read an object at its first byte. With an ETag it must be that version.
func (c *Client) Open(ctx context.Context, bucket, key, etag string) (*Reader, error) {
	r := &Reader{client: c, info: Info{Bucket: bucket, Key: key, ETag: etag, Size: -1}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	if err := r.begin(); err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// OpenAt begins to read a known version of an object at a byte.
func (c *Client) OpenAt(ctx context.Context, info *Info, offset int64) (*Reader, error) {
	if offset < 0 || offset > info.Size {
		return nil, &Error{Operation: "reading", Bucket: info.Bucket, Key: info.Key, Err: fmt.Errorf("there is no byte %d: it has %d", offset, info.Size)}
	}
	r := &Reader{client: c, info: *info, offset: offset}
	r.ctx, r.cancel = context.WithCancel(ctx)
	if offset == info.Size {
		return r, nil
	}
	if err := r.begin(); err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// begin asks for the bytes from the offset on.
func (r *Reader) begin() error {
	ctx, stop := context.WithCancel(r.ctx)
	body, info, err := r.client.Get(ctx, r.info.Bucket, r.info.Key, r.info.ETag, Range{From: r.offset})
	if err != nil {
		stop()
		return err
	}
	if r.info.Size < 0 || r.info.ETag == "" {
		info.Size += r.offset
		r.info = *info
	} else if info.Size != r.info.Size-r.offset {
		body.Close()
		stop()
		return &Error{Operation: "reading", Bucket: r.info.Bucket, Key: r.info.Key, Kind: ErrReplaced, Err: fmt.Errorf("%d bytes follow byte %d, and there should be %d", info.Size, r.offset, r.info.Size-r.offset)}
	}
	r.info.Encoding, r.info.StorageClass = info.Encoding, info.StorageClass
	r.body, r.stop = body, stop
	r.stalled = time.AfterFunc(time.Hour, stop)
	r.stalled.Stop()
	return nil
}

// Info returns what is known of the object.
func (r *Reader) Info() *Info { return &r.info }

// Read reads the next bytes.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		if r.offset >= r.info.Size {
			return 0, io.EOF
		}
		if r.body == nil {
			if err := r.begin(); err != nil {
				return 0, err
			}
		}
		r.stalled.Reset(r.client.config.StallTimeout)
		n, err := r.body.Read(p[:min(int64(len(p)), r.info.Size-r.offset)])
		r.stalled.Stop()
		r.offset += int64(n)
		if n > 0 {
			r.failed = 0
		}
		if err != nil && r.offset < r.info.Size {
			if again := r.again(err); again != nil {
				return n, again
			}
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
}

// again prepares to ask for the rest, or says why not.
func (r *Reader) again(err error) error {
	r.drop()
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	r.failed++
	if r.failed >= r.client.config.Attempts {
		return &Error{Operation: "reading", Bucket: r.info.Bucket, Key: r.info.Key, Err: fmt.Errorf("byte %d of %d, after %d attempts: %w", r.offset, r.info.Size, r.failed, err)}
	}
	pause := min(r.client.config.MaxBackoff, 50*time.Millisecond<<r.failed)
	select {
	case <-time.After(pause):
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// drop ends the request that is going on.
func (r *Reader) drop() {
	if r.body == nil {
		return
	}
	r.stop()
	r.stalled.Stop()
	r.body.Close()
	r.body = nil
}

// Close ends the reading.
func (r *Reader) Close() error {
	r.cancel()
	r.drop()
	return nil
}

// The blocks in which a ReaderAt fetches, and how many of them it keeps.
const (
	blockSize  = 1 << 20
	keptBlocks = 8
)

// A ReaderAt reads one version of an object at any place, in blocks of which it keeps the last few: a reader of
// columns asks for small pieces that lie close together.
type ReaderAt struct {
	client *Client
	ctx    context.Context
	info   Info

	mutex  sync.Mutex
	blocks []block // the last used at the end
}

type block struct {
	from int64
	data []byte
}

// At returns a ReaderAt of a known version of an object. ctx ends its requests.
func (c *Client) At(ctx context.Context, info *Info) *ReaderAt {
	return &ReaderAt{client: c, ctx: ctx, info: *info}
}

// ReadAt reads into p from a byte on. It is io.ReaderAt's.
func (r *ReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("%s: there is no byte %d", r.info.URI(), offset)
	}
	done := 0
	for done < len(p) {
		at := offset + int64(done)
		if at >= r.info.Size {
			return done, io.EOF
		}
		data, err := r.block(at / blockSize * blockSize)
		if err != nil {
			return done, err
		}
		done += copy(p[done:], data[at%blockSize:])
	}
	return done, nil
}

// block returns the bytes of the block that begins at a byte.
func (r *ReaderAt) block(from int64) ([]byte, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for i, b := range r.blocks {
		if b.from == from {
			r.blocks = append(append(r.blocks[:i:i], r.blocks[i+1:]...), b)
			return b.data, nil
		}
	}
	data, err := r.fetch(from, min(blockSize, r.info.Size-from))
	if err != nil {
		return nil, err
	}
	if len(r.blocks) == keptBlocks {
		r.blocks = append(r.blocks[:0:0], r.blocks[1:]...)
	}
	r.blocks = append(r.blocks, block{from, data})
	return data, nil
}

// fetch reads a range whole, asking again where the connection is cut.
func (r *ReaderAt) fetch(from, length int64) ([]byte, error) {
	data := make([]byte, length)
	var failure error
	for failed := range r.client.config.Attempts {
		if failed > 0 {
			select {
			case <-time.After(min(r.client.config.MaxBackoff, 50*time.Millisecond<<failed)):
			case <-r.ctx.Done():
				return nil, r.ctx.Err()
			}
		}
		failure = r.fetchOnce(from, data)
		var known *Error
		if failure == nil || r.ctx.Err() != nil || errors.As(failure, &known) {
			return data, failure
		}
	}
	return nil, &Error{Operation: "reading", Bucket: r.info.Bucket, Key: r.info.Key, Err: fmt.Errorf("byte %d of %d: %w", from, r.info.Size, failure)}
}

func (r *ReaderAt) fetchOnce(from int64, data []byte) error {
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	body, _, err := r.client.Get(ctx, r.info.Bucket, r.info.Key, r.info.ETag, Range{From: from, Length: int64(len(data))})
	if err != nil {
		return err
	}
	defer body.Close()
	stalled := time.AfterFunc(r.client.config.StallTimeout, stop)
	defer stalled.Stop()
	for done := 0; done < len(data); {
		n, err := body.Read(data[done:])
		done += n
		stalled.Reset(r.client.config.StallTimeout)
		if err != nil && done < len(data) {
			return fmt.Errorf("the answer ends after %d of %d bytes: %w", done, len(data), err)
		}
	}
	return nil
}
