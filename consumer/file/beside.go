package file

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
)

// errBeside is the reason why inputs cannot be read side by side.
var errBeside = errors.New("only inputs of text, each with a line for every sentence, can be read side by side")

// readBeside reads a line of every input at a time, and puts one record with the texts of all, separated by tabs, into the
// queue. A tab within a text becomes a space. Positions are those of the first input; the others continue at the same line,
// which is found by reading what comes before.
func (l *lane) readBeside(at job.Position) error {
	var decoders []recordio.Decoder
	for i, in := range l.inputs {
		from := job.Position{}
		if i == 0 {
			from = at
		}
		decoder, closer, err := l.open(in, from)
		if err != nil {
			return err
		}
		defer closer.Close()
		decoders = append(decoders, decoder)
	}
	for i := range decoders[1:] {
		for skipped := range at.Record {
			if _, err := decoders[i+1].Next(); err != nil {
				return fmt.Errorf("%s: cannot continue at line %d: %w", l.inputs[i+1].path, skipped+1, err)
			}
		}
	}
	for {
		record, err := l.nextBeside(decoders)
		if err != nil {
			return err
		}
		if !l.queue.Put(record) {
			return errClosed
		}
	}
}

// nextBeside reads a line of each input. It returns io.EOF when all of them end.
func (l *lane) nextBeside(decoders []recordio.Decoder) (job.Record, error) {
	var joined job.Record
	var texts []string
	ended := -1
	for i, decoder := range decoders {
		record, err := decoder.Next()
		switch {
		case err == io.EOF && (i == 0 || ended >= 0):
			ended = i
			continue
		case err == io.EOF:
			return joined, l.uneven(i)
		case err != nil:
			return joined, err
		case ended >= 0:
			return joined, l.uneven(ended)
		case i == 0:
			joined = record
		default:
			joined.Size += record.Size
			joined.Flags |= record.Flags
			joined.Err = errors.Join(joined.Err, record.Err)
		}
		texts = append(texts, strings.ReplaceAll(record.Text, "\t", " "))
	}
	if ended >= 0 {
		return joined, io.EOF
	}
	joined.Text = strings.Join(texts, "\t")
	return joined, nil
}

// uneven is the error of an input that ends before another.
func (l *lane) uneven(short int) error {
	return fmt.Errorf("%s has fewer lines than another of the %d inputs that are read side by side", l.inputs[short].path, len(l.inputs))
}
