package vocab

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// A PieceKind says what a piece of a SentencePiece model stands for.
type PieceKind uint8

// The kinds of pieces that a Model can hold.
const (
	NormalPiece      PieceKind = normalPiece      // its own text
	UnknownPiece     PieceKind = unknownPiece     // whatever has no piece
	ControlPiece     PieceKind = controlPiece     // nothing that text could hold
	UserDefinedPiece PieceKind = userDefinedPiece // its own text, which is never cut
	BytePiece        PieceKind = bytePiece        // a byte of what has no piece
)

// A ModelType says by what rule a SentencePiece model cuts text.
type ModelType uint8

// The types that a Model can have.
const (
	UnigramModel ModelType = unigramModel
	BPEModel     ModelType = bpeModel
)

// A ModelPiece is one piece of a Model.
type ModelPiece struct {
	Text  string
	Score float32
	Kind  PieceKind
}

// A TrainerSpec says how a Model was made: those of the original's options that have a say in it, under its names.
type TrainerSpec struct {
	Type      ModelType
	VocabSize int
	Inputs    []string // names of the corpora

	CharacterCoverage    float64
	RequiredChars        string
	InputSentenceSize    int
	SeedSize             int
	ShrinkingFactor      float64
	SubIterations        int
	MaxPieceLength       int // in characters
	MaxSentenceLength    int // in bytes
	SplitByScript        bool
	SplitByNumber        bool
	SplitByWhitespace    bool
	SplitDigits          bool
	WhitespaceAsSuffix   bool
	WhitespaceOnlyPieces bool
	ByteFallback         bool
	SoftVocabLimit       bool
	ControlSymbols       []string
	UserDefinedSymbols   []string
	UnkID, BOSID         int // -1 for a symbol that does not exist
	EOSID, PadID         int
	UnkPiece, BOSPiece   string
	EOSPiece, PadPiece   string
	UnkSurface           string // what the unknown piece is decoded to
}

// A NormalizerSpec says how a Model rewrites text before it cuts it.
type NormalizerSpec struct {
	Name                   string
	CharacterMap           []byte // as CompileRules makes it; empty for none
	AddDummyPrefix         bool   // a space is added in front, or behind with TrainerSpec.WhitespaceAsSuffix
	RemoveExtraWhitespaces bool   // spaces are removed at both ends, and runs of them become one
}

// A Model is what a SentencePiece model file holds. The id of a piece is its index.
type Model struct {
	Pieces     []ModelPiece
	Trainer    TrainerSpec
	Normalizer NormalizerSpec
}

// Marshal returns the content of the file. It refuses a model that Open would refuse.
func (m *Model) Marshal() ([]byte, error) {
	var data []byte
	for _, p := range m.Pieces {
		var b fieldWriter
		b.text(1, p.Text)
		b.float(2, p.Score)
		if p.Kind != normalPiece {
			b.number(3, int(p.Kind))
		}
		data = appendMessage(data, 1, b)
	}
	data = appendMessage(data, 2, m.Trainer.fields())
	data = appendMessage(data, 3, m.Normalizer.fields())
	if len(data) > maxFile {
		return nil, fmt.Errorf("writing a SentencePiece model: %d bytes are more than %d MiB", len(data), maxFile>>20)
	}
	if _, err := parseSentencePiece(data, ""); err != nil {
		if placed, ok := err.(*Error); ok {
			err = placed.Err // there is no file yet to have a place in
		}
		return nil, fmt.Errorf("writing a SentencePiece model: %w", err)
	}
	return data, nil
}

// Vocabulary returns the model as if it had been written and opened.
func (m *Model) Vocabulary() (Vocabulary, error) {
	data, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	return parseSentencePiece(data, fingerprintOf(data))
}

