package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
)

const bufferSize = 256 << 10

// names are the paths of one output.
type names struct{ final, partial, checkpoint, assembled string }

func namesOf(path string) names {
	return names{path, path + PartialSuffix, path + CheckpointSuffix, path + ".assembled"}
}

// writer writes one file.
type writer struct {
	sink   *Sink
	lane   string
	names  names
	format compress.Format

	file     *os.File // the partial file, locked
	length   int64    // of it, including what is in buffered
	buffered *bufio.Writer
	packed   *compress.Writer
	record   []byte
	letters  *letters // nil if failed records keep their place in the output

	saved checkpoint   // what the checkpoint file says
	cut   mark         // the last place at which the output can be cut
	at    job.Position // behind the last output written
	fresh bool         // nothing was there before
	done  bool         // published
	err   error        // the first failure; nothing is written after it
}

// A mark is a length of the output and the position in the input that belongs to it.
type mark struct {
	length   int64
	letters  int64 // length of the file of dead letters
	position job.Position
}

// start makes the writer ready to append behind the saved checkpoint.
func (w *writer) start() error {
	if err := w.file.Truncate(w.saved.Length); err != nil {
		return err
	}
	if _, err := w.file.Seek(w.saved.Length, io.SeekStart); err != nil {
		return err
	}
	w.length = w.saved.Length
	w.at = w.saved.Position
	w.cut = mark{w.length, w.saved.Letters, w.at}
	if err := w.startLetters(); err != nil {
		return err
	}
	w.buffered = bufio.NewWriterSize(w.file, bufferSize)
	format := w.format
	if w.sink.config.Assemble != nil {
		format = compress.Gzip // of the spool
	}
	var err error
	w.packed, err = compress.NewWriter(counting{w}, format)
	return err
}

// startLetters cuts the dead letters to those that count.
func (w *writer) startLetters() error {
	if w.sink.config.DeadLetters == nil {
		return nil
	}
	path, err := w.sink.config.DeadLetters(w.lane)
	if err != nil {
		return err
	}
	w.letters, err = openLetters(path, w.saved.Letters)
	return err
}

// mark is the present end of everything.
func (w *writer) mark() mark {
	m := mark{length: w.length, position: w.at}
	if w.letters != nil {
		m.letters = w.letters.length
	}
	return m
}

// counting counts the bytes of the output on their way into the buffer.
type counting struct{ *writer }

func (c counting) Write(p []byte) (int, error) {
	n, err := c.buffered.Write(p)
	c.length += int64(n)
	return n, err
}

// Write encodes a run. What it gives reaches the disk with Commit at the latest.
func (w *writer) Write(_ context.Context, run []job.Output) error {
	if w.err != nil {
		return w.err
	}
	for i := range run {
		if err := w.writeOne(&run[i]); err != nil {
			return w.fail(err)
		}
	}
	return nil
}

func (w *writer) writeOne(output *job.Output) error {
	if w.letters != nil && deadletter.Failed(output) != nil {
		if err := w.letters.add(w.lane, output); err != nil {
			return err
		}
	} else if err := w.writeRecord(output); err != nil {
		return err
	}
	w.at = output.Record.End
	complete, err := w.packed.Cut()
	if complete && err == nil {
		w.cut = w.mark()
	}
	return err
}

func (w *writer) writeRecord(output *job.Output) (err error) {
	if w.record, err = w.sink.config.Encoder.Append(w.record[:0], output); err != nil {
		return err
	}
	_, err = w.packed.Write(w.record)
	return err
}

func (w *writer) fail(err error) error {
	w.err = fmt.Errorf("writing %s: %w", w.names.final, explained(err))
	return w.err
}

// Commit makes everything durable up to the last place at which the output can be cut.
func (w *writer) Commit(context.Context) (job.Position, error) {
	if w.err != nil {
		return w.saved.Position, w.err
	}
	if w.cut.position == w.saved.Position {
		return w.saved.Position, nil
	}
	if err := w.commit(); err != nil {
		return w.saved.Position, w.fail(err)
	}
	return w.saved.Position, nil
}

