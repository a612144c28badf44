package align_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/train/align"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// TestGuidesTraining: links between pieces, and the lexicon counted from them, are what training and shortlists read.
func TestGuidesTraining(t *testing.T) {
	pieces, err := vocab.Open(sharedtest.Path(t, "models/reference/vocab/joint.spm"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	text := strings.Repeat("A dog and a cat.\tEin Hund und eine Katze.\nThe dog sees the cat.\tDer Hund sieht die Katze.\n", 3)
	c, err := align.NewCorpus(100, folder)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		source, target, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if err := c.Add(pieces.Encode(source, nil), pieces.Encode(target, nil)); err != nil {
			t.Fatal(err)
		}
	}
	forward, err1 := align.Learn(context.Background(), c, false, align.DefaultOptions(), nil)
	reverse, err2 := align.Learn(context.Background(), c, true, align.DefaultOptions(), nil)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	lexicon := align.NewLexicon(folder, 0)
	var points, table bytes.Buffer
	links := 0
	err = align.Each(context.Background(), c, forward, reverse, align.GrowDiagFinalAnd, func(source, target []int32, found []align.Link) error {
		links += len(found)
		points.Write(append(align.AppendPharaoh(nil, found), '\n'))
		return lexicon.Add(source, target, found)
	})
	if err := errors.Join(err, lexicon.WriteText(&table, pieces.Piece, pieces.Piece), lexicon.Close(), forward.Close(), reverse.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	files := data.Files{TSV: filepath.Join(folder, "text.tsv"), Alignment: filepath.Join(folder, "links")}
	if err := errors.Join(os.WriteFile(files.TSV, []byte(text), 0o600), os.WriteFile(files.Alignment, points.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	read, err := data.Read(data.Config{Source: pieces, Target: pieces, Files: files, MaxLength: 100, Memory: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if read.Stats.Pairs != 6 || links < 6*4 {
		t.Errorf("%d pairs, %d links", read.Stats.Pairs, links)
	}
	list, err := shortlist.Read(&table, shortlist.Options{Source: pieces, Target: pieces, Parameters: shortlist.Parameters{Best: 100}})
	if err != nil || list.Entries() < 5 {
		t.Errorf("%v, %v", list, err)
	}
	if err := read.Close(); err != nil {
		t.Error(err)
	}
}
