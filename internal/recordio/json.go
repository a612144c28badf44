package recordio

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/internal/job"
)

// jsonl is the layout of one JSON value a line. The line keeps its bytes, so the order of the members and the way
// numbers are written stay as they were. A line of white space is a record with nothing to translate.
type jsonl struct {
	field, target []step
	prefix        []step // nil for none
	further       [][]step
	furtherNames  []string
	fieldName     string
	key           string // the member that is added where target is missing
}

func newJSON(options Options) (*jsonl, error) {
	if err := options.Check(); err != nil {
		return nil, err
	}
	j := &jsonl{fieldName: options.Field}
	if j.fieldName == "" {
		j.fieldName = defaultJSON
	}
	target := options.Target
	if target == "" {
		target = defaultTarget
	}
	j.field, _ = parsePath(j.fieldName)
	j.target, _ = parsePath(target)
	if options.Prefix != "" {
		j.prefix, _ = parsePath(options.Prefix)
	}
	for _, name := range options.Further {
		path, _ := parsePath(name)
		j.further, j.furtherNames = append(j.further, path), append(j.furtherNames, name)
	}
	j.key = string(appendJSONString(nil, j.target[len(j.target)-1].key))
	return j, nil
}

func (j *jsonl) needsFirst() bool { return false }

func (j *jsonl) absent() any { return unchanged("") }

func (j *jsonl) decode(text []byte, record *job.Record) error {
	line := string(text)
	record.Carry = unchanged(line)
	begin := skipSpace(line, 0)
	if begin == len(line) {
		return nil
	}
	carried, err := j.read(text, line, begin, record)
	if err != nil {
		record.Err = err
		record.Flags |= job.Unreadable
		record.Text, record.Original = "", []byte(line)
		return nil
	}
	record.Carry = carried
	return nil
}

func (j *jsonl) read(text []byte, line string, begin int, record *job.Record) (splice, error) {
	if err := validate(text); err != nil {
		return splice{}, err
	}
	texts := make([]string, 1+len(j.further))
	var err error
	if texts[0], err = readString(line, begin, j.field, j.fieldName, record); err != nil {
		return splice{}, err
	}
	for i, path := range j.further {
		if texts[i+1], err = readString(line, begin, path, j.furtherNames[i], record); err != nil {
			return splice{}, err
		}
	}
	if record.Text = texts[0]; len(texts) > 1 {
		record.Text = besides(texts)
	}
	if err := j.readPrefix(line, begin, record); err != nil {
		return splice{}, err
	}
	return j.place(line, begin)
}

// readString reads the string at a path.
func readString(line string, begin int, path []step, name string, record *job.Record) (string, error) {
	source, ok := follow(line, begin, path)
	if !ok {
		return "", fmt.Errorf("the field %s is missing", name)
	}
	if line[source.at] != '"' {
		return "", fmt.Errorf("%s is %s, not a string", name, kindOf(line[source.at]))
	}
	text, flags, err := unquote(line[source.at:source.end])
	record.Flags |= flags
	return text, err
}

// readPrefix reads what the translation has to begin with. Where there is nothing, or null, it is free.
func (j *jsonl) readPrefix(line string, begin int, record *job.Record) error {
	if j.prefix == nil {
		return nil
	}
	found, ok := follow(line, begin, j.prefix)
	if !ok || line[found.at] == 'n' {
		return nil
	}
	if line[found.at] != '"' {
		return fmt.Errorf("the prefix is %s, not a string", kindOf(line[found.at]))
	}
	prefix, flags, err := unquote(line[found.at:found.end])
	record.Prefix = prefix
	record.Flags |= flags
	return err
}

func validate(text []byte) error {
	if json.Valid(text) {
		return nil
	}
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON, at byte %d of the line: %w", syntax.Offset, err)
	}
	return fmt.Errorf("not JSON: %w", err)
}

// place finds where the translation goes.
func (j *jsonl) place(line string, begin int) (splice, error) {
	if there, ok := follow(line, begin, j.target); ok {
		return splice{line: line, at: there.at, end: there.end, quote: true}, nil
	}
	last := len(j.target) - 1
	parent, ok := follow(line, begin, j.target[:last])
	if !ok || line[parent.at] != '{' || j.target[last].index >= 0 {
		return splice{}, errors.New("there is no place for the translation")
	}
	closing := parent.end - 1
	at := len(strings.TrimRight(line[:closing], " \t\r\n"))
	lead := j.key + ":"
	spaced := strings.Contains(line[parent.at:parent.end], `": `)
	if spaced {
		lead += " "
	}
	if line[at-1] != '{' {
		comma := ","
		if spaced {
			comma = ", "
		}
		lead = comma + lead
	}
	return splice{line: line, at: at, end: at, lead: lead, quote: true}, nil
}

func kindOf(first byte) string {
	switch first {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	default:
		return "a number"
	}
}

// unquote returns the text of a valid JSON string. Bytes that are not UTF-8 and halves of surrogate pairs become
// U+FFFD, which is flagged.
func unquote(quoted string) (string, job.Flags, error) {
	if !strings.Contains(quoted, `\`) {
		text, flags := repair(quoted[1 : len(quoted)-1])
		return text, flags, nil
	}
	var text string
	if err := json.Unmarshal([]byte(quoted), &text); err != nil {
		return "", 0, fmt.Errorf("not JSON: %w", err)
	}
	written := strings.Count(quoted, "\ufffd") + strings.Count(strings.ToLower(quoted), `\ufffd`)
	if !utf8.ValidString(quoted) || strings.Count(text, "\ufffd") > written {
		return text, job.InvalidText, nil
	}
	return text, 0, nil
}

const hex = "0123456789abcdef"

// appendJSONString appends text as a JSON string. What some readers take for a line break is escaped.
func appendJSONString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r == '\t':
			dst = append(dst, '\\', 't')
		case slices.Contains(lineBreaks, r), r < ' ', r == 0x7f:
			dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// lineBreaks are NEL, LINE SEPARATOR and PARAGRAPH SEPARATOR.
var lineBreaks = []rune{0x85, 0x2028, 0x2029}
