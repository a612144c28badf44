//go:build linux && (amd64 || arm64) && !nogpu

package main

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// overflowModel writes the demonstration model so that float16 can hold all its parameters, but not what becomes of one piece: the
// embedding of "jumps", which is multiplied by 16 before anything else, gets numbers of some thousands. As an output, it is ruled out.
func overflowModel(t *testing.T, from, folder string) {
	t.Helper()
	file, err := marian.Open(filepath.Join(from, "model.intgemm.alphas.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	v, err := vocab.Open(filepath.Join(from, "vocab.spm"))
	if err != nil {
		t.Fatal(err)
	}
	pieces := v.Encode("jumps", nil)
	if len(pieces) != 1 {
		t.Fatalf("%d pieces, want 1", len(pieces))
	}
	plain, err := file.Float(marian.Float32)
	if err != nil {
		t.Fatal(err)
	}
	row := func(tensor string, n int) []byte {
		at := plain.Tensor(tensor)
		if at == nil {
			t.Fatalf("the model has no %s", tensor)
		}
		at.Data = append([]byte(nil), at.Data...)
		return at.Data[4*n*int(pieces[0]):][:4*n]
	}
	embedding := row("Wemb", 256)
	for i := range 256 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(embedding[4*i:]))
		binary.LittleEndian.PutUint32(embedding[4*i:], math.Float32bits(float32(math.Copysign(20000, float64(x)))))
	}
	binary.LittleEndian.PutUint32(row("decoder_ff_logit_out_b", 1), math.Float32bits(-1e9))
	if err := marian.WriteNPZ(filepath.Join(folder, "model.npz"), plain); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vocab.spm", "lex.s2t.bin"} {
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	config := "relative-paths: true\nmodels: [model.npz]\nvocabs: [vocab.spm, vocab.spm]\nshortlist: [lex.s2t.bin, 100, 100]\n"
	if err := os.WriteFile(filepath.Join(folder, "decoder.yml"), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
}
