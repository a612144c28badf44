package compress

import (
	"bufio"
	"io"
)

// input is a buffered stream that knows how far its reader is. It offers ReadByte since the decoders then take no
// more than they need, which makes the offset in an Error exact to a few bytes.
type input struct {
	under    io.Reader
	buffered *bufio.Reader
	taken    int64 // bytes read from under
	err      error // why under could not be read, other than io.EOF
}

func newInput(r io.Reader) *input {
	in := &input{under: r}
	in.buffered = bufio.NewReaderSize(counter{in}, inputBuffer)
	return in
}

type counter struct{ *input }

func (c counter) Read(p []byte) (int, error) {
	n, err := c.under.Read(p)
	c.taken += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func (in *input) Read(p []byte) (int, error) { return in.buffered.Read(p) }

func (in *input) ReadByte() (byte, error) { return in.buffered.ReadByte() }

func (in *input) offset() int64 { return in.taken - int64(in.buffered.Buffered()) }
