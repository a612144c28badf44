package vocab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

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
	if json.Valid(data) {
		return jsonEntries(data)
	}
	return yamlEntries(data)
}

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

// yamlEntries reads a YAML mapping.
func yamlEntries(data []byte) (*plainEntries, error) {
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
