package vocab

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTrie compares with a map. Keys are short and of few different bytes, so that they share prefixes, or of all
// bytes but zero, so that nodes have many children.
func TestTrie(t *testing.T) {
	few := rapid.StringOfN(rapid.RuneFrom([]rune("abcdefg")), 1, 5, -1)
	all := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.ByteRange(1, 255), 1, 3).Draw(t, "bytes"))
	})
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]*rapid.Generator[string]{few, all}).Draw(t, "kind")
		keys := rapid.SliceOfNDistinct(key, 0, 400, rapid.ID).Draw(t, "keys")
		trie, err := prefixTrie(keys)
		if err != nil {
			t.Fatal(err)
		}
		ids := make(map[string]int32)
		for i, key := range keys {
			ids[key] = int32(i)
		}
		for _, text := range append(rapid.SliceOfN(key, 1, 50).Draw(t, "texts"), keys...) {
			node := trie.nodes[trie.walk(0, []byte(text))]
			if id, ok := ids[text]; ok != (node.kind != 0) || ok && id != node.id {
				t.Fatalf("%q: id %d, kind %d; the map says %d, %v", text, node.id, node.kind, id, ok)
			}
			longest := 0
			for _, key := range keys {
				if strings.HasPrefix(text, key) {
					longest = max(longest, len(key))
				}
			}
			if got := longestKey(trie, text); got != longest {
				t.Fatalf("%q: the longest key has %d bytes, not %d", text, longest, got)
			}
		}
	})
}

func TestTrieDuplicate(t *testing.T) {
	_, err := prefixTrie([]string{"ab", "a", "abc", "b", "ab"})
	var duplicate duplicateKey
	if !errors.As(err, &duplicate) || duplicate.id != 4 {
		t.Errorf("got the error %v", err)
	}
}
