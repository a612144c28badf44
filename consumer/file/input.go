package file

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/recordio"
)

// An input is one file, or one pipe.
type input struct {
	path     string // as a user knows it
	relative string // in an output folder, with slashes
	size     int64  // before decompression, of a file
	info     fs.FileInfo
	stdin    *os.File
	pipe     *pipe // nil for a regular file
	known    atomic.Pointer[inputIdentity]
}

func stdinInput(stdin *os.File) (*input, error) {
	info, err := stdin.Stat()
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	in := &input{path: Stdin, relative: "stdin", stdin: stdin, info: info}
	at, err := stdin.Seek(0, io.SeekCurrent)
	if info.Mode().IsRegular() && err == nil && at == 0 {
		in.size = info.Size()
	} else {
		in.pipe = &pipe{}
	}
	return in, nil
}

// open opens a regular file, which may be standard input, at whatever byte that is.
func (in *input) open() (*os.File, error) {
	if in.stdin == nil {
		return os.Open(in.path)
	}
	return in.stdin, nil
}

// release closes what open gave.
func (in *input) release(file *os.File) error {
	if file == in.stdin {
		return nil
	}
	return file.Close()
}

// unchanged compares a file with what was known of it.
func (in *input) unchanged(info fs.FileInfo) error {
	known := in.known.Load()
	if known != nil && (info.Size() != known.Size || info.ModTime().UnixNano() != known.ModTime) {
		return fmt.Errorf("%s was changed while it was in use", in.path)
	}
	return nil
}

// stream is the inflated bytes of an input. It is a recordio.Stream.
type stream struct {
	in      *input
	file    *os.File // nil for a pipe
	opened  fs.FileInfo
	counted *counted
	inflate *compress.Reader
	plain   io.Reader
	offset  int64 // of the next byte of plain
	close   func() error
}

// newStream opens an input. done counts the bytes taken from it; once closing is true, no more are.
func newStream(in *input, done *atomic.Int64, closing *atomic.Bool) (*stream, error) {
	s := &stream{in: in, counted: &counted{done: done, closing: closing}}
	if err := s.open(); err != nil {
		return nil, err
	}
	var err error
	if s.inflate, err = compress.NewReader(s.counted); err != nil {
		_ = s.close() // the first error is the one to tell
		return nil, fmt.Errorf("%s: %w", in.path, err)
	}
	s.plain = s.inflate
	return s, nil
}

func (s *stream) open() error {
	if s.in.pipe != nil {
		if err := s.in.pipe.open(s.in); err != nil {
			return err
		}
		s.counted.in, s.close = s.in.pipe, s.in.pipe.close
		return nil
	}
	file, err := s.in.open()
	if err != nil {
		return err
	}
	s.file, s.counted.in = file, file
	s.close = func() error { return s.in.release(file) }
	if s.opened, err = file.Stat(); err == nil {
		err = s.in.unchanged(s.opened)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = s.close() // the first error is the one to tell
	}
	return err
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.plain.Read(p)
	s.offset += int64(n)
	if err == io.EOF && s.file != nil {
		info, statErr := s.file.Stat()
		if statErr == nil && (info.Size() != s.opened.Size() || !info.ModTime().Equal(s.opened.ModTime())) {
			err = fmt.Errorf("the file was changed while it was read: it had %d bytes of %s and now has %d of %s",
				s.opened.Size(), s.opened.ModTime().Format(time.RFC3339Nano), info.Size(), info.ModTime().Format(time.RFC3339Nano))
		}
	}
	return n, err
}

// SkipTo continues at a byte behind a line break.
func (s *stream) SkipTo(offset int64) error {
	if s.file != nil && s.inflate.Format() == compress.Plain {
		return s.seek(offset)
	}
	if offset <= s.offset {
		return fmt.Errorf("byte %d has been passed already", offset)
	}
	last, err := recordio.Skip(s, offset-s.offset)
	if err == io.EOF {
		return fmt.Errorf("cannot continue at byte %d: the input ends at byte %d", offset, s.offset)
	}
	if err != nil {
		return err
	}
	return s.checkBreak(last, offset)
}

func (s *stream) seek(offset int64) error {
	if offset > s.opened.Size() {
		return fmt.Errorf("cannot continue at byte %d: the input ends at byte %d", offset, s.opened.Size())
	}
	var last [1]byte
	if _, err := s.file.ReadAt(last[:], offset-1); err != nil {
		return err
	}
	if _, err := s.file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	s.counted.done.Add(offset - s.counted.own)
	s.plain, s.offset = s.counted, offset
	return s.checkBreak(last[0], offset)
}

// checkBreak is given the byte before offset. A last line may end without a line break, at the end of the input.
func (s *stream) checkBreak(last byte, offset int64) error {
	if last == '\n' || s.file != nil && s.inflate.Format() == compress.Plain && offset == s.opened.Size() {
		return nil
	}
	if s.plain == s.inflate {
		if n, err := s.inflate.Read(make([]byte, 1)); n == 0 && err == io.EOF {
			return nil
		}
	}
	return fmt.Errorf("cannot continue at byte %d: no line begins there", offset)
}

func (s *stream) Close() error {
	s.inflate.Close()
	return s.close()
}

// counted counts what is read.
type counted struct {
	in      io.Reader
	own     int64
	done    *atomic.Int64
	closing *atomic.Bool
}

func (c *counted) Read(p []byte) (int, error) {
	if c.closing.Load() {
		return 0, errClosed
	}
	n, err := c.in.Read(p)
	c.own += int64(n)
	c.done.Add(int64(n))
	return n, err
}
