package vocab

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// This file reads the protocol buffer message ModelProto that a SentencePiece model file is
// (sentencepiece_model.proto). Field numbers and defaults are those of version 0.2. As in protocol buffers, unknown
// fields and unknown values of an enumeration are skipped, and the last value of a field given twice counts.

// maxPieces limits the number of pieces.
const maxPieces = 1 << 22

type pieceKind = PieceKind

const (
	normalPiece      pieceKind = 1
	unknownPiece     pieceKind = 2
	controlPiece     pieceKind = 3
	userDefinedPiece pieceKind = 4
	unusedPiece      pieceKind = 5
	bytePiece        pieceKind = 6
)

// reserved tells whether pieces of this kind are never found in text.
func (k pieceKind) reserved() bool {
	return k == unknownPiece || k == controlPiece || k == bytePiece
}

type modelType = ModelType

const (
	unigramModel modelType = 1
	bpeModel     modelType = 2
	wordModel    modelType = 3
	charModel    modelType = 4
)

type pieceProto struct {
	text   string
	score  float32
	kind   pieceKind
	offset int // in the file
}

type trainerProto struct {
	model              modelType
	byteFallback       bool
	whitespaceAsSuffix bool
	eosPiece           string
	unkSurface         string
}

type normalizerProto struct {
	characterMap           string
	offset                 int // of the character map in the file
	dummyPrefix            bool
	removeExtraWhitespaces bool
	escapeWhitespaces      bool
}

type modelProto struct {
	pieces       []pieceProto
	trainer      trainerProto
	normalizer   normalizerProto
	denormalizer normalizerProto
}

// looksLikeSentencePiece tells whether data begins with a piece that has a text.
func looksLikeSentencePiece(data []byte) bool {
	r := protoReader{data: string(data[:min(len(data), 1<<16)])}
	f, err := r.next()
	if err != nil || f.number != 1 || f.wire != protowire.BytesType {
		return false
	}
	inner := protoReader{data: f.text}
	f, err = inner.next()
	return err == nil && f.number == 1 && f.wire == protowire.BytesType && f.text != ""
}

