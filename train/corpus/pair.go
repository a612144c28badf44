package corpus

import (
	"encoding/binary"
	"errors"
)

// A Pair is a line of a corpus: a sentence and its translation. A text of one language has its sentences in Source.
type Pair struct {
	Source, Target string
	Rest           string // further columns, which are carried along
}

var errForeign = errors.New("a temporary file was changed by another program")

// appendTo packs a pair: its texts, the first two behind their lengths.
func (p *Pair) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.Source)))
	dst = append(dst, p.Source...)
	dst = binary.AppendUvarint(dst, uint64(len(p.Target)))
	dst = append(dst, p.Target...)
	return append(dst, p.Rest...)
}

// unpack reads what appendTo has packed.
func unpack(record []byte) (Pair, error) {
	var p Pair
	for _, text := range []*string{&p.Source, &p.Target} {
		length, n := binary.Uvarint(record)
		if n <= 0 || length > uint64(len(record)-n) {
			return Pair{}, errForeign
		}
		end := n + int(length)
		*text, record = string(record[n:end]), record[end:]
	}
	p.Rest = string(record)
	return p, nil
}
