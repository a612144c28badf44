// Package binread reads little-endian binary data that nobody has vouched for. Every read is checked against the bytes
// that are really there, so a length field can neither run past the end nor make the program allocate more than the data
// could fill; every error says at which byte and for what.
package binread

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
)

// An Error tells that a read ran past the end of the data, or met something that cannot be.
type Error struct {
	Offset  int64  // byte at which the value that could not be read begins
	What    string // the value, in the words of the format ("tensor count")
	Problem string
}

func (e *Error) Error() string {
	return fmt.Sprintf("byte %#x: %s: %s", e.Offset, e.What, e.Problem)
}

// A Reader walks over a byte slice. Slices it returns alias the data. The zero Reader is empty.
type Reader struct {
	data []byte
	next int
}

// NewReader returns a Reader at the beginning of data.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Offset returns the position of the next read, in bytes from the beginning.
func (r *Reader) Offset() int64 { return int64(r.next) }

// Remaining returns the number of bytes not read yet.
func (r *Reader) Remaining() int { return len(r.data) - r.next }

// Bytes returns the next n bytes without copying them.
func (r *Reader) Bytes(n uint64, what string) ([]byte, error) {
	if n > uint64(r.Remaining()) {
		return nil, r.fail(what, "needs %d bytes, but only %d are left", n, r.Remaining())
	}
	start := r.next
	r.next += int(n)
	return r.data[start:r.next:r.next], nil
}

// Skip passes over n bytes.
func (r *Reader) Skip(n uint64, what string) error {
	_, err := r.Bytes(n, what)
	return err
}

// Uint8 reads one byte.
func (r *Reader) Uint8(what string) (uint8, error) {
	b, err := r.Bytes(1, what)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// Uint16 reads two bytes.
func (r *Reader) Uint16(what string) (uint16, error) {
	b, err := r.Bytes(2, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint16(b), nil
}

// Uint32 reads four bytes.
func (r *Reader) Uint32(what string) (uint32, error) {
	b, err := r.Bytes(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// Uint64 reads eight bytes.
func (r *Reader) Uint64(what string) (uint64, error) {
	b, err := r.Bytes(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// Int32 reads a signed number of four bytes.
func (r *Reader) Int32(what string) (int32, error) {
	v, err := r.Uint32(what)
	return int32(v), err
}

// Float32 reads an IEEE single.
func (r *Reader) Float32(what string) (float32, error) {
	v, err := r.Uint32(what)
	return math.Float32frombits(v), err
}

// Count reads a uint64 that announces how many items of at least size bytes each follow later in the data. It fails if
// the rest of the data could not hold them, so the count is safe to allocate by. size must be at least 1.
func (r *Reader) Count(size int, what string) (int, error) {
	start := r.next
	n, err := r.Uint64(what)
	if err != nil {
		return 0, err
	}
	if n > uint64(r.Remaining())/uint64(size) {
		remaining := r.Remaining()
		r.next = start
		return 0, r.fail(what, "says %d items of %d bytes or more, but only %d bytes follow", n, size, remaining)
	}
	return int(n), nil
}

// Errorf returns an *Error for the value that begins at the given offset.
func Errorf(offset int64, what, format string, args ...any) error {
	return &Error{Offset: offset, What: what, Problem: fmt.Sprintf(format, args...)}
}

func (r *Reader) fail(what, format string, args ...any) error {
	return Errorf(r.Offset(), what, format, args...)
}

// Product multiplies sizes read from a file; ok is false if the result does not fit into an int64.
func Product(factors ...uint64) (product uint64, ok bool) {
	product = 1
	overflowed := false
	for _, f := range factors {
		if f == 0 {
			return 0, true
		}
		high, low := bits.Mul64(product, f)
		overflowed = overflowed || high != 0 || low > math.MaxInt64
		product = low
	}
	return product, !overflowed
}

// A LimitError tells that a stream held more bytes than the caller was ready to keep.
type LimitError struct{ Limit int64 }

func (e *LimitError) Error() string {
	return fmt.Sprintf("holds more than the %d bytes that are accepted here", e.Limit)
}

// ReadAll reads r to its end, but keeps at most limit bytes: a stream that holds more is a *LimitError. Memory grows with
// what has really been read, doubling up to limit.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data := make([]byte, 0, min(limit, 512))
	for {
		if int64(len(data)) == limit {
			if err := expectEnd(r, limit); err != nil {
				return nil, err
			}
			return data, nil
		}
		if len(data) == cap(data) {
			grown := make([]byte, len(data), min(limit, 2*int64(cap(data))))
			copy(grown, data)
			data = grown
		}
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		}
	}
}

// ReadFile reads a file, which may be a pipe or a device, as ReadAll reads a stream.
func ReadFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := ReadAll(file, limit)
	var tooMuch *LimitError
	if errors.As(err, &tooMuch) {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return data, err
}

// expectEnd returns a *LimitError if r has anything left.
func expectEnd(r io.Reader, limit int64) error {
	var one [1]byte
	for {
		n, err := r.Read(one[:])
		switch {
		case n > 0:
			return &LimitError{Limit: limit}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
