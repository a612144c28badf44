// Package deadletter defines the letter that is kept of a record that could not be translated: where it came from,
// why it is here, and the bytes it was read from, so that it can be looked at and sent again.
//
// A letter is one line of JSON:
//
//	{"lane":"orders/3","record":17,"position":{"record":18,"input":0,"offset":1042},"reason":"…",
//	 "flags":["unreadable"],"time":"2026-01-02T03:04:05Z","original":"…","message":{"key":"a2V5","headers":[…]}}
//
// original holds the bytes as text where they are valid UTF-8, and original_base64 holds them where they are not. In
// message, the key and the values of headers are base64. What does not apply is missing.
package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/internal/job"
)

// A Letter tells of one record.
type Letter struct {
	Lane     string       // what the source calls the lane: a path, a key, topic/partition
	Record   int64        // number within the lane, from 0
	Position job.Position // where the lane continues after the record; of a broker's message, its offset is one less
	Reason   string
	Flags    job.Flags
	Time     time.Time // when it was written; zero where output must not depend on time
	Original []byte    // the record as it was read; empty where it was too long to be kept
	Message  *job.Message
}

// Failed returns why an output is to become a letter, nil if it is not.
func Failed(output *job.Output) error {
	if output.Record.Err != nil {
		return output.Record.Err
	}
	return output.Result.Err
}

// Of makes the letter of an output that Failed gives a reason for.
func Of(lane string, output *job.Output) Letter {
	record := &output.Record
	letter := Letter{
		Lane: lane, Record: record.Seq, Position: record.End,
		Flags: record.Flags | output.Result.Flags, Original: record.Original, Message: record.Message,
	}
	if letter.Original == nil {
		letter.Original = []byte(record.Text)
	}
	if err := Failed(output); err != nil {
		letter.Reason = err.Error()
	}
	return letter
}

// wire is the form of a letter in JSON.
type wire struct {
	Lane     string       `json:"lane"`
	Record   int64        `json:"record"`
	Position job.Position `json:"position"`
	Reason   string       `json:"reason"`
	Flags    []string     `json:"flags,omitempty"`
	Time     time.Time    `json:"time,omitzero"`
	Text     *string      `json:"original,omitempty"`
	Bytes    []byte       `json:"original_base64,omitempty"`
	Message  *message     `json:"message,omitempty"`
}

type message struct {
	Key       *[]byte   `json:"key,omitempty"` // an empty key is not the same as none
	Headers   []header  `json:"headers,omitempty"`
	Time      time.Time `json:"time,omitzero"`
	Tombstone bool      `json:"tombstone,omitempty"`
}

type header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"` // null is no value, which is not the same as an empty one
}

// Append appends the letter as one line of JSON, its line feed included. The same letter gives the same bytes.
func Append(dst []byte, letter *Letter) ([]byte, error) {
	w := wire{
		Lane: letter.Lane, Record: letter.Record, Position: letter.Position, Reason: letter.Reason,
		Flags: letter.Flags.Names(), Time: letter.Time,
	}
	if utf8.Valid(letter.Original) {
		text := string(letter.Original)
		w.Text = &text
	} else {
		w.Bytes = letter.Original
	}
	if m := letter.Message; m != nil {
		w.Message = &message{Time: m.Time, Tombstone: m.Tombstone}
		if m.Key != nil {
			w.Message.Key = &m.Key
		}
		for _, h := range m.Headers {
			w.Message.Headers = append(w.Message.Headers, header(h))
		}
	}
	buffer := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&w); err != nil {
		return dst, fmt.Errorf("dead letter of %s, record %d: %w", letter.Lane, letter.Record, err)
	}
	return buffer.Bytes(), nil
}

// Parse reads what Append wrote. Flags of names that are not known are passed over.
func Parse(line []byte) (Letter, error) {
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		return Letter{}, fmt.Errorf("not a dead letter: %w", err)
	}
	if w.Lane == "" || w.Text != nil && w.Bytes != nil {
		return Letter{}, errors.New("not a dead letter: it lacks a lane, or has its original twice")
	}
	letter := Letter{
		Lane: w.Lane, Record: w.Record, Position: w.Position, Reason: w.Reason,
		Flags: parseFlags(w.Flags), Time: w.Time, Original: w.Bytes,
	}
	if w.Text != nil {
		letter.Original = []byte(*w.Text)
	}
	if m := w.Message; m != nil {
		letter.Message = &job.Message{Time: m.Time, Tombstone: m.Tombstone}
		if m.Key != nil {
			letter.Message.Key = *m.Key
		}
		for _, h := range m.Headers {
			letter.Message.Headers = append(letter.Message.Headers, job.Header(h))
		}
	}
	return letter, nil
}

func parseFlags(names []string) job.Flags {
	var flags job.Flags
	for bit := job.Flags(1); bit != 0; bit <<= 1 {
		if name := bit.String(); name != "" && slices.Contains(names, name) {
			flags |= bit
		}
	}
	return flags
}
