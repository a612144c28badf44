package s3

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/producer"
)

// ErrExists is returned for an output that is there already and was not made by sluice.
var ErrExists = errors.New("the object exists already")

// The names of metadata.
const (
	metaWriter   = "sluice-writer"
	metaJob      = "sluice-job"
	metaInput    = "sluice-input"
	metaMadeWith = "sluice-made-with"
	metaRecords  = "sluice-records"
	metaEnd      = "sluice-end"
)

// Metadata may have 2 KiB in all. What is longer than its share is stored as a hash, which can be compared still.
const (
	mostInput    = 700
	mostMadeWith = 900
)

// made is what an object's metadata say of how it came about.
type made struct {
	writer   string // a name that no other attempt has
	job      string
	input    json.RawMessage   // identity; nil if it is not known
	madeWith map[string]string // values that are long as hashes
	records  int64             // -1 if that was not known when the object was begun
	end      *job.Position     // in a chain, where the next object begins
}

// describe returns what is written of an object that is begun now.
func (s *Sink) describe(input json.RawMessage) *made {
	return &made{writer: s3client.NewToken(), job: s.config.Job, input: input, madeWith: producer.ShortMadeWith(s.config.MadeWith), records: -1}
}

// encode returns the metadata. They are of ASCII, since they travel in headers.
func (m *made) encode() (map[string]string, error) {
	madeWith, err := json.Marshal(m.madeWith)
	if err != nil {
		return nil, err
	}
	options := ascii(madeWith)
	if len(options) > mostMadeWith {
		return nil, fmt.Errorf("s3: what outputs are made with takes %d bytes in their metadata, and there is room for %d: %.200s…", len(options), mostMadeWith, options)
	}
	data := map[string]string{metaWriter: m.writer, metaJob: ascii([]byte(m.job)), metaMadeWith: options}
	if len(m.input) > 0 {
		data[metaInput] = storedInput(m.input)
	}
	if m.records >= 0 {
		data[metaRecords] = strconv.FormatInt(m.records, 10)
	}
	if m.end != nil {
		end, err := json.Marshal(m.end)
		if err != nil {
			return nil, err
		}
		data[metaEnd] = string(end)
	}
	return data, nil
}

// storedInput is an identity as it is stored, or its hash.
func storedInput(identity json.RawMessage) string {
	if text := ascii(identity); len(text) <= mostInput {
		return text
	}
	return producer.Hashed(string(identity))
}

// ascii escapes what is not ASCII as JSON does.
func ascii(text []byte) string {
	var out strings.Builder
	for _, r := range string(text) {
		switch {
		case r >= ' ' && r < 0x7f:
			out.WriteByte(byte(r))
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// parseMade reads metadata. An object that has none of ours is ErrExists.
func parseMade(info *s3client.Info) (*made, error) {
	data := info.Metadata
	if data[metaWriter] == "" || data[metaMadeWith] == "" {
		return nil, fmt.Errorf("%s: %w, and its metadata do not say that sluice has made it: move it away, or overwrite it", info.URI(), ErrExists)
	}
	m := &made{writer: data[metaWriter], job: data[metaJob], records: -1}
	err := json.Unmarshal([]byte(data[metaMadeWith]), &m.madeWith)
	if input := data[metaInput]; input != "" {
		m.input = json.RawMessage(input)
	}
	if records := data[metaRecords]; records != "" && err == nil {
		m.records, err = strconv.ParseInt(records, 10, 64)
	}
	if end := data[metaEnd]; end != "" && err == nil {
		m.end = new(job.Position)
		err = json.Unmarshal([]byte(end), m.end)
	}
	if err == nil && m.end != nil && (m.end.Record < 0 || m.end.Offset < 0 || m.end.Input < 0) {
		err = errors.New("a position is negative")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: its metadata cannot be read: %w", info.URI(), err)
	}
	return m, nil
}

// compare says what differs between what an object was made of and what it would be made of now. identity is that of
// its input now; of a lane whose input is not known it is nil.
func (s *Sink) compare(lane string, info *s3client.Info, found *made, identity json.RawMessage) error {
	changes := producer.MadeWithChanges(found.madeWith, producer.ShortMadeWith(s.config.MadeWith))
	switch {
	case len(found.input) == 0 || len(identity) == 0 || string(found.input) == storedInput(identity):
	case found.input[0] != '{' && found.input[0] != '[':
		changes = append(changes, "the input was changed")
	default:
		more, err := s.config.Input.Changes(lane, found.input)
		if err != nil {
			return fmt.Errorf("%s: %w", info.URI(), err)
		}
		changes = append(changes, more...)
	}
	if len(changes) > 0 {
		return &producer.ChangedError{Output: info.URI(), Changes: changes}
	}
	return nil
}

// identity returns the identity of the lane's input, nil if it has none.
func (s *Sink) identity(lane string) (json.RawMessage, error) {
	if s.config.Input == nil {
		return nil, nil
	}
	return s.config.Input.Identity(lane)
}
