package recordio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A Stream is the inflated bytes of an input.
type Stream interface {
	io.Reader

	// SkipTo continues at a byte, counted from the beginning of the input, which is not before the next one.
	// An input that ends before it is an error.
	SkipTo(offset int64) error
}

// Skip reads over so many bytes and returns the last of them; io.EOF says that the input ends before. It is for the SkipTo of
// streams that cannot seek.
func Skip(r io.Reader, count int64) (last byte, err error) {
	if _, err := io.CopyN(io.Discard, r, count-1); err != nil {
		return 0, err
	}
	var b [1]byte
	_, err = io.ReadFull(r, b[:])
	return b[0], err
}

const firstBuffer = 64 << 10

var (
	errUTF16 = errors.New("the file begins with a byte order mark of UTF-16: convert it to UTF-8 first, for example with iconv -f UTF-16 -t UTF-8")

	byteOrderMark = []byte("\xef\xbb\xbf")
)

// lines cuts a stream into lines of bounded length.
type lines struct {
	in     Stream
	max    int
	buffer []byte // what was read and not given out
	unused []byte // the memory that buffer is a part of
	offset int64  // of buffer[0] in the stream
	number int64  // of the next line, from 1; 0 if not known
	err    error  // why nothing more can be read
}

func newLines(in Stream, max int) *lines {
	return &lines{in: in, max: max, unused: make([]byte, min(firstBuffer, max+2)), number: 1}
}

// A line is valid until the next one is asked for.
type line struct {
	text    []byte // without its line break
	number  int64
	offset  int64
	size    int64 // with its line break
	tooLong bool  // text is empty, for the line has more bytes than are kept
}

// next returns the next line, or io.EOF.
func (l *lines) next() (line, error) {
	from := 0
	for {
		if i := bytes.IndexByte(l.buffer[from:], '\n'); i >= 0 {
			return l.take(from+i, 1)
		}
		from = len(l.buffer)
		if from > l.max+1 {
			return l.skip()
		}
		if l.err != nil {
			if l.err == io.EOF && len(l.buffer) > 0 {
				return l.take(len(l.buffer), 0)
			}
			return line{}, l.err
		}
		l.fill()
	}
}

// take cuts off a line of n bytes and its line break.
func (l *lines) take(n, ending int) (line, error) {
	text := l.buffer[:n]
	result := line{number: l.number, offset: l.offset, size: int64(n + ending)}
	if result.offset == 0 && (bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))) {
		return line{}, errUTF16
	}
	l.advance(n + ending)
	if l.number > 0 {
		l.number++
	}
	if result.offset == 0 {
		text = bytes.TrimPrefix(text, byteOrderMark)
	}
	text = bytes.TrimSuffix(text, []byte{'\r'})
	if len(text) > l.max {
		result.tooLong = true
		return result, nil
	}
	result.text = text
	return result, nil
}

func (l *lines) advance(n int) {
	l.buffer = l.buffer[n:]
	l.offset += int64(n)
}

// skip passes over a line that is too long, keeping none of it.
func (l *lines) skip() (line, error) {
	result := line{number: l.number, offset: l.offset, tooLong: true}
	for {
		if i := bytes.IndexByte(l.buffer, '\n'); i >= 0 {
			l.advance(i + 1)
			break
		}
		l.advance(len(l.buffer))
		if l.err == io.EOF {
			break
		}
		if l.err != nil {
			return line{}, l.err
		}
		l.fill()
	}
	if l.number > 0 {
		l.number++
	}
	result.size = l.offset - result.offset
	return result, nil
}

// fill reads more behind what is there: once, so that what has arrived is not held up by what has not.
func (l *lines) fill() {
	if len(l.buffer) == len(l.unused) {
		larger := make([]byte, min(2*len(l.unused), l.max+firstBuffer))
		copy(larger, l.buffer)
		l.unused, l.buffer = larger, larger[:len(l.buffer)]
	} else if cap(l.buffer) == len(l.buffer) || len(l.buffer) == 0 {
		l.buffer = l.unused[:copy(l.unused, l.buffer)]
	}
	n, err := l.in.Read(l.buffer[len(l.buffer):cap(l.buffer)])
	l.buffer = l.buffer[:len(l.buffer)+n]
	l.err = err
}

// skipTo continues at a byte at which a line begins.
func (l *lines) skipTo(offset int64) error {
	l.number = 0
	ahead := offset - l.offset
	if ahead < 0 {
		return fmt.Errorf("cannot continue at byte %d, which lies within the first line", offset)
	}
	if ahead <= int64(len(l.buffer)) {
		l.advance(int(ahead))
		return nil
	}
	if l.err != nil {
		return fmt.Errorf("cannot continue at byte %d: the input ends at byte %d", offset, l.offset+int64(len(l.buffer)))
	}
	l.buffer = l.unused[:0]
	l.offset = offset
	return l.in.SkipTo(offset)
}
