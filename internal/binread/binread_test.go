package binread

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadsInOrder(t *testing.T) {
	r := NewReader([]byte{7, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 8, 7, 6, 5, 4, 3, 2, 1, 0xff, 0xff, 0xff, 0xff,
		0, 0, 0x80, 0x3f, 'x', 'y'})
	if v, err := r.Uint8("a"); v != 7 || err != nil {
		t.Errorf("Uint8 = %v, %v", v, err)
	}
	if v, err := r.Uint16("b"); v != 0x1234 || err != nil {
		t.Errorf("Uint16 = %#x, %v", v, err)
	}
	if v, err := r.Uint32("c"); v != 0x12345678 || err != nil {
		t.Errorf("Uint32 = %#x, %v", v, err)
	}
	if v, err := r.Uint64("d"); v != 0x0102030405060708 || err != nil {
		t.Errorf("Uint64 = %#x, %v", v, err)
	}
	if v, err := r.Int32("e"); v != -1 || err != nil {
		t.Errorf("Int32 = %v, %v", v, err)
	}
	if v, err := r.Float32("f"); v != 1 || err != nil {
		t.Errorf("Float32 = %v, %v", v, err)
	}
	if err := r.Skip(1, "g"); err != nil {
		t.Error(err)
	}
	if r.Offset() != 24 || r.Remaining() != 1 {
		t.Errorf("at %d with %d left", r.Offset(), r.Remaining())
	}
	if b, err := r.Bytes(1, "h"); string(b) != "y" || err != nil {
		t.Errorf("Bytes = %q, %v", b, err)
	}
}

// A read that does not fit says where and what, and leaves the reader where it was.
func TestEveryReadStopsAtTheEnd(t *testing.T) {
	reads := map[string]func(*Reader) error{
		"Uint8":   func(r *Reader) error { _, err := r.Uint8("thing"); return err },
		"Uint16":  func(r *Reader) error { _, err := r.Uint16("thing"); return err },
		"Uint32":  func(r *Reader) error { _, err := r.Uint32("thing"); return err },
		"Uint64":  func(r *Reader) error { _, err := r.Uint64("thing"); return err },
		"Int32":   func(r *Reader) error { _, err := r.Int32("thing"); return err },
		"Float32": func(r *Reader) error { _, err := r.Float32("thing"); return err },
		"Bytes":   func(r *Reader) error { _, err := r.Bytes(math.MaxUint64, "thing"); return err },
		"Skip":    func(r *Reader) error { return r.Skip(1<<63, "thing") },
		"Count":   func(r *Reader) error { _, err := r.Count(8, "thing"); return err },
	}
	for name, read := range reads {
		r := NewReader([]byte{1, 2, 3})
		if err := r.Skip(3, "start"); err != nil {
			t.Fatal(err)
		}
		err := read(r)
		var located *Error
		if !errors.As(err, &located) || located.Offset != 3 || located.What != "thing" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(err.Error(), "byte 0x3: thing: ") {
			t.Errorf("%s: message %q", name, err)
		}
		if r.Offset() != 3 {
			t.Errorf("%s moved to %d", name, r.Offset())
		}
	}
}

func TestCountIsBoundedByWhatFollows(t *testing.T) {
	count := func(n byte, rest int) (int, error) {
		data := append([]byte{n, 0, 0, 0, 0, 0, 0, 0}, make([]byte, rest)...)
		return NewReader(data).Count(4, "items")
	}
	if n, err := count(3, 12); n != 3 || err != nil {
		t.Errorf("exact fit: %d, %v", n, err)
	}
	if _, err := count(3, 11); err == nil {
		t.Error("3 items of 4 bytes accepted in 11 bytes")
	}
	r := NewReader(bytes.Repeat([]byte{0xff}, 64))
	if _, err := r.Count(1, "items"); err == nil || r.Offset() != 0 {
		t.Errorf("2^64-1 items: %v at %d", err, r.Offset())
	}
}

func TestProduct(t *testing.T) {
	cases := []struct {
		factors []uint64
		want    uint64
		ok      bool
	}{
		{nil, 1, true},
		{[]uint64{3, 5}, 15, true},
		{[]uint64{1 << 62, 2}, 1 << 63, false},
		{[]uint64{math.MaxInt64}, math.MaxInt64, true},
		{[]uint64{1 << 32, 1 << 32, 1 << 32}, 0, false},
		{[]uint64{1 << 40, 1 << 40, 0}, 0, true},
	}
	for _, c := range cases {
		got, ok := Product(c.factors...)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("Product(%v) = %d, %v", c.factors, got, ok)
		}
	}
}

func TestReadAllStopsAtItsLimit(t *testing.T) {
	for _, r := range []io.Reader{strings.NewReader("12345"), iotest.OneByteReader(strings.NewReader("12345")),
		iotest.DataErrReader(strings.NewReader("12345"))} {
		data, err := ReadAll(r, 5)
		if string(data) != "12345" || err != nil {
			t.Errorf("exactly the limit: %q, %v", data, err)
		}
	}
	var limit *LimitError
	if _, err := ReadAll(strings.NewReader("123456"), 5); !errors.As(err, &limit) || limit.Limit != 5 {
		t.Errorf("one too many: %v", err)
	}
	if _, err := ReadAll(iotest.ErrReader(io.ErrUnexpectedEOF), 5); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a reader's own error became %v", err)
	}
	after := io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := ReadAll(after, 5); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an error at the limit became %v", err)
	}
}
