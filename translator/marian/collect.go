package marian

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A collector gathers the tensors of a file, whatever its format, and sets the description apart.
type collector struct {
	tensors []*Tensor
	config  []byte
	seen    map[string]bool
}

func (c *collector) add(t *Tensor) error {
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	if c.seen[t.Name] {
		return problemf(t.Name, t.Offset, "write the file again with each name once", "is there twice")
	}
	c.seen[t.Name] = true
	if t.Name != ConfigName {
		c.tensors = append(c.tensors, t)
		return nil
	}
	config, err := configOf(t)
	c.config = config
	return err
}

const maxName = 4096

// tensorName checks a name read from a file and strips the namespace of the first (or only) member of an ensemble, which
// some writers leave in.
func tensorName(name string, at int64) (string, error) {
	switch {
	case name == "":
		return "", problemf("", at, remedyDamaged, "a tensor has no name")
	case len(name) > maxName:
		return "", problemf("", at, remedyDamaged, "a tensor name has %d bytes", len(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "", problemf("", at, remedyDamaged, "a tensor name is not plain text: %q", name)
	}
	if stripped, ok := strings.CutPrefix(name, "F0::"); ok && stripped != "" {
		return stripped, nil
	}
	return name, nil
}

// configOf takes the YAML out of the tensor that holds it: int8, ended by a NUL, which newer writers repeat to fill a
// block. The result is a copy.
func configOf(t *Tensor) ([]byte, error) {
	const remedy = "the model's description is damaged: copy or download the file again"
	if t.Type != Int8 && t.Type != Uint8 {
		return nil, problemf(t.Name, t.Offset, remedy, "is stored as %s instead of int8", t.Type)
	}
	if len(t.Data) > MaxConfig {
		return nil, problemf(t.Name, t.Offset, remedy, "takes %d bytes; at most %d are accepted", len(t.Data), MaxConfig)
	}
	text := bytes.TrimRight(t.Data, "\x00")
	if !utf8.Valid(text) {
		return nil, problemf(t.Name, t.Offset, remedy, "is not UTF-8")
	}
	for i, r := range string(text) {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return nil, problemf(t.Name, t.Offset+int64(i), remedy, "is not YAML: it holds the control character %U", r)
		}
	}
	if !hasKey(text) {
		return nil, problemf(t.Name, t.Offset, remedy, "is not YAML: no line of it is \"key: value\"")
	}
	return bytes.Clone(text), nil
}

func hasKey(text []byte) bool {
	for line := range bytes.Lines(text) {
		key, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		if found && len(key) > 0 && (len(value) == 0 || value[0] == ' ') {
			return true
		}
	}
	return false
}
