package vocab

import (
	"fmt"
	"math/bits"
	"slices"
)

// A trie finds the pieces that a text begins with.
//
// A node's children lie side by side in ascending order of their labels, so that one with a single child (most have
// one) costs a comparison, a few children a short scan, and many a look at a bitmap. Memory is bounded by the length
// of the keys: 16 bytes for each node, 48 more for each node with more than fewChildren children.
type trie struct {
	nodes  []trieNode // nodes[0] is the root
	bushes []bush
}

type trieNode struct {
	first    uint32 // the first child; with more than fewChildren children the index of a bush
	id       int32  // of the piece that ends here, if kind is not 0
	score    float32
	children uint8
	label    uint8     // the byte that leads here
	kind     pieceKind // of the piece that ends here; 0 if none does
}

// A bush has the children of one node: bit c is set if there is a child with label c.
type bush struct {
	has    [4]uint64
	before [4]uint8 // number of bits set in the words before
	first  uint32
}

const fewChildren = 4

// noNode is what next returns when there is no such child: the root is nobody's child.
const noNode uint32 = 0

// next returns the child of node n with label c, or noNode.
func (t *trie) next(n uint32, c byte) uint32 {
	node := &t.nodes[n]
	if node.children == 1 {
		if t.nodes[node.first].label == c {
			return node.first
		}
		return noNode
	}
	return t.branch(node, c)
}

func (t *trie) branch(node *trieNode, c byte) uint32 {
	if node.children <= fewChildren {
		for child := node.first; child < node.first+uint32(node.children); child++ {
			if t.nodes[child].label == c {
				return child
			}
		}
		return noNode
	}
	b := &t.bushes[node.first]
	word, bit := b.has[c>>6], uint64(1)<<(c&63)
	if word&bit == 0 {
		return noNode
	}
	return b.first + uint32(b.before[c>>6]) + uint32(bits.OnesCount64(word&(bit-1)))
}

// walk follows text from node n and returns where it leads, or noNode.
func (t *trie) walk(n uint32, text []byte) uint32 {
	for _, c := range text {
		if n = t.next(n, c); n == noNode {
			return noNode
		}
	}
	return n
}

// longestKey returns the length of the longest key that text begins with, 0 if there is none.
func longestKey[T string | []byte](t *trie, text T) int {
	length := 0
	n := uint32(0)
	for i := 0; i < len(text); i++ {
		if n = t.next(n, text[i]); n == noNode {
			break
		}
		if t.nodes[n].kind != 0 {
			length = i + 1
		}
	}
	return length
}

// A duplicateKey is the error of a key that a trie was given twice.
type duplicateKey struct{ id int32 }

func (d duplicateKey) Error() string { return fmt.Sprintf("key %d is already there", d.id) }

// newTrie builds the trie of the given pieces, of which ids are the numbers to include. Keys are neither empty nor do
// they hold a zero byte.
func newTrie(pieces []pieceProto, ids []int32) (*trie, error) {
	b := trieBuilder{
		trie:    &trie{nodes: make([]trieNode, 1, 4*len(ids)+1)},
		pieces:  pieces,
		scratch: make([]int32, len(ids)),
	}
	b.pending = append(b.pending, pendingNode{node: 0, ids: append([]int32(nil), ids...)})
	for len(b.pending) > 0 {
		last := len(b.pending) - 1
		p := b.pending[last]
		b.pending = b.pending[:last]
		if err := b.expand(p); err != nil {
			return nil, err
		}
	}
	return b.trie, nil
}

type trieBuilder struct {
	trie    *trie
	pieces  []pieceProto
	pending []pendingNode
	scratch []int32
	labels  []byte
}

// A pendingNode awaits its children: ids are the pieces below it, all alike in their first depth bytes.
type pendingNode struct {
	node  uint32
	depth int
	ids   []int32
}

// expand ends the piece that ends at the node, and gives the node its children.
func (b *trieBuilder) expand(p pendingNode) error {
	ids, err := b.end(p)
	if err != nil || len(ids) == 0 {
		return err
	}
	b.sortByLabel(ids, p.depth)
	first := uint32(len(b.trie.nodes))
	firstPending := len(b.pending)
	b.labels = b.labels[:0]
	for low := 0; low < len(ids); {
		label := b.pieces[ids[low]].text[p.depth]
		high := low + 1
		for high < len(ids) && b.pieces[ids[high]].text[p.depth] == label {
			high++
		}
		child := uint32(len(b.trie.nodes))
		b.trie.nodes = append(b.trie.nodes, trieNode{label: label})
		b.labels = append(b.labels, label)
		b.pending = append(b.pending, pendingNode{child, p.depth + 1, ids[low:high]})
		low = high
	}
	// The first child comes next, so that a path of single children lies in one piece of memory.
	slices.Reverse(b.pending[firstPending:])
	b.link(&b.trie.nodes[p.node], first)
	return nil
}

// end marks the node with the piece that ends there and returns the other ids.
func (b *trieBuilder) end(p pendingNode) ([]int32, error) {
	longer := p.ids[:0]
	node := &b.trie.nodes[p.node]
	for _, id := range p.ids {
		piece := &b.pieces[id]
		if len(piece.text) > p.depth {
			longer = append(longer, id)
			continue
		}
		if node.kind != 0 {
			return nil, duplicateKey{max(id, node.id)}
		}
		node.id, node.score, node.kind = id, piece.score, piece.kind
	}
	return longer, nil
}

// link makes the nodes from first, labelled b.labels, the children of node.
func (b *trieBuilder) link(node *trieNode, first uint32) {
	node.children = uint8(len(b.labels))
	if len(b.labels) <= fewChildren {
		node.first = first
		return
	}
	node.first = uint32(len(b.trie.bushes))
	bush := bush{first: first}
	for _, label := range b.labels {
		bush.has[label>>6] |= 1 << (label & 63)
	}
	for i := 1; i < 4; i++ {
		bush.before[i] = bush.before[i-1] + uint8(bits.OnesCount64(bush.has[i-1]))
	}
	b.trie.bushes = append(b.trie.bushes, bush)
}

// sortByLabel sorts ids by the byte at depth: few by insertion, many by counting.
func (b *trieBuilder) sortByLabel(ids []int32, depth int) {
	const few = 24
	if len(ids) <= few {
		for i := 1; i < len(ids); i++ {
			for j := i; j > 0 && b.pieces[ids[j]].text[depth] < b.pieces[ids[j-1]].text[depth]; j-- {
				ids[j], ids[j-1] = ids[j-1], ids[j]
			}
		}
		return
	}
	var start [257]int
	for _, id := range ids {
		start[int(b.pieces[id].text[depth])+1]++
	}
	for c := 1; c < len(start); c++ {
		start[c] += start[c-1]
	}
	sorted := b.scratch[:len(ids)]
	for _, id := range ids {
		c := b.pieces[id].text[depth]
		sorted[start[c]] = id
		start[c]++
	}
	copy(ids, sorted)
}

// prefixTrie builds a trie of plain strings.
func prefixTrie(keys []string) (*trie, error) {
	pieces := make([]pieceProto, len(keys))
	ids := make([]int32, len(keys))
	for i, key := range keys {
		pieces[i] = pieceProto{text: key, kind: userDefinedPiece}
		ids[i] = int32(i)
	}
	return newTrie(pieces, ids)
}
