package recordio

import (
	"fmt"

	"github.com/sluice-mt/sluice/internal/job"
)

// An Encoder writes outputs. Append appends the bytes of one output, its line break included, and is given every
// output of the lane in order, though not from the first where a lane is continued: so it must not depend on those
// before.
type Encoder interface {
	Append(dst []byte, output *job.Output) ([]byte, error)
}

// NewEncoder returns an Encoder that writes the best translation into what was read, in the format that was read.
// A Parquet file cannot be written row by row; its Encoder writes the translations alone, which AssembleParquet
// puts beside the other columns.
func NewEncoder(options Options) Encoder {
	switch options.Format {
	case TSV, JSONL:
		return spliceEncoder{}
	case Parquet:
		return spoolEncoder{}
	default:
		return textEncoder{}
	}
}

// NewTextEncoder returns an Encoder that writes the best translation alone, one a line, whatever was read.
func NewTextEncoder() Encoder { return textEncoder{} }

// NewLineEncoder returns an Encoder that writes one line for every hypothesis, best first, as format says. id is the
// record's number in the lane. A record without hypotheses gets one line, for an empty hypothesis.
func NewLineEncoder(format func(dst []byte, id int64, hypothesis *job.Hypothesis) []byte) Encoder {
	return lineEncoder(format)
}

type lineEncoder func(dst []byte, id int64, hypothesis *job.Hypothesis) []byte

func (format lineEncoder) Append(dst []byte, output *job.Output) ([]byte, error) {
	hypotheses := output.Result.Hypotheses
	if len(hypotheses) == 0 {
		hypotheses = []job.Hypothesis{{}}
	}
	for i := range hypotheses {
		from := len(dst)
		dst = format(dst, output.Record.Seq, &hypotheses[i])
		replace(dst[from:], '\n')
		replace(dst[from:], '\r')
		dst = append(dst, '\n')
	}
	return dst, nil
}

// A splice is a line as it was read, and where in it the translation goes.
type splice struct {
	line  string
	at    int    // the translation replaces line[at:end]; -1 to write the line as it is
	end   int    //
	lead  string // written before the translation
	quote bool   // the translation is written as a JSON string
}

// unchanged carries a line through as it was read.
func unchanged(line string) splice { return splice{line: line, at: -1} }

type spliceEncoder struct{}

func (spliceEncoder) Append(dst []byte, output *job.Output) ([]byte, error) {
	carried, ok := output.Record.Carry.(splice)
	if !ok {
		return dst, fmt.Errorf("record %d was not read from a file of this format", output.Record.Seq)
	}
	if carried.at < 0 {
		return append(append(dst, carried.line...), '\n'), nil
	}
	dst = append(dst, carried.line[:carried.at]...)
	dst = append(dst, carried.lead...)
	switch {
	case !carried.quote:
		dst = appendLine(dst, output.Result.Text(), true)
	case len(output.Result.Hypotheses) == 0:
		dst = append(dst, "null"...)
	default:
		dst = appendJSONString(dst, output.Result.Text())
	}
	dst = append(dst, carried.line[carried.end:]...)
	return append(dst, '\n'), nil
}