func (t *TrainerSpec) fields() fieldWriter {
	var b fieldWriter
	for _, input := range t.Inputs {
		b.text(1, input)
	}
	b.number(3, int(t.Type))
	b.number(4, t.VocabSize)
	b.float(10, float32(t.CharacterCoverage))
	b.number(11, t.InputSentenceSize)
	b.number(14, t.SeedSize)
	b.float(15, float32(t.ShrinkingFactor))
	b.number(17, t.SubIterations)
	b.number(18, t.MaxSentenceLength)
	b.number(20, t.MaxPieceLength)
	b.flag(21, t.SplitByScript)
	b.flag(22, t.SplitByWhitespace)
	b.flag(23, t.SplitByNumber)
	b.flag(24, t.WhitespaceAsSuffix)
	b.flag(25, t.SplitDigits)
	b.flag(26, t.WhitespaceOnlyPieces)
	for _, symbol := range t.ControlSymbols {
		b.text(30, symbol)
	}
	for _, symbol := range t.UserDefinedSymbols {
		b.text(31, symbol)
	}
	b.flag(33, !t.SoftVocabLimit)
	b.flag(35, t.ByteFallback)
	if t.RequiredChars != "" {
		b.text(36, t.RequiredChars)
	}
	b.number(40, t.UnkID)
	b.number(41, t.BOSID)
	b.number(42, t.EOSID)
	b.number(43, t.PadID)
	b.text(44, t.UnkSurface)
	b.text(45, t.UnkPiece)
	b.text(46, t.BOSPiece)
	b.text(47, t.EOSPiece)
	b.text(48, t.PadPiece)
	return b
}

func (n *NormalizerSpec) fields() fieldWriter {
	var b fieldWriter
	b.text(1, n.Name)
	b.text(2, string(n.CharacterMap))
	b.flag(3, n.AddDummyPrefix)
	b.flag(4, n.RemoveExtraWhitespaces)
	b.flag(5, true)
	return b
}

// A fieldWriter collects the fields of a message.
type fieldWriter []byte

func (w *fieldWriter) text(number protowire.Number, value string) {
	*w = protowire.AppendString(protowire.AppendTag(*w, number, protowire.BytesType), value)
}

// number writes an int32, of which negative ones take ten bytes.
func (w *fieldWriter) number(number protowire.Number, value int) {
	*w = protowire.AppendVarint(protowire.AppendTag(*w, number, protowire.VarintType), uint64(value))
}

func (w *fieldWriter) flag(number protowire.Number, value bool) {
	*w = protowire.AppendVarint(protowire.AppendTag(*w, number, protowire.VarintType), protowire.EncodeBool(value))
}

func (w *fieldWriter) float(number protowire.Number, value float32) {
	*w = protowire.AppendFixed32(protowire.AppendTag(*w, number, protowire.Fixed32Type), math.Float32bits(value))
}

func appendMessage(dst []byte, number protowire.Number, fields fieldWriter) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), fields)
}

// A Normalizer rewrites text as a SentencePiece model does before it cuts it. It is safe for concurrent use.
type Normalizer struct{ n *normalizer }

// NewNormalizer returns the normaliser of a model, of whose pieces only the user-defined symbols have a say in it.
func (m *Model) NewNormalizer() (*Normalizer, error) {
	var userDefined *trie
	if len(m.Trainer.UserDefinedSymbols) > 0 {
		var err error
		if userDefined, err = prefixTrie(m.Trainer.UserDefinedSymbols); err != nil {
			return nil, fmt.Errorf("user-defined symbols: %w", err)
		}
	}
	n, err := newNormalizer(&normalizerProto{
		characterMap:           string(m.Normalizer.CharacterMap),
		dummyPrefix:            m.Normalizer.AddDummyPrefix,
		removeExtraWhitespaces: m.Normalizer.RemoveExtraWhitespaces,
		escapeWhitespaces:      true,
	}, m.Trainer.WhitespaceAsSuffix, userDefined)
	if err != nil {
		return nil, err
	}
	return &Normalizer{n}, nil
}

// Append appends the normalised text to dst. Spaces become U+2581.
func (n *Normalizer) Append(dst []byte, text string) []byte { return n.n.append(dst, text) }
