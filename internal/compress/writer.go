package compress

import (
	"bytes"
	"fmt"
	"io"

	"github.com/dsnet/compress/bzip2"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// FrameSize is the number of plain bytes after which a frame ends at the next cut.
const FrameSize = 256 << 10

// A Writer compresses in frames. The data of one frame is kept until the frame ends and compressed at once, so that
// the bytes depend on nothing but the data; memory is FrameSize and the longest stretch between two cuts.
//
// A Writer of the Plain format passes everything on and has no frames.
type Writer struct {
	out    io.Writer
	format Format
	frame  []byte // plain data of the open frame
	packed bytes.Buffer
	frames int64

	gzip  *gzip.Writer
	zstd  *zstd.Encoder
	bzip2 *bzip2.Writer
}

// NewWriter returns a Writer that writes to out. Each frame reaches out in one call of Write.
func NewWriter(out io.Writer, format Format) (*Writer, error) {
	w := &Writer{out: out, format: format}
	var err error
	switch format {
	case Plain, XZ:
	case Gzip:
		w.gzip = gzip.NewWriter(&w.packed)
	case Zstd:
		w.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true), zstd.WithEncoderCRC(true))
	case Bzip2:
		w.bzip2, err = bzip2.NewWriter(&w.packed, nil)
	default:
		err = fmt.Errorf("compress: unknown %s", format)
	}
	return w, err
}

// Write adds plain data.
func (w *Writer) Write(p []byte) (int, error) {
	if w.format == Plain {
		return w.out.Write(p)
	}
	w.frame = append(w.frame, p...)
	return len(p), nil
}

// Cut says that the data may be cut here, and ends the frame if it is large enough. It reports whether everything
// that was written so far has reached the underlying stream.
func (w *Writer) Cut() (bool, error) {
	if w.format == Plain || len(w.frame) == 0 {
		return true, nil
	}
	if len(w.frame) < FrameSize {
		return false, nil
	}
	return true, w.end()
}

// Finish ends the open frame. A stream of no data at all gets one empty frame if first says that nothing was written
// before this Writer either, since an empty file is not a valid compressed one.
func (w *Writer) Finish(first bool) error {
	if w.format == Plain || len(w.frame) == 0 && (w.frames > 0 || !first) {
		return nil
	}
	return w.end()
}

// end writes the open frame.
func (w *Writer) end() error {
	w.packed.Reset()
	if err := w.pack(); err != nil {
		return fmt.Errorf("compressing to %s: %w", w.format, err)
	}
	w.frame = w.frame[:0]
	w.frames++
	_, err := w.out.Write(w.packed.Bytes())
	return err
}

func (w *Writer) pack() error {
	switch w.format {
	case Gzip:
		w.gzip.Reset(&w.packed)
		return writeAndClose(w.gzip, w.frame)
	case Zstd:
		_, err := w.packed.Write(w.zstd.EncodeAll(w.frame, w.packed.AvailableBuffer()))
		return err
	case Bzip2:
		if err := w.bzip2.Reset(&w.packed); err != nil {
			return err
		}
		return writeAndClose(w.bzip2, w.frame)
	default:
		stream, err := xz.WriterConfig{DictCap: FrameSize}.NewWriter(&w.packed)
		if err != nil {
			return err
		}
		return writeAndClose(stream, w.frame)
	}
}

func writeAndClose(w io.WriteCloser, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}
