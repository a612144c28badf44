package vocab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parseText reads a vocabulary of one token a line: the number of the line, counted from 0, is the id.
func parseText(data []byte, fingerprint string) (Vocabulary, error) {
	var entries plainEntries
	text := strings.TrimSuffix(string(data), "\n")
	line := 0
	for token := range strings.SplitSeq(text, "\n") {
		line++
		if text == "" {
			break
		}
		if err := entries.add(strings.TrimSuffix(token, "\r"), int64(line-1)); err != nil {
			return nil, atLine(line, "%w", err)
		}
	}
	return entries.vocabulary(false, fingerprint)
}

// parseMap reads a vocabulary that gives each token its id, in YAML or JSON.
func parseMap(data []byte, fingerprint string) (Vocabulary, error) {
	entries, err := mapEntries(data)
	if err != nil {
		return nil, err
	}
	return entries.vocabulary(true, fingerprint)
}

func mapEntries(data []byte) (*plainEntries, error) {
	if entries, err := lineEntries(string(data)); entries != nil || err != nil {
		return entries, err
	}
	if json.Valid(data) {
		return jsonEntries(data)
	}
	return yamlEntries(data)
}

// lineEntries reads YAML of the form in which Marian writes vocabularies, one token and its id on each line. It does
// so many times faster than a YAML reader, in a fraction of the memory. For any other form it returns nil.
func lineEntries(text string) (*plainEntries, error) {
	var entries plainEntries
	line := 0
	for entry := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		line++
		token, id, ok := cutEntry(entry)
		if !ok {
			return nil, nil
		}
		if err := entries.addParsed(token, id); err != nil {
			return nil, atLine(line, "%w", err)
		}
	}
	return &entries, nil
}

// cutEntry cuts a line such as
//
//	"</s>": 0
//	farmer: 17
//
// into its token and its id. It leaves all that has a special meaning in YAML to the YAML reader: escapes, comments,
// whatever is neither a letter nor a digit outside quotes.
func cutEntry(line string) (token, id string, ok bool) {
	const longest = 1000 // YAML knows longer ones, but only if they are marked as such
	i := strings.LastIndex(line, ": ")
	if i < 1 || i > longest {
		return "", "", false
	}
	token, id = line[:i], line[i+2:]
	if len(id) > 9 || id == "" || id[0] == '0' && id != "0" || strings.Trim(id, "0123456789") != "" {
		return "", "", false
	}
	if len(token) > 2 && token[0] == '"' && token[len(token)-1] == '"' {
		token = token[1 : len(token)-1]
		return token, id, utf8.ValidString(token) && !strings.ContainsFunc(token, needsEscape)
	}
	return token, id, utf8.ValidString(token) && !strings.ContainsFunc(token, needsQuotes)
}

func needsEscape(r rune) bool { return r == '"' || r == '\\' || !unicode.IsPrint(r) }

func needsQuotes(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// jsonEntries reads a JSON object. JSON is YAML as well, but only a JSON reader joins \ud83d\ude00 to one character.
func jsonEntries(data []byte) (*plainEntries, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var entries plainEntries
	opening, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if opening != json.Delim('{') {
		return nil, atByte(0, "this JSON is not a vocabulary, which is an object with an id for each token")
	}
	for decoder.More() {
		at := int(decoder.InputOffset())
		token, err := decoder.Token()
		if err != nil {
			return nil, atByte(at, "%w", err)
		}
		value, err := decoder.Token()
		if err != nil {
			return nil, atByte(at, "%w", err)
		}
		number, ok := value.(json.Number)
		if !ok {
			return nil, atByte(at, "token %q has no number as its id", token)
		}
		if err := entries.addParsed(token.(string), number.String()); err != nil {
			return nil, atByte(at, "%w", err)
		}
	}
	return &entries, nil
}

// maxYAML limits what is given to the YAML reader, to which a list of short words costs 200 times its size.
const maxYAML = 2 << 20

// yamlEntries reads a YAML mapping.
func yamlEntries(data []byte) (*plainEntries, error) {
	if len(data) > maxYAML {
		return nil, fmt.Errorf("more than %d MiB of YAML that is not a token and its id on each line: write it so, or as JSON",
			maxYAML>>20)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("this is not YAML: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("this YAML is not a vocabulary, which is a mapping with an id for each token")
	}
	var entries plainEntries
	mapping := document.Content[0].Content
	for i := 0; i+1 < len(mapping); i += 2 {
		token, id := mapping[i], mapping[i+1]
		if token.Kind != yaml.ScalarNode || id.Kind != yaml.ScalarNode {
			return nil, atLine(token.Line, "this is not a token with its id")
		}
		if err := entries.addParsed(token.Value, id.Value); err != nil {
			return nil, atLine(token.Line, "%w", err)
		}
	}
	return &entries, nil
}

// addParsed enters a token with the id written in decimal.
func (e *plainEntries) addParsed(token, id string) error {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return fmt.Errorf("token %q has the id %q, which is not a number", token, id)
	}
	return e.add(token, n)
}
