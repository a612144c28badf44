// Package compress reads and writes compressed streams: gzip, zstd, bzip2 and xz.
//
// Reading goes by content, never by name, takes any number of members or frames one after the other, and inflates as
// it is asked, so that memory does not depend on how much there is. Whatever is damaged or cut short is an Error
// with the compressed byte at which it was noticed.
//
// Writing is done in frames (gzip members, xz and bzip2 streams) that stand on their own. A frame ends where the data
// says, never where a clock or a buffer does, so that a file that was cut after a frame and continued has the same
// bytes as one that was written at once.
package compress

import (
	"bytes"
	"fmt"
	"path/filepath"
)

// A Format is a way to compress.
type Format int

// The formats. Plain is no compression.
const (
	Plain Format = iota
	Gzip
	Zstd
	Bzip2
	XZ
)

var formatNames = [...]string{"plain", "gzip", "zstd", "bzip2", "xz"}

var suffixes = [...]string{"", ".gz", ".zst", ".bz2", ".xz"}

// String returns the name of the format, such as "gzip".
func (f Format) String() string {
	if f < 0 || int(f) >= len(formatNames) {
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return formatNames[f]
}

// Suffix returns the ending of file names of the format, such as ".gz", and "" for Plain.
func (f Format) Suffix() string { return suffixes[f] }

// BySuffix returns the format that the ending of a file name stands for, and Plain where it stands for none.
func BySuffix(name string) Format {
	extension := filepath.Ext(name)
	for f := Gzip; f <= XZ; f++ {
		if extension == suffixes[f] {
			return f
		}
	}
	return Plain
}

// A signature is how streams of a format begin.
type signature struct {
	format Format
	head   []byte
}

// signatures are as long as they can be, since a plain text may well begin with "BZh". zstd has, beside its own
// magic number, 16 for frames to be skipped (RFC 8878, section 3.1.2).
var signatures = func() []signature {
	list := []signature{
		{Gzip, []byte{0x1f, 0x8b, 0x08}},
		{Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd}},
		{XZ, []byte{0xfd, '7', 'z', 'X', 'Z', 0x00}},
	}
	for level := byte('1'); level <= '9'; level++ {
		list = append(list,
			signature{Bzip2, []byte{'B', 'Z', 'h', level, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59}},
			signature{Bzip2, []byte{'B', 'Z', 'h', level, 0x17, 0x72, 0x45, 0x38, 0x50, 0x90}})
	}
	for low := byte(0x50); low <= 0x5f; low++ {
		list = append(list, signature{Zstd, []byte{low, 0x2a, 0x4d, 0x18}})
	}
	return list
}()

// Detect tells the format of a stream from its first bytes. more is true if further bytes could change the answer.
func Detect(head []byte) (format Format, more bool) {
	for _, s := range signatures {
		if bytes.HasPrefix(head, s.head) {
			return s.format, false
		}
		if bytes.HasPrefix(s.head, head) {
			more = true
		}
	}
	return Plain, more
}
