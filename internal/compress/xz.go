package compress

import "io"

// The xz library takes the end of the file before a block for the end of the stream, so that a file cut there would
// pass as whole. A stream does end in the two bytes of footer magic, possibly with zeros as padding (the .xz file
// format, sections 2.1.2.4 and 2.2), and that can be seen from outside.

// xzEnding hands on bytes and remembers the last two that were not zero.
type xzEnding struct {
	*input
	last [2]byte
}

func (e *xzEnding) Read(p []byte) (int, error) {
	n, err := e.input.Read(p)
	for _, c := range p[:n] {
		e.saw(c)
	}
	return n, err
}

func (e *xzEnding) ReadByte() (byte, error) {
	c, err := e.input.ReadByte()
	if err == nil {
		e.saw(c)
	}
	return c, err
}

func (e *xzEnding) saw(c byte) {
	if c != 0 {
		e.last[0], e.last[1] = e.last[1], c
	}
}

// xzReader gives io.EOF only after a footer.
type xzReader struct {
	io.Reader
	ending *xzEnding
}

func (r xzReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF && r.ending.last != [2]byte{'Y', 'Z'} {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
