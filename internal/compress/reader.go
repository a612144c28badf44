package compress

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// MaxWindow is the most memory that a compressed stream may ask for as its window or dictionary. It is what the zstd
// program allows by default; xz -9 needs half of it.
const MaxWindow = 128 << 20

const inputBuffer = 64 << 10

// An Error says that compressed data is damaged, cut short, or asks for too much.
type Error struct {
	Format Format
	Offset int64 // compressed bytes read before it was noticed
	Err    error
}

// Error names the format, the place and the reason.
func (e *Error) Error() string {
	reason := e.Err.Error()
	if errors.Is(e.Err, io.ErrUnexpectedEOF) {
		reason = "the file is cut short"
	}
	return fmt.Sprintf("%s data, compressed byte %d: %s", e.Format, e.Offset, reason)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// A Reader inflates a stream of any format.
type Reader struct {
	in     *input
	format Format
	plain  io.Reader
	close  func()
}

// NewReader returns a Reader of what r holds. It reads as few bytes as tell the format, so that a text arriving
// slowly is not held up.
func NewReader(r io.Reader) (*Reader, error) {
	in := newInput(r)
	format, err := detect(in)
	if err != nil {
		return nil, err
	}
	reader := &Reader{in: in, format: format, close: func() {}}
	if err := reader.open(); err != nil {
		return nil, reader.located(err)
	}
	return reader, nil
}

func detect(in *input) (Format, error) {
	for n := 1; ; n++ {
		head, err := in.buffered.Peek(n)
		format, more := Detect(head)
		if len(head) == n && more {
			continue
		}
		if err != nil && err != io.EOF && len(head) == 0 {
			return Plain, err
		}
		return format, nil
	}
}

func (r *Reader) open() (err error) {
	switch r.format {
	case Gzip:
		r.plain, err = gzip.NewReader(r.in)
	case Zstd:
		var decoder *zstd.Decoder
		decoder, err = zstd.NewReader(r.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(MaxWindow), zstd.WithDecoderMaxMemory(1<<62))
		if err == nil {
			r.plain, r.close = decoder, decoder.Close
		}
	case Bzip2:
		r.plain = bzip2.NewReader(r.in)
	case XZ:
		if err = checkDictionary(r.in.buffered); err == nil {
			ending := &xzEnding{input: r.in}
			if r.plain, err = xz.NewReader(ending); err == nil {
				r.plain = xzReader{r.plain, ending}
			}
		}
	default:
		r.plain = r.in
	}
	return err
}

// checkDictionary looks for the size of the dictionary in the header of an xz file's first block, since the decoder
// allocates it whole. The layout is that of the .xz file format, sections 2.1.1 and 3.1: a stream header of 12 bytes,
// then the size of the block header in units of four, flags, two optional numbers, and the filters.
func checkDictionary(in *bufio.Reader) error {
	const streamHeader = 12
	head, _ := in.Peek(streamHeader + 64)
	if len(head) < streamHeader+2 || head[streamHeader] == 0 {
		return nil
	}
	flags, rest := head[streamHeader+1], head[streamHeader+2:]
	for _, present := range []byte{0x40, 0x80} {
		for flags&present != 0 && len(rest) > 0 {
			last := rest[0] < 0x80
			rest = rest[1:]
			if last {
				break
			}
		}
	}
	if len(rest) < 3 || rest[0] != 0x21 || rest[1] != 1 {
		return nil // not LZMA2, which the decoder refuses by itself
	}
	size, err := lzma.DecodeDictCap(rest[2])
	if err == nil && size > MaxWindow {
		return fmt.Errorf("needs a dictionary of %d MiB, and the limit is %d MiB: compress it anew with xz -9 or less", size>>20, MaxWindow>>20)
	}
	return nil
}

// Read inflates into p. At the end of the last frame it returns io.EOF.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.plain.Read(p)
	if err != nil && err != io.EOF {
		err = r.located(err)
	}
	return n, err
}

func (r *Reader) located(err error) error {
	if r.in.err != nil {
		return r.in.err // reading failed, not inflating
	}
	if r.format == Plain {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = fmt.Errorf("needs a window of more than %d MiB: compress it anew without --long or --ultra", MaxWindow>>20)
	}
	return &Error{Format: r.format, Offset: r.in.offset(), Err: err}
}

// Format tells how the stream is compressed.
func (r *Reader) Format() Format { return r.format }

// Close releases what the decoder holds. It does not close the underlying stream.
func (r *Reader) Close() error {
	r.close()
	return nil
}