// parseModelProto reads a model file. The strings of the result share data's memory.
func parseModelProto(data string) (*modelProto, error) {
	m := &modelProto{
		trainer:      trainerProto{model: unigramModel, eosPiece: "</s>", unkSurface: " \u2047 "},
		normalizer:   normalizerProto{dummyPrefix: true, removeExtraWhitespaces: true, escapeWhitespaces: true},
		denormalizer: normalizerProto{dummyPrefix: true, removeExtraWhitespaces: true, escapeWhitespaces: true},
	}
	count, err := countPieces(data)
	if err != nil {
		return nil, err
	}
	m.pieces = make([]pieceProto, 0, count)
	r := protoReader{data: data}
	for !r.done() {
		f, err := r.next()
		if err != nil {
			return nil, err
		}
		if f.wire != protowire.BytesType {
			continue
		}
		inner := protoReader{data: f.text, base: f.offset}
		switch f.number {
		case 1:
			err = m.addPiece(inner)
		case 2:
			err = m.trainer.parse(inner)
		case 3:
			err = m.normalizer.parse(inner)
		case 5:
			err = m.denormalizer.parse(inner)
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func countPieces(data string) (int, error) {
	count := 0
	r := protoReader{data: data}
	for !r.done() {
		f, err := r.next()
		if err != nil {
			return 0, err
		}
		if f.number == 1 && f.wire == protowire.BytesType {
			count++
		}
		if count > maxPieces {
			return 0, atByte(f.offset, "more than %d pieces", maxPieces)
		}
	}
	return count, nil
}

func (m *modelProto) addPiece(r protoReader) error {
	p := pieceProto{kind: normalPiece, offset: r.base}
	for !r.done() {
		f, err := r.next()
		if err != nil {
			return err
		}
		switch {
		case f.number == 1 && f.wire == protowire.BytesType:
			p.text = f.text
		case f.number == 2 && f.wire == protowire.Fixed32Type:
			p.score = math.Float32frombits(uint32(f.value))
		case f.number == 3 && f.wire == protowire.VarintType && f.value >= 1 && f.value <= 6:
			p.kind = pieceKind(f.value)
		}
	}
	m.pieces = append(m.pieces, p)
	return nil
}

func (t *trainerProto) parse(r protoReader) error {
	for !r.done() {
		f, err := r.next()
		if err != nil {
			return err
		}
		switch {
		case f.number == 3 && f.wire == protowire.VarintType && f.value >= 1 && f.value <= 4:
			t.model = modelType(f.value)
		case f.number == 24 && f.wire == protowire.VarintType:
			t.whitespaceAsSuffix = f.value != 0
		case f.number == 35 && f.wire == protowire.VarintType:
			t.byteFallback = f.value != 0
		case f.number == 44 && f.wire == protowire.BytesType:
			t.unkSurface = f.text
		case f.number == 47 && f.wire == protowire.BytesType && f.text != "":
			t.eosPiece = f.text
		}
	}
	return nil
}

func (n *normalizerProto) parse(r protoReader) error {
	for !r.done() {
		f, err := r.next()
		if err != nil {
			return err
		}
		switch {
		case f.number == 2 && f.wire == protowire.BytesType:
			n.characterMap, n.offset = f.text, f.offset
		case f.wire != protowire.VarintType:
		case f.number == 3:
			n.dummyPrefix = f.value != 0
		case f.number == 4:
			n.removeExtraWhitespaces = f.value != 0
		case f.number == 5:
			n.escapeWhitespaces = f.value != 0
		}
	}
	return nil
}

// A protoReader walks over the fields of a message.
type protoReader struct {
	data string
	pos  int
	base int // offset of data in the file
}

// A protoField is one field of a message. text holds the value of a length-delimited field, value that of a number.
type protoField struct {
	number protowire.Number
	wire   protowire.Type
	text   string
	value  uint64
	offset int // of the value in the file
}

func (r *protoReader) done() bool { return r.pos >= len(r.data) }

func (r *protoReader) next() (protoField, error) {
	key, err := r.varint()
	if err != nil {
		return protoField{}, err
	}
	number, wire := protowire.DecodeTag(key)
	if number < protowire.MinValidNumber {
		return protoField{}, r.fail("a field has an invalid number")
	}
	f := protoField{number: number, wire: wire, offset: r.base + r.pos}
	switch wire {
	case protowire.VarintType:
		f.value, err = r.varint()
	case protowire.BytesType:
		f.text, err = r.bytes()
		f.offset = r.base + r.pos - len(f.text)
	case protowire.Fixed32Type:
		f.value, err = r.fixed(4)
	case protowire.Fixed64Type:
		f.value, err = r.fixed(8)
	default:
		err = r.fail("a field has the encoding %d, which model files do not use", wire)
	}
	return f, err
}

func (r *protoReader) varint() (uint64, error) {
	var value uint64
	for shift := 0; shift < 70; shift += 7 {
		if r.done() {
			return 0, r.fail("the file ends within a number")
		}
		c := r.data[r.pos]
		if shift == 63 && c > 1 {
			break
		}
		r.pos++
		value |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return value, nil
		}
	}
	return 0, r.fail("a number has more than 64 bits")
}

func (r *protoReader) bytes() (string, error) {
	length, err := r.varint()
	if err != nil {
		return "", err
	}
	if length > uint64(len(r.data)-r.pos) {
		return "", r.fail("a field of %d bytes where %d are left", length, len(r.data)-r.pos)
	}
	text := r.data[r.pos : r.pos+int(length)]
	r.pos += int(length)
	return text, nil
}

func (r *protoReader) fixed(size int) (uint64, error) {
	if len(r.data)-r.pos < size {
		return 0, r.fail("the file ends within a number")
	}
	var value uint64
	for i := range size {
		value |= uint64(r.data[r.pos+i]) << (8 * i)
	}
	r.pos += size
	return value, nil
}

func (r *protoReader) fail(format string, args ...any) error {
	return atByte(r.base+r.pos, "this is not a SentencePiece model, or it is damaged: "+format, args...)
}