func (w *writer) commit() error {
	if err := w.flush(); err != nil {
		return err
	}
	next := w.saved
	next.Position, next.Length, next.Letters = w.cut.position, w.cut.length, w.cut.letters
	var err error
	if next.Input, err = w.sink.identity(w.lane); err != nil {
		return err
	}
	if err := next.save(w.names.checkpoint, true, w.sink.step); err != nil {
		return err
	}
	w.saved = next
	w.sink.step("committed")
	return nil
}

// flush brings the partial file to the disk.
func (w *writer) flush() error {
	if err := w.buffered.Flush(); err != nil {
		return err
	}
	w.sink.step("data written")
	if err := w.file.Sync(); err != nil {
		return err
	}
	w.sink.step("data synced")
	if w.letters == nil {
		return nil
	}
	return w.letters.sync()
}

// Finish publishes the output under its name.
func (w *writer) Finish(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	if err := w.finish(ctx); err != nil {
		return w.fail(err)
	}
	w.done = true
	return nil
}

func (w *writer) finish(ctx context.Context) error {
	if err := w.packed.Finish(w.length == 0); err != nil {
		return err
	}
	w.cut = w.mark()
	if err := w.flush(); err != nil {
		return err
	}
	source := w.names.partial
	if w.sink.config.Assemble != nil {
		if err := w.assemble(ctx); err != nil {
			return err
		}
		source = w.names.assembled
	}
	if err := w.publish(source); err != nil {
		return err
	}
	return w.settle()
}

func (w *writer) publish(source string) error {
	rename := renameNew
	if w.saved.Replaces {
		rename = os.Rename
	}
	if err := rename(source, w.names.final); err != nil {
		return err
	}
	w.sink.step("output renamed")
	return syncFolder(filepath.Dir(w.names.final))
}

// settle notes that the output is complete and removes what led to it.
func (w *writer) settle() error {
	info, err := os.Stat(w.names.final)
	if err != nil {
		return err
	}
	identity, err := w.sink.identity(w.lane)
	if err != nil {
		return err
	}
	if err := w.sink.ledger.add(w.names.final, finished{Size: info.Size(), Input: identity, MadeWith: w.sink.config.MadeWith}); err != nil {
		return err
	}
	w.sink.step("output noted")
	if w.sink.config.Assemble != nil { // otherwise it was renamed, and someone else's may have the name by now
		if err := remove(w.names.partial); err != nil {
			return err
		}
	}
	if err := removeCheckpoint(w.names.checkpoint); err != nil {
		return err
	}
	w.sink.step("checkpoint removed")
	return nil
}

// assemble makes the output from the spool, which is the partial file.
func (w *writer) assemble(ctx context.Context) error {
	out, err := os.OpenFile(w.names.assembled, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	defer out.Close()
	spool, err := compress.NewReader(io.NewSectionReader(w.file, 0, w.length))
	if err != nil {
		return err
	}
	defer spool.Close()
	buffered := bufio.NewWriterSize(out, bufferSize)
	if err := w.sink.config.Assemble(ctx, w.lane, spool, buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		return err
	}
	w.saved.Inode = inode(info)
	w.sink.step("output assembled")
	return w.commit()
}

// Close gives up the lock. An output of which nothing was committed leaves nothing behind.
func (w *writer) Close() error {
	var err error
	untouched := !w.done && w.fresh && w.saved.Position == (job.Position{})
	if w.letters != nil {
		err = w.letters.close()
		if untouched {
			err = errors.Join(err, remove(w.letters.path))
		}
	}
	if untouched {
		err = errors.Join(err, removeCheckpoint(w.names.checkpoint), remove(w.names.partial))
	}
	return errors.Join(err, w.file.Close())
}
