package vocab

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxFile limits a vocabulary's size after decompression. The largest published SentencePiece models, with a million
// pieces, are below 20 MB.
const maxFile = 32 << 20

// readFile returns the content of a vocabulary file, decompressed if need be.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the vocabulary: %w", err)
	}
	defer file.Close()
	data, err := readLimited(file, sizeOf(file))
	if err != nil {
		return nil, inFile(path, err)
	}
	if data, err = decompress(data); err != nil {
		return nil, inFile(path, err)
	}
	return data, nil
}

// decompress returns what a gzip or zstd file holds, and any other data as it is.
func decompress(data []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		reader, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("reading gzip: %w", err)
		}
		return named("gzip", reader)
	case bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		reader, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxFile))
		if err != nil {
			return nil, fmt.Errorf("reading zstd: %w", err)
		}
		defer reader.Close()
		return named("zstd", reader)
	}
	return data, nil
}

func named(compression string, r io.Reader) ([]byte, error) {
	data, err := readLimited(r, 0)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", compression, err)
	}
	return data, nil
}

// sizeOf returns the size of a regular file, and 0 for anything else.
func sizeOf(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// readLimited reads r to its end. expected is its likely size, 0 if unknown.
func readLimited(r io.Reader, expected int64) ([]byte, error) {
	var buffer bytes.Buffer
	buffer.Grow(int(min(expected, maxFile)) + bytes.MinRead)
	if _, err := buffer.ReadFrom(io.LimitReader(r, maxFile+1)); err != nil {
		return nil, err
	}
	if buffer.Len() > maxFile {
		return nil, fmt.Errorf("more than %d MiB: this is not a vocabulary", maxFile>>20)
	}
	return buffer.Bytes(), nil
}
