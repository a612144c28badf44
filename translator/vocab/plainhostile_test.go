package vocab

import (
	"slices"
	"testing"
)

// Plain vocabularies that are cut at any byte, or have one changed, are refused, or are vocabularies that work: a list of lines
// may end after any of them. A cut dictionary in braces and a cut archive are always refused.
func TestDamagedPlainVocabularies(t *testing.T) {
	json := []byte(`{"</s>": 0, "<unk>": 1, "the": 2, "farmer": 3, "'": 4, "\ud83d\ude00": 5}`)
	for _, c := range []struct {
		name    string
		data    []byte
		format  format
		refused bool // wherever it is cut
	}{
		{"YAML", []byte("\"</s>\": 0\n\"<unk>\": 1\nthe: 2\n\"farmer\": 3\n\"'\": 4\n\"\\U0001F600\": 5\n"), mapFormat, false},
		{"YAML in braces", []byte("{</s>: 0, <unk>: 1, the: 2, farmer: 3, \"'\": 4, 😀: 5}"), mapFormat, true},
		{"JSON", json, mapFormat, true},
		{"text", []byte("</s>\n<unk>\nthe\nfarmer\n'\n😀\n"), textFormat, false},
	} {
		for n := range c.data {
			v, err := parse(c.data[:n:n], c.format)
			if err == nil && c.refused {
				t.Errorf("%s cut to %d of %d bytes was accepted", c.name, n, len(c.data))
			}
			if err == nil {
				use(v)
			}
			for _, flip := range []byte{0x01, 0x10, 0x80, 0xff} {
				changed := slices.Clone(c.data)
				changed[n] ^= flip
				if v, err := parse(changed, c.format); err == nil {
					use(v)
				}
			}
		}
	}
	for _, archive := range [][]byte{gzipped(t, json), zstandard(t, json)} {
		for n := 4; n < len(archive); n++ { // with fewer bytes it is none
			if _, err := decompress(archive[:n:n]); err == nil {
				t.Errorf("an archive cut to %d of %d bytes was accepted", n, len(archive))
			}
		}
	}
}
