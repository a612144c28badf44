package compress

import (
	"bufio"
	"io"
)

// WriteWhole compresses all that write writes, for a file that is made at one go: nobody continues it, so that a frame ends
// wherever it is large enough.
func WriteWhole(out io.Writer, format Format, write func(*bufio.Writer) error) error {
	frames, err := NewWriter(out, format)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(cutAnywhere{frames}, 1<<16)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return frames.Finish(true)
}

type cutAnywhere struct{ frames *Writer }

func (c cutAnywhere) Write(p []byte) (int, error) {
	n, err := c.frames.Write(p)
	if err != nil {
		return n, err
	}
	_, err = c.frames.Cut()
	return n, err
}
