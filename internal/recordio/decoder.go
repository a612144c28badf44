package recordio

import (
	"errors"
	"fmt"
	"io"

	"github.com/sluice-mt/sluice/internal/job"
)

// NewDecoder returns a Decoder of a text, TSV or JSONL input called name that continues at a position; stream is at
// its beginning. Where a TSV file is continued its first row is read before the stream skips.
func NewDecoder(options Options, name string, stream Stream, at job.Position) (Decoder, error) {
	d := &lineDecoder{name: name, lines: newLines(stream, options.maxLine()), at: at}
	var err error
	switch options.Format {
	case Text:
		d.layout = text{}
	case TSV:
		d.layout, err = newTSV(options)
	case JSONL:
		d.layout, err = newJSON(options)
	default:
		err = fmt.Errorf("%s is not made of lines", options.Format)
	}
	if err != nil {
		return nil, err
	}
	if at.Offset == 0 {
		return d, d.passHeader(options.Header && at.Input > 0)
	}
	return d, d.resume()
}

var errFirstTooLong = errors.New("the first row, which tells the columns, is longer than the longest line allowed")

// A layout says how a record lies in a line. It sees every line that is not too long, from the first.
type layout interface {
	// needsFirst says that the first line is to be read even where the input is continued behind it.
	needsFirst() bool

	// decode puts what is to be translated, and what is to be carried through, into the record. An error is of the
	// whole input.
	decode(line []byte, record *job.Record) error

	// absent returns what is carried for a line that was too long to keep.
	absent() any
}

type lineDecoder struct {
	name   string
	lines  *lines
	layout layout
	at     job.Position
}

// passHeader reads over the header of an input that is joined to others: the lane has one already.
func (d *lineDecoder) passHeader(repeated bool) error {
	if !repeated {
		return nil
	}
	err := d.learn()
	d.at.Offset = d.lines.offset
	if err == io.EOF {
		return nil
	}
	return err
}

// resume goes to the position.
func (d *lineDecoder) resume() error {
	if d.layout.needsFirst() {
		if err := d.learn(); err != nil {
			return &Error{Input: d.name, Line: 1, Err: err}
		}
	}
	if err := d.lines.skipTo(d.at.Offset); err != nil {
		return &Error{Input: d.name, Offset: d.at.Offset, Err: err}
	}
	if d.at.Input == 0 {
		d.lines.number = d.at.Record + 1
	}
	return nil
}

// learn shows the first line to the layout.
func (d *lineDecoder) learn() error {
	first, err := d.lines.next()
	if err != nil {
		return err
	}
	if first.tooLong {
		return d.located(first, errFirstTooLong)
	}
	if err := d.layout.decode(first.text, &job.Record{}); err != nil {
		return d.located(first, err)
	}
	return nil
}

func (d *lineDecoder) Next() (job.Record, error) {
	line, err := d.lines.next()
	if err != nil {
		return job.Record{}, d.located(line, err)
	}
	if line.tooLong && line.offset == 0 && d.layout.needsFirst() {
		return job.Record{}, d.located(line, errFirstTooLong)
	}
	record := job.Record{Seq: d.at.Record, Size: int(line.size)}
	d.at.Record++
	d.at.Offset += line.size
	record.End = d.at
	if line.tooLong {
		record.Flags = job.Unreadable
		record.Size = 0
		record.Carry = d.layout.absent()
		record.Err = fmt.Errorf("the line has %d bytes, more than the %d that are kept: it is not translated", line.size, d.lines.max)
	} else if err := d.layout.decode(line.text, &record); err != nil {
		return job.Record{}, d.located(line, err)
	}
	if record.Err != nil {
		record.Err = d.located(line, record.Err)
	}
	return record, nil
}

// located adds the place to an error, except to io.EOF and to errors that know their place.
func (d *lineDecoder) located(line line, err error) error {
	if err == io.EOF {
		return err
	}
	if line.size == 0 {
		line.number, line.offset = d.lines.number, d.lines.offset
	}
	return &Error{Input: d.name, Line: line.number, Offset: line.offset, Err: err}
}
