package recordio

import (
	"bytes"
	"encoding/json"

	"github.com/sluice-mt/sluice/internal/job"
)

// ValueLines writes the values of messages as the lines of a file, one for each message.
type ValueLines struct {
	value *Value
}

// NewValueLines returns an encoder of lines for the messages that v decodes.
func NewValueLines(v *Value) *ValueLines { return &ValueLines{v} }

// Append appends the value of an output's message and a line feed. Line breaks inside become spaces: in JSON they can
// only stand between tokens, where they mean nothing. A tombstone is an empty line, and null in JSON.
func (l *ValueLines) Append(dst []byte, output *job.Output) ([]byte, error) {
	if message := output.Record.Message; message != nil && message.Tombstone {
		if l.value.format == JSONL {
			dst = append(dst, "null"...)
		}
		return append(dst, '\n'), nil
	}
	start := len(dst)
	dst, err := l.value.Append(dst, output)
	if err != nil {
		return dst, err
	}
	line := dst[start:]
	if l.value.format == JSONL && !json.Valid(line) {
		// What could not be read is kept as the JSON string that it is not.
		quoted, err := json.Marshal(string(line))
		return append(append(dst[:start], quoted...), '\n'), err
	}
	for {
		i := bytes.IndexAny(line, "\n\r")
		if i < 0 {
			return append(dst, '\n'), nil
		}
		line[i] = ' '
		line = line[i+1:]
	}
}
