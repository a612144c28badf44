package vocab

import (
	"fmt"
	"strings"
)

// plain is one of Marian's own vocabularies: a list of tokens. Text is tokens separated by spaces.
type plain struct {
	tokens      []string // by id; "" where the file gives none
	ids         map[string]int32
	eos, unk    int32
	fingerprint string
}

// The tokens every plain vocabulary needs.
const (
	eosToken = "</s>"
	unkToken = "<unk>"
)

// plainEntries collects the tokens of a file.
type plainEntries struct {
	tokens []string
	ids    map[string]int32
}

// add enters a token. Neither tokens nor ids may come twice.
func (e *plainEntries) add(token string, id int64) error {
	switch {
	case token == "":
		return fmt.Errorf("an empty token")
	case id < 0 || id >= maxPieces:
		return fmt.Errorf("token %q has the id %d, which is not between 0 and %d", token, id, maxPieces-1)
	}
	if before, ok := e.ids[token]; ok {
		return fmt.Errorf("token %q, already defined with id %d", token, before)
	}
	for int64(len(e.tokens)) <= id {
		e.tokens = append(e.tokens, "")
	}
	if before := e.tokens[id]; before != "" {
		return fmt.Errorf("token %q has the id %d, which %q has already", token, id, before)
	}
	if e.ids == nil {
		e.ids = make(map[string]int32)
	}
	e.tokens[id], e.ids[token] = token, int32(id)
	return nil
}

// vocabulary makes the vocabulary of the entries. If nematus is true, id 0 stands for the end of sentence when it has
// no token or the token "eos", and id 1 for the unknown when it has no token or the token "UNK", as in the
// dictionaries of Nematus.
func (e *plainEntries) vocabulary(nematus bool, fingerprint string) (*plain, error) {
	if len(e.tokens) == 0 {
		return nil, fmt.Errorf("there are no tokens in this vocabulary")
	}
	p := &plain{tokens: e.tokens, ids: e.ids, fingerprint: fingerprint}
	var err error
	if p.eos, err = p.special(eosToken, 0, "eos", nematus); err != nil {
		return nil, err
	}
	if p.unk, err = p.special(unkToken, 1, "UNK", nematus); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *plain) special(token string, nematusID int32, nematusToken string, nematus bool) (int32, error) {
	if nematus && int(nematusID) < len(p.tokens) {
		if found := p.tokens[nematusID]; found == "" || found == nematusToken {
			return nematusID, nil
		}
	}
	id, ok := p.ids[token]
	if !ok {
		return 0, fmt.Errorf("there is no token %s in this vocabulary", token)
	}
	return id, nil
}

// Encode implements Vocabulary.
func (p *plain) Encode(text string, dst []int32) []int32 {
	for token := range strings.SplitSeq(text, " ") {
		if token == "" {
			continue
		}
		id, ok := p.ids[token]
		if !ok {
			id = p.unk
		}
		dst = append(dst, id)
	}
	return dst
}

// EncodePieces implements Vocabulary.
func (p *plain) EncodePieces(text string) []string {
	var pieces []string
	for token := range strings.SplitSeq(text, " ") {
		if token != "" {
			pieces = append(pieces, token)
		}
	}
	return pieces
}

// Decode implements Vocabulary.
func (p *plain) Decode(ids []int32, dst []byte) []byte {
	start := len(dst)
	for _, id := range ids {
		token := p.Piece(id)
		if id == p.eos || token == "" {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		dst = append(dst, token...)
	}
	return cleanFrom(dst, start)
}

// Piece implements Vocabulary.
func (p *plain) Piece(id int32) string {
	if id < 0 || int(id) >= len(p.tokens) {
		return ""
	}
	return p.tokens[id]
}

// ID implements Vocabulary.
func (p *plain) ID(piece string) (int32, bool) {
	if id, ok := p.ids[piece]; ok {
		return id, true
	}
	return p.unk, false
}

// Size implements Vocabulary.
func (p *plain) Size() int { return len(p.tokens) }

// EOS implements Vocabulary.
func (p *plain) EOS() int32 { return p.eos }

// Unk implements Vocabulary.
func (p *plain) Unk() int32 { return p.unk }

// IsControl implements Vocabulary.
func (p *plain) IsControl(id int32) bool { return id == p.eos }

// Suppressed implements Vocabulary.
func (p *plain) Suppressed() []int32 { return []int32{p.unk} }

// Fingerprint implements Vocabulary.
func (p *plain) Fingerprint() string { return p.fingerprint }
