// Package chain writes the outputs of a lane that does not end, in pieces that follow each other without gap or
// overlap: objects of a bucket, or files of a folder.
//
// A piece is named by the offset at which it begins and tells where it ends; the next one begins there. It is created
// only if there is none of that name. So the pieces that are there say where the lane continues, however they were
// cut, and of two writers that both believe to have the lane one cannot go on.
package chain

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

const digits = 20 // of an int64, with one to spare, so that names sort as numbers do

// Name returns the name of the piece that begins at an offset, without its ending.
func Name(offset int64) string { return fmt.Sprintf("%0*d", digits, offset) }

// ParseName reads the offset in the name of a piece, and its ending. Names of other things have none.
func ParseName(name string) (offset int64, ending string, ok bool) {
	if len(name) < digits || strings.Trim(name[:digits], "0123456789") != "" || len(name) > digits && name[digits] >= '0' && name[digits] <= '9' {
		return 0, "", false
	}
	offset, err := strconv.ParseInt(name[:digits], 10, 64)
	return offset, name[digits:], err == nil
}

// A Piece is a run of outputs that becomes visible at once.
type Piece struct {
	Start, End job.Position
	Records    int64  // in Data
	Data       []byte // valid during the call of Create
	Letters    []byte // dead letters of the records that are not in Data
}

// A Store keeps the pieces of one lane. Create makes a piece durable and visible, its letters with it, if there is
// none that begins at the same offset; otherwise it returns producer.ErrFenced. Close lets go of the lane.
type Store interface {
	Create(ctx context.Context, piece *Piece) error
	Close() error
}

// An Encoder turns an output into bytes that depend on nothing but the output.
type Encoder interface {
	Append(dst []byte, output *job.Output) ([]byte, error)
}

// Config says how a lane is cut into pieces. They are cut at commits, and where one would become too large.
type Config struct {
	Lane    string
	Encoder Encoder
	Format  compress.Format
	Bytes   int64            // a piece of so many bytes is created at once
	Age     time.Duration    // a commit creates a piece only if its first record is older; 0 is at every commit
	Letters bool             // records that could not be translated become letters, and are missing from the data
	Now     func() time.Time // nil is time.Now
}

// A Writer is a producer.Writer of a chain. The piece that is open is in memory, since where it ends must be known when
// it is created.
type Writer struct {
	config  Config
	store   Store
	durable job.Position // where the open piece begins
	at      job.Position // behind the last output written
	asked   job.Position // where a commit was asked for that has not created a piece

	open   bool // there is something in the piece
	began  time.Time
	piece  Piece
	packed *compress.Writer
	record []byte
	err    error // the first failure; nothing is written after it
}

// NewWriter returns a Writer that continues a chain at its end.
func NewWriter(config Config, store Store, end job.Position) *Writer {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Writer{config: config, store: store, durable: end, at: end, asked: end}
}

// Write encodes a run. A piece that becomes too large is created at once.
func (w *Writer) Write(ctx context.Context, run []job.Output) error {
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

func (w *Writer) writeOne(ctx context.Context, output *job.Output) error {
	end := output.Record.End
	if end.Input != 0 || end.Offset <= w.at.Offset {
		return fmt.Errorf("a chain cannot hold a lane that goes on at %+v after %+v", end, w.at)
	}
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.encode(output); err != nil {
		return err
	}
	w.at = end
	if int64(len(w.piece.Data)+len(w.piece.Letters)) >= w.config.Bytes {
		return w.create(ctx)
	}
	return nil
}

// begin opens a piece, if none is open.
func (w *Writer) begin() error {
	if w.open {
		return nil
	}
	w.open, w.began = true, w.config.Now()
	w.piece = Piece{Start: w.durable, Data: w.piece.Data[:0], Letters: w.piece.Letters[:0]}
	var err error
	w.packed, err = compress.NewWriter(memory{&w.piece}, w.config.Format)
	return err
}

// memory appends to the data of a piece.
type memory struct{ piece *Piece }

func (m memory) Write(p []byte) (int, error) {
	m.piece.Data = append(m.piece.Data, p...)
	return len(p), nil
}

func (w *Writer) encode(output *job.Output) error {
	var err error
	if w.config.Letters && deadletter.Failed(output) != nil {
		letter := deadletter.Of(w.config.Lane, output)
		letter.Time = w.config.Now().UTC()
		w.piece.Letters, err = deadletter.Append(w.piece.Letters, &letter)
		return err
	}
	if w.record, err = w.config.Encoder.Append(w.record[:0], output); err != nil {
		return err
	}
	w.piece.Records++
	if _, err := w.packed.Write(w.record); err != nil {
		return err
	}
	_, err = w.packed.Cut()
	return err
}

func (w *Writer) fail(err error) error {
	w.err = fmt.Errorf("writing what follows %+v of %s: %w", w.durable, w.config.Lane, err)
	return w.err
}

// Commit creates the open piece if it is old enough. It returns where the pieces that were created end.
func (w *Writer) Commit(ctx context.Context) (job.Position, error) {
	if w.err != nil {
		return w.durable, w.err
	}
	w.asked = w.at
	if w.open && w.config.Now().Sub(w.began) >= w.config.Age {
		if err := w.create(ctx); err != nil {
			return w.durable, w.fail(err)
		}
	}
	return w.durable, nil
}

func (w *Writer) create(ctx context.Context) error {
	if err := w.packed.Finish(true); err != nil {
		return err
	}
	w.piece.End = w.at
	if err := w.store.Create(ctx, &w.piece); err != nil {
		return err
	}
	w.durable, w.open = w.at, false
	return nil
}

// Finish creates what is open. There is nothing that says that the lane has ended.
func (w *Writer) Finish(ctx context.Context) error {
	if w.err != nil || !w.open {
		return w.err
	}
	if err := w.create(ctx); err != nil {
		return w.fail(err)
	}
	return nil
}

// closing is how long the last piece may take.
const closing = time.Minute

// Close creates the piece of a commit that was put off, and drops what no commit was asked for.
func (w *Writer) Close() error {
	var err error
	if w.open && w.err == nil && w.asked == w.at {
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		err = w.create(ctx)
		if errors.Is(err, producer.ErrFenced) {
			err = nil // what another writer has is not missing
		}
	}
	return errors.Join(err, w.store.Close())
}
