package s3

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sluice-mt/sluice/internal/chain"
	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/producer"
)

// objects is the chain of objects of a lane that does not end: FOLDER/00000000000000001042.jsonl has the outputs of the
// records from offset 1042 on, up to the position in its metadata, at which the next one begins. It is a chain.Store.
type objects struct {
	sink   *Sink
	lane   string
	bucket string
	folder string // of the keys, with a slash at the end
	below  string // the same below the output's prefix
	suffix string
}

func (c *objects) key(offset int64) string { return c.folder + chain.Name(offset) + c.suffix }

// start reads the offset in a key. Objects that others have put into the folder have none.
func (c *objects) start(key string) (int64, bool) {
	offset, _, ok := chain.ParseName(strings.TrimPrefix(key, c.folder))
	return offset, ok
}

// openChain goes to the end of a lane's chain.
func (s *Sink) openChain(ctx context.Context, lane, relative string) (producer.Writer, job.Position, error) {
	below := strings.TrimSuffix(relative, "/") + "/"
	c := &objects{sink: s, lane: lane, bucket: s.output.bucket, folder: s.output.prefix + below, below: below, suffix: s.config.Chain.Suffix}
	end, last, err := c.end(ctx)
	if err != nil {
		return nil, job.Position{}, err
	}
	if last != nil {
		if err := c.settleLast(ctx, last); err != nil {
			return nil, job.Position{}, err
		}
	}
	config := chain.Config{
		Lane: lane, Encoder: s.config.Encoder, Format: compress.BySuffix(c.suffix), Bytes: s.config.Chain.Bytes, Age: s.config.Chain.Age,
		Letters: s.letters != nil, Now: s.now,
	}
	return chain.NewWriter(config, c, end), end, nil
}

// settleLast checks what the last object was made with, and tidies up after its writer.
func (c *objects) settleLast(ctx context.Context, last *s3client.Info) error {
	found, err := parseMade(last)
	if err != nil {
		return err
	}
	if !c.sink.config.Chain.Continue {
		if err := c.sink.compare(c.lane, last, found, nil); err != nil {
			return err
		}
	}
	start, _ := c.start(last.Key)
	return c.letters(start, found.writer).clean(ctx, found.writer)
}

func (c *objects) letters(offset int64, writer string) *letters {
	if c.sink.letters == nil {
		return nil
	}
	return c.sink.newLetters(c.lane, c.sink.letters.bucket, c.sink.letters.prefix+c.below+chain.Name(offset), writer)
}

// end walks to the end of the chain. A listing says where to begin to walk, and is not relied on further.
func (c *objects) end(ctx context.Context) (job.Position, *s3client.Info, error) {
	at, err := c.hint(ctx)
	if err != nil {
		return job.Position{}, nil, err
	}
	end := job.Position{Offset: at}
	var last *s3client.Info
	for {
		info, err := c.sink.client.Head(ctx, c.bucket, c.key(end.Offset))
		if errors.Is(err, s3client.ErrNotFound) {
			if last == nil && at > 0 {
				return job.Position{}, nil, fmt.Errorf("%s: the chain of objects ends in one that was removed", s3client.URI(c.bucket, c.key(at)))
			}
			return end, last, nil
		}
		if err != nil {
			return job.Position{}, nil, err
		}
		next, err := c.next(info, end.Offset)
		if err != nil {
			return job.Position{}, nil, err
		}
		end, last = next, info
	}
}

// next reads where an object of the chain ends.
func (c *objects) next(info *s3client.Info, start int64) (job.Position, error) {
	found, err := parseMade(info)
	if err != nil {
		return job.Position{}, err
	}
	if found.end == nil || found.end.Offset <= start {
		return job.Position{}, fmt.Errorf("%s: its metadata do not say where it ends, so it is not of this chain: move it away", info.URI())
	}
	return *found.end, nil
}

// mostListed is how many objects of a chain are listed before its end is searched for.
const mostListed = 1000

// hint returns the offset at which the last object begins that listings show, 0 if there is none.
func (c *objects) hint(ctx context.Context) (int64, error) {
	last, n := int64(0), 0
	err := c.sink.client.List(ctx, c.bucket, c.folder, "", func(info *s3client.Info) (bool, error) {
		n++
		offset, ok := c.start(info.Key)
		if ok && info.Key != c.key(offset) {
			return false, fmt.Errorf("%s does not end in %q, as this job would name it: go on with the ending that it has, or move the chain away", info.URI(), c.suffix)
		}
		if ok {
			last = offset
		}
		return n < mostListed, nil
	})
	if err != nil || n < mostListed {
		return last, err
	}
	return c.search(ctx, last)
}

// search finds the last object behind a known one: first in steps that double, then by halving.
func (c *objects) search(ctx context.Context, low int64) (int64, error) {
	from := func(offset int64) (int64, bool, error) {
		key, err := c.sink.client.FirstAfter(ctx, c.bucket, c.folder, c.folder+chain.Name(offset))
		found, ok := c.start(key)
		return found, ok, err
	}
	high := int64(math.MaxInt64)
	for step := int64(1024); low < math.MaxInt64-step; step *= 2 {
		found, ok, err := from(low + step)
		if err != nil {
			return 0, err
		}
		if !ok {
			high = low + step
			break
		}
		low = found
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		found, ok, err := from(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			low = found
		} else {
			high = middle
		}
	}
	return low, nil
}

// Create makes a piece an object, which must be the first that begins there.
func (c *objects) Create(ctx context.Context, piece *chain.Piece) error {
	m := c.sink.describe(nil)
	m.records, m.end = piece.Records, &piece.End
	object := c.sink.newUpload(c.bucket, c.key(piece.Start.Offset), m, s3client.Condition{Absent: true})
	object.buffer = piece.Data // which is written in one request, however large it is
	l := c.letters(piece.Start.Offset, m.writer)
	if len(piece.Letters) > 0 {
		if err := l.add(ctx, piece.Letters); err != nil {
			return errors.Join(err, l.drop(ctx, object))
		}
	}
	if err := l.put(ctx); err != nil {
		return errors.Join(err, l.drop(ctx, object))
	}
	if _, err := object.finish(ctx); err != nil {
		if errors.Is(err, errLost) {
			err = fmt.Errorf("%s: %w: %w", s3client.URI(c.bucket, object.key), producer.ErrFenced, err)
		}
		return errors.Join(err, l.drop(ctx, object))
	}
	return l.clean(ctx, m.writer)
}

// Close has nothing to let go of.
func (c *objects) Close() error { return nil }
