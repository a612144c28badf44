package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
)

// ErrClosedPipe is returned where the reader of standard output, or of another pipe, has gone. A process gets it
// instead of being ended only if it ignores SIGPIPE.
var ErrClosedPipe = errors.New("nobody reads the output any more")

// streamWriter writes to something that cannot be taken back: standard output, a pipe, a device.
type streamWriter struct {
	name    string
	out     io.Writer
	encoder Encoder
	buffer  []byte
	at      job.Position
	close   func() error
}

// openStream returns a writer if the path is not of a file, or of one that does not exist yet.
func (s *Sink) openStream(ctx context.Context, path string) (*streamWriter, error) {
	if path == Stdout {
		return &streamWriter{name: "standard output", out: s.config.Stdout, encoder: s.config.Encoder, close: func() error { return nil }}, nil
	}
	file, err := OpenDescriptor(path)
	if err == nil && file == nil {
		file, err = openDevice(ctx, path)
	}
	if err != nil || file == nil {
		return nil, err
	}
	return &streamWriter{name: path, out: file, encoder: s.config.Encoder, close: file.Close}, nil
}

// openDevice opens what is there already and is no file. It returns nil for files.
func openDevice(ctx context.Context, path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil, nil
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder: name a file in it, or give it as the output folder", path)
	}
	opened := make(chan struct{})
	var unblocking sync.WaitGroup
	unblocking.Go(func() { unblockAfter(ctx, path, opened) })
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	close(opened)
	unblocking.Wait() // as long as it reads, the next attempt to open the pipe would succeed
	if err == nil && ctx.Err() != nil {
		_ = file.Close() // nothing was written to it
		return nil, ctx.Err()
	}
	return file, err
}

// unblockAfter waits for the end of ctx, and then makes an attempt to open a named pipe succeed. Otherwise it would wait for somebody
// who reads, which may be for ever.
func unblockAfter(ctx context.Context, path string, opened <-chan struct{}) {
	select {
	case <-opened:
		return
	case <-ctx.Done():
	}
	for {
		unblock(path)
		select {
		case <-opened:
			return
		case <-time.After(10 * time.Millisecond): // the attempt may have begun only now
		}
	}
}

// Write writes the run at once, so that whoever reads does not wait.
func (w *streamWriter) Write(_ context.Context, run []job.Output) error {
	for i := range run {
		var err error
		if w.buffer, err = w.encoder.Append(w.buffer, &run[i]); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if len(w.buffer) >= bufferSize || i == len(run)-1 {
			if err := w.flush(); err != nil {
				return err
			}
		}
		w.at = run[i].Record.End
	}
	return nil
}

func (w *streamWriter) flush() error {
	_, err := w.out.Write(w.buffer)
	w.buffer = w.buffer[:0]
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("%s: %w", w.name, ErrClosedPipe)
	}
	if err != nil {
		return fmt.Errorf("writing to %s: %w", w.name, err)
	}
	return nil
}

// Commit returns the position after what was written: nothing is more durable than that here.
func (w *streamWriter) Commit(context.Context) (job.Position, error) { return w.at, nil }

func (w *streamWriter) Finish(context.Context) error { return nil }

func (w *streamWriter) Close() error { return w.close() }
