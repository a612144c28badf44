package pieces

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/translator/vocab"
)

// spaceSymbol, U+2581, stands for a space within pieces.
const (
	spaceSymbol     = '\u2581'
	spaceSymbolText = string(spaceSymbol)
)

// specialPieces returns the pieces that do not come from the text, by id: the unknown piece and the control symbols with ids of
// their own, and on the ids that these leave free further control symbols, user-defined symbols and bytes.
func specialPieces(s *vocab.TrainerSpec) (map[int]vocab.ModelPiece, error) {
	special := map[int]vocab.ModelPiece{}
	ids := map[string]int{}
	problem := func(format string, arguments ...any) error {
		return fmt.Errorf("pieces: %w: "+format, append([]any{ErrOptions}, arguments...)...)
	}
	for _, p := range []struct {
		id   int
		text string
		kind vocab.PieceKind
	}{
		{s.UnkID, s.UnkPiece, vocab.UnknownPiece}, {s.BOSID, s.BOSPiece, vocab.ControlPiece},
		{s.EOSID, s.EOSPiece, vocab.ControlPiece}, {s.PadID, s.PadPiece, vocab.ControlPiece},
	} {
		other, taken := special[p.id]
		_, twice := ids[p.text]
		switch {
		case p.id < 0 && (p.text == s.UnkPiece || p.text == s.EOSPiece):
			return nil, problem("%s needs an id, since translation needs it", p.text)
		case p.id < 0:
			continue
		case p.id >= s.VocabSize:
			return nil, problem("the id %d of %s is not below the vocabulary size %d", p.id, p.text, s.VocabSize)
		case taken:
			return nil, problem("%s and %s have the same id %d", other.Text, p.text, p.id)
		case twice:
			return nil, problem("two symbols are called %s", p.text)
		}
		if err := checkSymbol(p.text); err != nil {
			return nil, problem("%w", err)
		}
		special[p.id] = vocab.ModelPiece{Text: p.text, Kind: p.kind}
		ids[p.text] = p.id
	}
	next := 0
	for _, p := range furtherSymbols(s) {
		if err := checkSymbol(p.Text); err != nil {
			return nil, problem("%w", err)
		}
		if id, ok := ids[p.Text]; ok {
			// As in the original, a symbol that exists may be named again to change its kind.
			if special[id].Kind != vocab.ControlPiece || p.Kind != vocab.UserDefinedPiece || p.Text == s.EOSPiece {
				return nil, problem("the symbol %s is already defined", p.Text)
			}
			special[id] = p
			continue
		}
		for special[next].Text != "" {
			next++
		}
		special[next] = p
		ids[p.Text] = next
	}
	if len(special) >= s.VocabSize {
		return nil, problem("a vocabulary of %d has no room for pieces beside %d special symbols", s.VocabSize, len(special))
	}
	return special, nil
}

func furtherSymbols(s *vocab.TrainerSpec) []vocab.ModelPiece {
	var symbols []vocab.ModelPiece
	for _, text := range s.ControlSymbols {
		symbols = append(symbols, vocab.ModelPiece{Text: text, Kind: vocab.ControlPiece})
	}
	for _, text := range s.UserDefinedSymbols {
		symbols = append(symbols, vocab.ModelPiece{Text: text, Kind: vocab.UserDefinedPiece})
	}
	if s.ByteFallback {
		for c := range 256 {
			symbols = append(symbols, vocab.ModelPiece{Text: fmt.Sprintf("<0x%02X>", c), Kind: vocab.BytePiece})
		}
	}
	return symbols
}

func checkSymbol(text string) error {
	switch {
	case text == "":
		return fmt.Errorf("a symbol is empty")
	case len(text) > vocab.MaxPiece:
		return fmt.Errorf("the symbol %.40q… has %d bytes, more than %d", text, len(text), vocab.MaxPiece)
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n\t"):
		return fmt.Errorf("the symbol %q holds what no symbol can: a zero byte, a tab, a line feed or invalid UTF-8", text)
	case strings.Contains(text, " "):
		return fmt.Errorf("the symbol %q holds a space, which is written %s in pieces", text, spaceSymbolText)
	}
	return nil
}
