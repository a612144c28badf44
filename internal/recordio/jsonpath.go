package recordio

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A step goes from a JSON value to one of its parts.
type step struct {
	key   string
	index int // of an array; -1 where the step is a key
}

// parsePath reads a path such as a.b[0].c or a["b.c"]. The empty path has no steps.
func parsePath(path string) ([]step, error) {
	var steps []step
	for rest := path; rest != ""; {
		var next step
		var err error
		if rest[0] == '[' {
			next, rest, err = parseBracket(rest)
		} else {
			if rest[0] == '.' && len(steps) > 0 {
				rest = rest[1:]
			}
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			next, rest = step{rest[:end], -1}, rest[end:]
			if end == 0 {
				err = fmt.Errorf("a name is missing")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", path, err)
		}
		steps = append(steps, next)
	}
	return steps, nil
}

// parseBracket reads [0] or ["key"] from the beginning of path.
func parseBracket(path string) (step, string, error) {
	if strings.HasPrefix(path, `["`) {
		end := skipString(path, 1)
		if end < len(path) && path[end] == ']' {
			var key string
			if err := json.Unmarshal([]byte(path[1:end]), &key); err == nil {
				return step{key, -1}, path[end+1:], nil
			}
		}
		return step{}, "", fmt.Errorf(`%s is not a key in brackets, such as ["key"]`, path)
	}
	end := strings.IndexByte(path, ']')
	if end < 0 {
		return step{}, "", fmt.Errorf("%s lacks a closing bracket", path)
	}
	index, err := strconv.ParseUint(path[1:end], 10, 31)
	if err != nil {
		return step{}, "", fmt.Errorf("%s is not an index, such as [0]", path[:end+1])
	}
	return step{"", int(index)}, path[end+1:], nil
}

// A span is a part of a line of JSON.
type span struct{ at, end int }

// follow returns where the value lies to which the steps lead from the value at the given byte. The text must be
// valid JSON. Of several members with the same key the last one counts, as for most readers of JSON.
func follow(text string, at int, steps []step) (span, bool) {
	for _, s := range steps {
		var ok bool
		if at, ok = enter(text, at, s); !ok {
			return span{}, false
		}
	}
	return span{at, skipValue(text, at)}, true
}

// enter goes one step from the value at the given byte, and returns where the part begins.
func enter(text string, at int, s step) (part int, ok bool) {
	open := byte('{')
	if s.index >= 0 {
		open = '['
	}
	if text[at] != open {
		return 0, false
	}
	at = skipSpace(text, at+1)
	for i := 0; text[at] != '}' && text[at] != ']'; i++ {
		matches := i == s.index
		if s.index < 0 {
			end := skipString(text, at)
			matches = isKey(text[at:end], s.key)
			at = skipSpace(text, skipSpace(text, end)+1)
		}
		if matches {
			part, ok = at, true
		}
		at = skipSpace(text, skipValue(text, at))
		if text[at] == ',' {
			at = skipSpace(text, at+1)
		}
	}
	return part, ok
}

// isKey compares a JSON string with a key.
func isKey(quoted, key string) bool {
	if !strings.Contains(quoted, `\`) {
		return quoted[1:len(quoted)-1] == key
	}
	var name string
	return json.Unmarshal([]byte(quoted), &name) == nil && name == key
}

func skipSpace(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// skipString returns the byte behind the string whose opening quote stands at the given byte.
func skipString(text string, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(text)
}

// skipValue returns the byte behind the value that begins at the given byte.
func skipValue(text string, at int) int {
	depth := 0
	for at < len(text) {
		switch text[at] {
		case '"':
			at = skipString(text, at)
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\t', '\r', '\n':
			at++
		default:
			for at < len(text) && !strings.ContainsRune(",:]} \t\r\n", rune(text[at])) {
				at++
			}
		}
		if depth <= 0 {
			return at
		}
	}
	return at
}
