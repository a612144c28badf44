package s3

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/producer"
)

// chain is the objects of a lane that does not end: FOLDER/00000000000000001042.jsonl has the outputs of the records
// from offset 1042 on, up to the position in its metadata, at which the next one begins.
type chain struct {
	sink   *Sink
	lane   string
	bucket string
	folder string // of the keys, with a slash at the end
	below  string // the same below the output's prefix
	suffix string
}

const chainDigits = 20 // of an int64, with one to spare, so that names sort as numbers do

func chainName(offset int64) string { return fmt.Sprintf("%0*d", chainDigits, offset) }

func (c *chain) key(offset int64) string { return c.folder + chainName(offset) + c.suffix }

// start reads the offset in a key. Objects that others have put into the folder have none.
func (c *chain) start(key string) (int64, bool) {
	name := strings.TrimPrefix(key, c.folder)
	if len(name) < chainDigits || strings.Trim(name[:chainDigits], "0123456789") != "" || len(name) > chainDigits && name[chainDigits] >= '0' && name[chainDigits] <= '9' {
		return 0, false
	}
	offset, err := strconv.ParseInt(name[:chainDigits], 10, 64)
	return offset, err == nil
}

// openChain goes to the end of a lane's chain.
func (s *Sink) openChain(ctx context.Context, lane, relative string) (producer.Writer, job.Position, error) {
	below := strings.TrimSuffix(relative, "/") + "/"
	c := &chain{sink: s, lane: lane, bucket: s.output.bucket, folder: s.output.prefix + below, below: below, suffix: s.config.Chain.Suffix}
	end, last, err := c.end(ctx)
	if err != nil {
		return nil, job.Position{}, err
	}
	if last != nil {
		if err := c.settleLast(ctx, last); err != nil {
			return nil, job.Position{}, err
		}
	}
	return &chainWriter{chain: c, durable: end, at: end}, end, nil
}

// settleLast checks what the last object was made with, and tidies up after its writer.
func (c *chain) settleLast(ctx context.Context, last *s3client.Info) error {
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

func (c *chain) letters(offset int64, writer string) *letters {
	if c.sink.letters == nil {
		return nil
	}
	return c.sink.newLetters(c.lane, c.sink.letters.bucket, c.sink.letters.prefix+c.below+chainName(offset), writer)
}

// end walks to the end of the chain. A listing says where to begin to walk, and is not relied on further.
func (c *chain) end(ctx context.Context) (job.Position, *s3client.Info, error) {
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
func (c *chain) next(info *s3client.Info, start int64) (job.Position, error) {
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
func (c *chain) hint(ctx context.Context) (int64, error) {
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
func (c *chain) search(ctx context.Context, low int64) (int64, error) {
	from := func(offset int64) (int64, bool, error) {
		key, err := c.sink.client.FirstAfter(ctx, c.bucket, c.folder, c.folder+chainName(offset))
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

// chainWriter writes the objects of a chain, one after the other. The one that is open is in memory, since where it
// ends must be known when it is begun.
type chainWriter struct {
	chain   *chain
	durable job.Position // where the open object begins
	at      job.Position // behind the last output written
	asked   job.Position // where a commit was asked for that has not created an object

	made    *made // of the open object; nil if there is none
	began   time.Time
	data    memory
	packed  *compress.Writer
	letters *letters
	record  []byte
	records int64
	err     error // the first failure; nothing is written after it
}

// memory is an object that is open.
type memory struct{ data []byte }

func (m *memory) Write(p []byte) (int, error) {
	m.data = append(m.data, p...)
	return len(p), nil
}

// Write encodes a run. An object that would become too large is created at once.
func (w *chainWriter) Write(ctx context.Context, run []job.Output) error {
	if w.err != nil {
		return w.err
	}
	for i := range run {
		if err := w.writeOne(ctx, &run[i]); err != nil {
			return w.fail(err)
		}
	}
	return nil
}

func (w *chainWriter) writeOne(ctx context.Context, output *job.Output) error {
	end := output.Record.End
	if end.Input != 0 || end.Offset <= w.at.Offset {
		return fmt.Errorf("a chain cannot hold a lane that goes on at %+v after %+v", end, w.at)
	}
	if w.made == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	dead, err := w.letters.take(ctx, output)
	if err != nil {
		return err
	}
	if !dead {
		if err := w.encode(output); err != nil {
			return err
		}
	}
	w.at = end
	if int64(len(w.data.data)) >= w.chain.sink.config.Chain.Bytes {
		return w.create(ctx)
	}
	return nil
}

func (w *chainWriter) begin() error {
	c := w.chain
	w.made, w.began, w.records = c.sink.describe(nil), c.sink.now(), 0
	w.letters = c.letters(w.durable.Offset, w.made.writer)
	w.data.data = w.data.data[:0]
	var err error
	w.packed, err = compress.NewWriter(&w.data, compress.BySuffix(c.suffix))
	return err
}

func (w *chainWriter) encode(output *job.Output) error {
	var err error
	if w.record, err = w.chain.sink.config.Encoder.Append(w.record[:0], output); err != nil {
		return err
	}
	w.records++
	if _, err := w.packed.Write(w.record); err != nil {
		return err
	}
	_, err = w.packed.Cut()
	return err
}

func (w *chainWriter) fail(err error) error {
	w.err = fmt.Errorf("writing %s: %w", s3client.URI(w.chain.bucket, w.chain.key(w.durable.Offset)), err)
	return w.err
}

// Commit creates the open object if it is old enough.
func (w *chainWriter) Commit(ctx context.Context) (job.Position, error) {
	if w.err != nil {
		return w.durable, w.err
	}
	w.asked = w.at
	if w.made != nil && w.chain.sink.now().Sub(w.began) >= w.chain.sink.config.Chain.Age {
		if err := w.create(ctx); err != nil {
			return w.durable, w.fail(err)
		}
	}
	return w.durable, nil
}

// create makes the open object appear. If there is one that begins at the same position, another writer has the lane.
func (w *chainWriter) create(ctx context.Context) error {
	c := w.chain
	if err := w.packed.Finish(true); err != nil {
		return err
	}
	end := w.at
	w.made.records, w.made.end = w.records, &end
	if err := w.letters.put(ctx); err != nil {
		return err
	}
	object := c.sink.newUpload(c.bucket, c.key(w.durable.Offset), w.made, s3client.Condition{Absent: true})
	object.buffer = w.data.data
	if _, err := object.finish(ctx); err != nil {
		if errors.Is(err, errLost) {
			err = fmt.Errorf("%w: %w", producer.ErrFenced, err)
		}
		return err
	}
	written := w.letters
	w.durable, w.made, w.letters = w.at, nil, nil
	return written.clean(ctx, object.made.writer)
}

// Finish creates what is open. There is nothing that says that the lane has ended.
func (w *chainWriter) Finish(ctx context.Context) error {
	if w.err != nil || w.made == nil {
		return w.err
	}
	if err := w.create(ctx); err != nil {
		return w.fail(err)
	}
	return nil
}

// Close creates the object of a commit that was put off, and drops what no commit was asked for.
func (w *chainWriter) Close() error {
	if w.made == nil {
		return nil
	}
	ctx, cancel := afterwards(context.Background())
	defer cancel()
	if w.err == nil && w.asked == w.at {
		err := w.create(ctx)
		if err == nil || errors.Is(err, producer.ErrFenced) {
			return w.letters.drop(ctx) // if it is another's; what is missing is done again
		}
		return errors.Join(err, w.letters.drop(ctx))
	}
	return w.letters.drop(ctx)
}
