package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluice-mt/sluice/internal/compress"
)

// What the smaller commands need of files: lines of texts that fit into memory one by one, and outputs that are there whole
// or not at all.

// maxLine bounds a line of a text that the smaller commands read.
const maxLine = 16 << 20

// A lineReader reads a text line by line. Its errors are those of bad input, but for io.EOF.
type lineReader struct {
	path   string
	file   *os.File
	plain  *compress.Reader
	lines  *bufio.Reader
	count  int // lines read
	shared bool
}

// openLines opens a text, compressed or not, "-" being standard input.
func openLines(path string) (*lineReader, error) {
	file, isStdin := os.Stdin, path == "-"
	if !isStdin {
		var err error
		if file, err = os.Open(path); err != nil {
			return nil, inputError{err}
		}
	}
	plain, err := compress.NewReader(file)
	if err != nil {
		if !isStdin {
			err = errors.Join(err, file.Close())
		}
		return nil, inputError{fmt.Errorf("%s: %w", path, err)}
	}
	return &lineReader{path: path, file: file, plain: plain, lines: bufio.NewReaderSize(plain, 1<<16), shared: isStdin}, nil
}

// next returns the next line without its end, a line feed with or without a carriage return before it, and io.EOF after the
// last.
func (r *lineReader) next() (string, error) {
	line, err := r.read()
	if err == io.EOF {
		return "", err
	}
	r.count++
	if err != nil {
		return "", inputError{fmt.Errorf("%s, line %d: %w", r.path, r.count, err)}
	}
	return line, nil
}

func (r *lineReader) read() (string, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return "", fmt.Errorf("longer than %d bytes", maxLine)
		}
		line = append(line, part...)
		switch {
		case err == bufio.ErrBufferFull:
		case err == nil, err == io.EOF && len(line) > 0:
			return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
		default:
			return "", err
		}
	}
}

// Close closes the text, standard input excepted.
func (r *lineReader) Close() error {
	err := r.plain.Close()
	if !r.shared {
		err = errors.Join(err, r.file.Close())
	}
	return err
}

// eachLine calls f for every line of a text.
func eachLine(path string, f func(line string) error) (err error) {
	r, err := openLines(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		line, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f(line); err != nil {
			return err
		}
	}
}

// maxKept bounds what is kept in memory of a text, in bytes.
const maxKept = 1 << 30

// eachKeptLine calls keep for every line of a text that is to be in memory as a whole, unless it takes more than limit bytes there.
func eachKeptLine(path string, limit int, keep func(line string)) error {
	const header = 16 // bytes of a string beside its text
	kept := 0
	return eachLine(path, func(line string) error {
		if kept += len(line) + header; kept > limit {
			return inputError{fmt.Errorf("%s: its lines take more than %d bytes, but all of them are kept in memory here: take fewer", displayName(path), limit)}
		}
		keep(line)
		return nil
	})
}
