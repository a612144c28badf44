// Package vocab turns text into the numbered pieces a translation model works on, and back.
//
// It reads SentencePiece models (.spm: unigram, BPE, word and character models, with the normalisation rules they
// carry) and Marian's own vocabularies (.yml, .json or plain text: a list of tokens, text split at spaces). Encoding
// with a SentencePiece model gives, for every input, exactly what the original library gives; that includes its
// single-precision scores, its ties and its treatment of malformed UTF-8.
//
// A Vocabulary is read-only once opened and safe for concurrent use. Encoding and decoding borrow their scratch
// memory from a pool, so that in the steady state a call allocates its result at most.
package vocab

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
)

// A Vocabulary maps text to piece numbers (ids, counted from 0) and back.
type Vocabulary interface {
	// Encode appends the ids of the pieces of text to dst and returns the extended slice. The end of sentence is NOT
	// appended: a caller that needs it appends EOS() itself. Time grows in proportion to the length of text, and so
	// does scratch memory, to some tens of bytes for each byte: text of any length should be split beforehand.
	Encode(text string, dst []int32) []int32

	// EncodePieces returns the pieces of text as strings, one for each id that Encode gives. Where the vocabulary has
	// no piece and no bytes to fall back on, the string is the unknown text itself, while its id is Unk().
	EncodePieces(text string) []string

	// Decode appends the text of a sequence of ids to dst, made safe for a line of output by Clean, and returns the extended
	// slice. Control symbols, the end of sentence among them, and ids outside the vocabulary give no text.
	Decode(ids []int32, dst []byte) []byte

	// Piece returns the piece with that id as the vocabulary spells it, and "" for an id outside the vocabulary.
	Piece(id int32) string

	// ID returns the id of a piece as the vocabulary spells it, control symbols and byte pieces included.
	ID(piece string) (int32, bool)

	// Size is the number of ids: they run from 0 to Size()-1.
	Size() int

	// EOS is the id of the end of sentence.
	EOS() int32

	// Unk is the id of the unknown piece.
	Unk() int32

	// IsControl tells whether the id stands for a control symbol, one that has no text: the end of sentence always.
	IsControl(id int32) bool

	// Suppressed returns, in ascending order, the ids that a search must never generate: the unknown piece, control
	// symbols other than the end of sentence, and the byte pieces of control characters (<0x00> to <0x1F>, <0x7F>).
	// Inside a multi-byte character those bytes do not occur, so that nothing else is lost.
	Suppressed() []int32

	// Fingerprint identifies the content of the vocabulary: the SHA-256 of its uncompressed file, in hexadecimal.
	Fingerprint() string
}

// Open reads the vocabulary in the file. A SentencePiece model is recognised by its content; any other file is YAML or
// JSON if its name says so (.yml, .yaml, .json) and otherwise plain text with a token on each line. Files compressed
// by gzip or zstd are read as they are.
func Open(path string) (Vocabulary, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	v, err := parse(data, formatOf(path, data))
	if err != nil {
		return nil, inFile(path, err)
	}
	return v, nil
}

type format uint8

const (
	sentencePieceFormat format = iota
	mapFormat                  // YAML or JSON
	textFormat
)

// formatOf tells a vocabulary's format from its content and, where that does not say, its name.
func formatOf(path string, data []byte) format {
	name := strings.ToLower(path)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	extension := filepath.Ext(name)
	switch {
	case extension == ".spm" || looksLikeSentencePiece(data):
		return sentencePieceFormat
	case extension == ".yml" || extension == ".yaml" || extension == ".json":
		return mapFormat
	}
	return textFormat
}

func parse(data []byte, f format) (Vocabulary, error) {
	fingerprint := fingerprintOf(data)
	switch f {
	case sentencePieceFormat:
		return parseSentencePiece(data, fingerprint)
	case mapFormat:
		return parseMap(data, fingerprint)
	}
	return parseText(data, fingerprint)
}

func fingerprintOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// An Error says where in a vocabulary file something is wrong.
type Error struct {
	Path   string
	Line   int   // counted from 1; 0 if the place is not a line
	Offset int64 // byte in the uncompressed file; -1 if the place is not a byte
	Err    error
}

func (e *Error) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("vocabulary %s, line %d: %v", e.Path, e.Line, e.Err)
	case e.Offset >= 0:
		return fmt.Sprintf("vocabulary %s, byte %d: %v", e.Path, e.Offset, e.Err)
	}
	return fmt.Sprintf("vocabulary %s: %v", e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// atByte and atLine place an error; inFile adds the file's name, and makes an Error of one without a place.
func atByte(offset int, format string, args ...any) error {
	return &Error{Offset: int64(offset), Err: fmt.Errorf(format, args...)}
}

func atLine(line int, format string, args ...any) error {
	return &Error{Line: line, Offset: -1, Err: fmt.Errorf(format, args...)}
}

func inFile(path string, err error) error {
	if placed, ok := err.(*Error); ok {
		placed.Path = path
		return placed
	}
	return &Error{Path: path, Offset: -1, Err: err}
}
