package vocab

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestReworkedModelsAsTheOriginal compares on models no trainer writes: with unused pieces, with many pieces of equal
// score, with positive scores.
func TestReworkedModelsAsTheOriginal(t *testing.T) {
	lines := append(randomLines(600), readLines(t, "testdata/text.txt")...)
	change := map[string]func(i int, p *pieceProto){
		"unused pieces": func(i int, p *pieceProto) {
			if p.kind == normalPiece && i%3 == 0 {
				p.kind = unusedPiece
			}
		},
		"equal scores": func(i int, p *pieceProto) {
			if p.kind == normalPiece {
				p.score = -float32(i % 3)
			}
		},
		"equal scores and unused pieces": func(i int, p *pieceProto) {
			if p.kind == normalPiece {
				p.score = -float32(i % 2)
			}
			if p.kind == normalPiece && i%5 == 0 {
				p.kind = unusedPiece
			}
		},
		"positive scores": func(i int, p *pieceProto) {
			if p.kind == normalPiece {
				p.score = float32(i%7) / 3
			}
		},
		"no normal pieces": func(i int, p *pieceProto) {
			if p.kind == normalPiece {
				p.kind = userDefinedPiece
			}
		},
	}
	for name, f := range change {
		for _, model := range ownModels {
			t.Run(name+" "+model, func(t *testing.T) {
				reworked := rework(t, model, f)
				compareWithOriginal(t, reworked, lines)
				compareDecoding(t, reworked)
			})
		}
	}
}

// rework writes a copy of a model in which f has changed the pieces, and returns its path.
func rework(t *testing.T, model string, f func(i int, p *pieceProto)) string {
	t.Helper()
	data, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	proto, err := parseModelProto(string(data))
	if err != nil {
		t.Fatal(err)
	}
	out := modelWithout(t, data, 1)
	var pieces []byte
	for i := range proto.pieces {
		f(i, &proto.pieces[i])
		pieces = appendPieceProto(pieces, proto.pieces[i])
	}
	path := filepath.Join(t.TempDir(), "reworked.spm")
	if err := os.WriteFile(path, append(pieces, out...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func appendPieceProto(dst []byte, p pieceProto) []byte {
	var message []byte
	message = protowire.AppendTag(message, 1, protowire.BytesType)
	message = protowire.AppendString(message, p.text)
	message = protowire.AppendTag(message, 2, protowire.Fixed32Type)
	message = protowire.AppendFixed32(message, math.Float32bits(p.score))
	message = protowire.AppendTag(message, 3, protowire.VarintType)
	message = protowire.AppendVarint(message, uint64(p.kind))
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	return protowire.AppendBytes(dst, message)
}

// modelWithout returns the fields of a model but those with the given number.
func modelWithout(t *testing.T, data []byte, without protowire.Number) []byte {
	t.Helper()
	var out []byte
	for len(data) > 0 {
		number, _, n := protowire.ConsumeField(data)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		if number != without {
			out = append(out, data[:n]...)
		}
		data = data[n:]
	}
	return out
}
