package vocab

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxRulePrefixes is how many rules the beginnings of one text may match: the original has room for fewer than 32.
const maxRulePrefixes = 31

// CompileRules returns normalisation rules in the form of model files: a text is replaced, from left to right, wherever
// it begins with the left side of a rule, by the longest of them. An empty map gives no bytes.
func CompileRules(rules map[string]string) ([]byte, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	keys := slices.Sorted(maps.Keys(rules))
	if err := checkRules(keys, rules); err != nil {
		return nil, err
	}
	values, replacements := poolReplacements(keys, rules)
	nodes := nodeSharer{keys: keys, values: values, known: map[string]int{}}
	root := nodes.share(0, 0, len(keys))
	layout := mapLayout{nodes: nodes.nodes, bases: make([]uint32, len(nodes.nodes))}
	layout.grow()
	layout.taken[0], layout.owned[0] = true, true // the root, which no node may lead to
	if err := layout.place(root); err != nil {
		return nil, err
	}
	layout.link(0, root)
	layout.fillFree()
	data := binary.LittleEndian.AppendUint32(nil, uint32(4*len(layout.units)))
	for _, unit := range layout.units {
		data = binary.LittleEndian.AppendUint32(data, unit)
	}
	return append(data, replacements...), nil
}

// checkRules tells what rules cannot be written. keys are sorted.
func checkRules(keys []string, rules map[string]string) error {
	var prefixes []string // of the current key that are keys themselves
	for _, key := range keys {
		value := rules[key]
		switch {
		case key == "":
			return fmt.Errorf("a normalisation rule replaces nothing, by %q", value)
		case len(key) > maxRule || len(value) > maxRule:
			return fmt.Errorf("the normalisation rule for %.40q has more than %d bytes on one side", key, maxRule)
		case !utf8.ValidString(key) || !utf8.ValidString(value):
			return fmt.Errorf("the normalisation rule %q to %q is not valid UTF-8", key, value)
		case strings.IndexByte(key, 0) >= 0 || strings.IndexByte(value, 0) >= 0:
			return fmt.Errorf("the normalisation rule %q to %q holds a zero byte", key, value)
		}
		for len(prefixes) > 0 && !strings.HasPrefix(key, prefixes[len(prefixes)-1]) {
			prefixes = prefixes[:len(prefixes)-1]
		}
		if prefixes = append(prefixes, key); len(prefixes) > maxRulePrefixes {
			return fmt.Errorf("%d normalisation rules apply to the beginnings of %.40q, more than %d", len(prefixes), key, maxRulePrefixes)
		}
	}
	return nil
}

// poolReplacements returns the replacements one after the other, each once and with a zero byte behind, and for each key where
// its replacement begins.
func poolReplacements(keys []string, rules map[string]string) (values []uint32, replacements []byte) {
	places := map[string]uint32{}
	for _, value := range rules {
		places[value] = 0
	}
	for _, value := range slices.Sorted(maps.Keys(places)) {
		places[value] = uint32(len(replacements))
		replacements = append(append(replacements, value...), 0)
	}
	values = make([]uint32, len(keys))
	for i, key := range keys {
		values[i] = places[rules[key]]
	}
	return values, replacements
}

// A sharedNode is a node of the trie, or several that are alike in everything below them: most of the rules of
// Unicode differ only in how they begin.
type sharedNode struct {
	labels   []byte   // ascending; 0 for the end of a key, which is always the first
	children []uint32 // indices of nodes; under label 0 the value
}

type nodeSharer struct {
	keys   []string
	values []uint32
	nodes  []sharedNode
	known  map[string]int // by everything below
	name   []byte
}

