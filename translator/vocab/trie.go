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

// newTrie builds the trie of some of the pieces, those that ids names. They are neither empty nor hold a zero byte.
// The order of ids changes.
func newTrie(pieces []pieceProto, ids []int32) (*trie, error) {
	b := trieBuilder{
		trie:    &trie{nodes: make([]trieNode, 1, 4*len(ids)+1)},
		pieces:  pieces,
		ids:     ids,
		scratch: make([]uint64, 0, len(ids)),
	}
	b.pending = append(b.pending, pendingNode{high: len(ids)})
	for len(b.pending) > 0 {
		last := len(b.pending) - 1
		p := b.pending[last]
		b.pending = b.pending[:last]
		if p.high-p.low == 1 {
			b.finish(p)
		} else if err := b.expand(p); err != nil {
			return nil, err
		}
	}
	return b.trie, nil
}

type trieBuilder struct {
	trie    *trie
	pieces  []pieceProto
	ids     []int32
	pending []pendingNode
	scratch []uint64
	sorted  []uint64
	labels  []byte
}

// A pendingNode awaits its children: ids[low:high] are the pieces below it, all alike in their first depth bytes.
type pendingNode struct {
	node      uint32
	depth     int
	low, high int
}

// finish gives the node the rest of the only piece below it.
func (b *trieBuilder) finish(p pendingNode) {
	id := b.ids[p.low]
	piece := &b.pieces[id]
	node := p.node
	for _, label := range []byte(piece.text[p.depth:]) {
		child := uint32(len(b.trie.nodes))
		b.trie.nodes[node].first, b.trie.nodes[node].children = child, 1
		b.trie.nodes = append(b.trie.nodes, trieNode{label: label})
		node = child
	}
	b.trie.nodes[node].mark(id, piece)
}

func (n *trieNode) mark(id int32, piece *pieceProto) {
	n.id, n.score, n.kind = id, piece.score, piece.kind
}

// expand ends the piece that ends at the node, and gives the node its children.
func (b *trieBuilder) expand(p pendingNode) error {
	keys, err := b.label(p)
	if err != nil {
		return err
	}
	b.sort(keys)
	low := p.high - len(keys)
	first := uint32(len(b.trie.nodes))
	firstPending := len(b.pending)
	b.labels = b.labels[:0]
	for i, key := range keys {
		b.ids[low+i] = int32(uint32(key))
		label := byte(key >> 32)
		if i > 0 && label == b.labels[len(b.labels)-1] {
			b.pending[len(b.pending)-1].high++
			continue
		}
		child := uint32(len(b.trie.nodes))
		b.trie.nodes = append(b.trie.nodes, trieNode{label: label})
		b.labels = append(b.labels, label)
		b.pending = append(b.pending, pendingNode{child, p.depth + 1, low + i, low + i + 1})
	}
	// The first child comes next, so that a path of single children lies in one piece of memory.
	slices.Reverse(b.pending[firstPending:])
	b.link(&b.trie.nodes[p.node], first)
	return nil
}

// label marks the node with the piece that ends there. For each of the other pieces it returns a key to sort them by:
// the byte that leads on from the node, and below it, in the low 32 bits, the id.
func (b *trieBuilder) label(p pendingNode) ([]uint64, error) {
	keys := b.scratch[:0]
	node := &b.trie.nodes[p.node]
	for _, id := range b.ids[p.low:p.high] {
		piece := &b.pieces[id]
		if len(piece.text) > p.depth {
			keys = append(keys, uint64(piece.text[p.depth])<<32|uint64(id))
			continue
		}
		if node.kind != 0 {
			return nil, duplicateKey{max(id, node.id)}
		}
		node.mark(id, piece)
	}
	return keys, nil
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

// sort sorts keys by their labels: few by insertion, many by counting.
func (b *trieBuilder) sort(keys []uint64) {
	const few = 24
	if len(keys) <= few {
		for i, key := range keys {
			for ; i > 0 && keys[i-1] > key; i-- {
				keys[i] = keys[i-1]
			}
			keys[i] = key
		}
		return
	}
	var start [257]int
	for _, key := range keys {
		start[key>>32+1]++
	}
	for c := 1; c < len(start); c++ {
		start[c] += start[c-1]
	}
	b.sorted = append(b.sorted[:0], keys...)
	for _, key := range b.sorted {
		keys[start[key>>32]] = key
		start[key>>32]++
	}
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
