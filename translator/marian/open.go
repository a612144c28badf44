package marian

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sluice-mt/sluice/internal/binread"
)

// Limits on what a file may make the program hold in memory.
const (
	// MaxDecompressed is the most that a compressed model may unpack to.
	MaxDecompressed = 4 << 30
	// MaxConfig is the most that an embedded YAML description may take.
	MaxConfig = 1 << 20

	smallDecompressed = 64 << 20 // always accepted
	maxRatio          = 100      // weights hardly compress; more than this is not a model
)

// Open reads a model file, .npz or .bin, whatever it is called; either may be compressed with gzip or zstd as a whole.
// Files that are not compressed are mapped: they must not be changed in place while open (replacing them by renaming
// another over them is fine). Errors about the content are of type *Error.
func Open(path string) (*File, error) {
	raw, release, err := load(path)
	if err != nil {
		return nil, err
	}
	f, err := parse(raw)
	if err != nil {
		if release != nil {
			err = errors.Join(err, release())
		}
		return nil, withPath(err, path)
	}
	f.Path = path
	if f.Compression != "" && release != nil {
		if err := release(); err != nil {
			return nil, err
		}
		release = nil
	}
	if release != nil {
		f.mapped, f.release = raw, release
	}
	return f, nil
}

// withPath names the file in an error about its content.
func withPath(err error, path string) error {
	var e *Error
	if errors.As(err, &e) {
		e.Path = path
	}
	return err
}

// load maps a regular file, and reads anything else (a pipe) to its end.
func load(path string) (data []byte, release func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return nil, nil, &Error{Path: path, Offset: nowhere, Problem: "is a folder, not a model file",
			Remedy: "name the .npz or .bin file in it"}
	}
	if !info.Mode().IsRegular() {
		data, err = readStream(f)
		return data, nil, wrapRead(err, path)
	}
	size := info.Size()
	if size == 0 {
		return nil, nil, nil
	}
	if int64(int(size)) != size {
		return nil, nil, &Error{Path: path, Offset: nowhere, Problem: "is too large for the address space of this machine"}
	}
	data, release, err = mapFile(f, int(size))
	return data, release, wrapRead(err, path)
}

// readStream reads a model from what cannot be mapped, but no more than the beginning of what is none.
func readStream(r io.Reader) ([]byte, error) {
	buffered := bufio.NewReaderSize(r, headSize)
	head, err := buffered.Peek(headSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if compressionOf(head) == "" && !isArchive(head) && !isBin(head) {
		return head, nil
	}
	return binread.ReadAll(buffered, MaxDecompressed)
}

func wrapRead(err error, path string) error {
	if err == nil {
		return nil
	}
	return &Error{Path: path, Offset: nowhere, Problem: "cannot be read", Err: err}
}

// parse reads a model from the bytes of a file, which the result aliases.
func parse(data []byte) (*File, error) {
	compression, plain, err := decompress(data)
	if err != nil {
		return nil, err
	}
	f, err := parsePlain(plain, decompressionLimit(len(data)))
	if err != nil {
		return nil, located(err)
	}
	f.Compression = compression
	return f, nil
}

// parsePlain reads a model that is not compressed as a whole. limit bounds what its compressed members may unpack to.
func parsePlain(data []byte, limit int64) (*File, error) {
	switch {
	case isArchive(data):
		return parseNPZ(data, limit)
	case isBin(data):
		return parseBin(data)
	}
	return nil, notModel(data)
}

// headSize is how many of a file's first bytes tell what it is.
const headSize = 512

func isArchive(data []byte) bool {
	return bytes.HasPrefix(data, []byte("PK\x03\x04")) || bytes.HasPrefix(data, []byte("PK\x05\x06"))
}

func isBin(data []byte) bool { return len(data) >= 8 && binary.LittleEndian.Uint64(data) == binVersion }

// compressionOf is what a file is compressed with as a whole, "" if it is not or with something else.
func compressionOf(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	}
	return ""
}

// decompressionLimit returns how many bytes a compressed file of that size may unpack to.
func decompressionLimit(compressed int) int64 {
	return min(MaxDecompressed, max(smallDecompressed, int64(compressed)*maxRatio))
}

// decompress unpacks gzip and zstd, and returns other data as it is.
func decompress(data []byte) (compression string, plain []byte, err error) {
	switch compression = compressionOf(data); compression {
	case "gzip":
		plain, err = gunzip(data)
	case "zstd":
		plain, err = unzstd(data)
	default:
		return "", data, nil
	}
	if err == nil {
		return compression, plain, nil
	}
	var limit *binread.LimitError
	if errors.As(err, &limit) {
		return "", nil, &Error{Offset: nowhere, Err: err, Problem: compression + " data",
			Remedy: "this is not a model as Marian writes it; decompress the file yourself if you trust it"}
	}
	return "", nil, &Error{Offset: nowhere, Err: err, Problem: compression + " data cannot be decompressed",
		Remedy: remedyDamaged}
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return readUnpacked(r, len(data))
}

func unzstd(data []byte) ([]byte, error) {
	r, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(decompressionLimit(len(data)))))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readUnpacked(r, len(data))
}

func readUnpacked(r io.Reader, compressed int) ([]byte, error) {
	plain, err := binread.ReadAll(r, decompressionLimit(compressed))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("it ends in the middle: %w", err)
	}
	return plain, err
}

// notModel says what a file is, if it is not a model that can be read.
func notModel(data []byte) *Error {
	known := []struct{ prefix, problem, remedy string }{
		{"\x02\x00\x00\x00\x00\x00\x00\x00", "is an encrypted .bin model (version 2)",
			"give the .npz it was made from, or convert that with marian-conv without --encryption-key-path"},
		{"\xd2\x02\x96\x49", "is a Quicksand shortlist, not a model",
			"give the model here; shortlists of this kind cannot be read: give the lexicon as text (lex.s2t)"},
		{"\xf5\x17\x34\x01\xd5\x48\x1a\xf1", "is a lexical shortlist, not a model", "give the model here"},
		{"\x93NUMPY", "is a single NumPy array, not a model", "give the .npz archive that holds all tensors"},
		{"BZh", "is compressed with bzip2", "unpack it first, or use gzip or zstd"},
		{"\xfd7zXZ\x00", "is compressed with xz", "unpack it first, or use gzip or zstd"},
		{"\x1f\x8b", "is compressed twice", "unpack it once"},
		{"\x28\xb5\x2f\xfd", "is compressed twice", "unpack it once"},
		{"\x89HDF", "is an HDF5 file, not a Marian model", "give the .npz or .bin that Marian wrote"},
	}
	const remedy = "give the .npz or .bin that Marian wrote"
	for _, k := range known {
		if bytes.HasPrefix(data, []byte(k.prefix)) {
			return problemf("", nowhere, k.remedy, "%s", k.problem)
		}
	}
	head := data[:min(len(data), headSize)]
	switch {
	case len(data) == 0:
		return problemf("", nowhere, remedyDamaged, "is empty")
	case bytes.Contains(head, []byte("TransformerSpec")):
		return problemf("", nowhere, remedy, "is a CTranslate2 model, not a Marian model")
	case looksLikeText(head):
		return problemf("", nowhere, remedy, "is a text file, not a model")
	}
	return problemf("", 0, remedy, "is neither an .npz archive nor a .bin model of version 1: it begins with % x",
		data[:min(len(data), 8)])
}

func looksLikeText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && size == 1 {
			return len(head) < utf8.UTFMax // a character cut off at the end
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		head = head[size:]
	}
	return true
}