// share returns the node for keys[low:high], which are alike in their first depth bytes.
func (s *nodeSharer) share(depth, low, high int) int {
	var node sharedNode
	for low < high {
		if len(s.keys[low]) == depth {
			node.labels, node.children = append(node.labels, 0), append(node.children, s.values[low])
			low++
			continue
		}
		label, end := s.keys[low][depth], low+1
		for end < high && s.keys[end][depth] == label {
			end++
		}
		child := s.share(depth+1, low, end)
		node.labels, node.children = append(node.labels, label), append(node.children, uint32(child))
		low = end
	}
	s.name = append(s.name[:0], node.labels...)
	for _, child := range node.children {
		s.name = binary.LittleEndian.AppendUint32(s.name, child)
	}
	index, ok := s.known[string(s.name)]
	if !ok {
		index = len(s.nodes)
		s.nodes = append(s.nodes, node)
		s.known[string(s.name)] = index
	}
	return index
}

// A mapLayout lays out the units of a characterMap. The children of a node lie in one block of 256 units, where each is found
// by XORing its label with the node's base, a number that no other node has.
type mapLayout struct {
	nodes []sharedNode
	bases []uint32 // 0 for a node without a place

	units []uint32
	taken []bool // the unit is in use
	owned []bool // the number is the base of some node
	first int    // no unit below it is looked at any more
}

const (
	mapBlock = 256
	maxUnits = 1 << 21 // an offset has 21 bits
	// mapWindow bounds the search for a place, in units: older blocks are nearly full.
	mapWindow = 16 * mapBlock
)

func (l *mapLayout) grow() {
	l.units = append(l.units, make([]uint32, mapBlock)...)
	l.taken = append(l.taken, make([]bool, mapBlock)...)
	l.owned = append(l.owned, make([]bool, mapBlock)...)
	l.first = max(l.first, len(l.units)-mapWindow)
}

// place finds units for the children of a node, and for all that is below them.
func (l *mapLayout) place(index int) error {
	node := &l.nodes[index]
	base, err := l.find(node.labels)
	if err != nil {
		return err
	}
	l.bases[index], l.owned[base] = base, true
	for _, label := range node.labels {
		l.taken[base^uint32(label)] = true
	}
	for i, label := range node.labels {
		unit := base ^ uint32(label)
		if label == 0 {
			l.units[unit] = 1<<31 | node.children[i]
			continue
		}
		child := int(node.children[i])
		if l.bases[child] == 0 {
			if err := l.place(child); err != nil {
				return err
			}
		}
		l.units[unit] = uint32(label)
		l.link(unit, child)
	}
	return nil
}

// link lets a unit lead to the children of a node.
func (l *mapLayout) link(unit uint32, node int) {
	l.units[unit] |= (unit ^ l.bases[node]) << 10
	if l.nodes[node].labels[0] == 0 {
		l.units[unit] |= 1 << 8
	}
}

// find returns a number that is nobody's base, with free units for all labels.
func (l *mapLayout) find(labels []byte) (uint32, error) {
	for unit := l.first; ; unit++ {
		if unit == len(l.units) {
			if len(l.units) == maxUnits {
				return 0, fmt.Errorf("the normalisation rules are too many: they need more than %d units", maxUnits)
			}
			l.grow()
		}
		if l.taken[unit] {
			continue
		}
		base := uint32(unit) ^ uint32(labels[0])
		if !l.owned[base] && l.fits(base, labels) {
			return base, nil
		}
	}
}

func (l *mapLayout) fits(base uint32, labels []byte) bool {
	for _, label := range labels {
		if l.taken[base^uint32(label)] {
			return false
		}
	}
	return true
}

// fillFree gives each free unit a label by which no node reaches it. Without, a zero byte would lead there.
func (l *mapLayout) fillFree() {
	for block := 0; block < len(l.units); block += mapBlock {
		// A number that is nobody's base. Where there is none, all units are children.
		free := slices.Index(l.owned[block:block+mapBlock], false)
		for i := range mapBlock {
			if !l.taken[block+i] {
				l.units[block+i] = uint32(i ^ free)
			}
		}
	}
}
