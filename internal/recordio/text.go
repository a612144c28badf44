package recordio

import (
	"bytes"

	"github.com/sluice-mt/sluice/internal/job"
)

// text is the layout of plain text: the line is what is translated.
type text struct{}

func (text) needsFirst() bool { return false }

func (text) absent() any { return nil }

func (text) decode(line []byte, record *job.Record) error {
	var flags job.Flags
	record.Text, flags = repair(string(line))
	record.Flags |= flags
	return nil
}

// A textEncoder writes the best translation, one a line.
type textEncoder struct{}

func (textEncoder) Append(dst []byte, output *job.Output) ([]byte, error) {
	return append(appendLine(dst, output.Result.Text(), false), '\n'), nil
}

// appendLine appends text with line breaks, and tabs where they separate fields, turned into spaces.
func appendLine(dst []byte, text string, tabs bool) []byte {
	from := len(dst)
	dst = append(dst, text...)
	replace(dst[from:], '\n')
	replace(dst[from:], '\r')
	if tabs {
		replace(dst[from:], '\t')
	}
	return dst
}

func replace(text []byte, c byte) {
	for {
		i := bytes.IndexByte(text, c)
		if i < 0 {
			return
		}
		text[i] = ' '
		text = text[i+1:]
	}
}
