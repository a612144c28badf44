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
	data, err := readLimited(file)
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
	data, err := readLimited(r)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", compression, err)
	}
	return data, nil
}

func readLimited(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("more than %d MiB: this is not a vocabulary", maxFile>>20)
	}
	return data, nil
}
