package recordio

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/sluice-mt/sluice/internal/job"
)

type meta struct {
	Source string `parquet:"source,dict"`
	Title  string `parquet:"title"`
}

// row has its columns in an order that is not that of the alphabet.
type row struct {
	Z     int64    `parquet:"z,delta"`
	Text  *string  `parquet:"text,optional,zstd"`
	Tags  []string `parquet:"tags,list"`
	Meta  meta     `parquet:"meta"`
	Score float64  `parquet:"a_score"`
}

// widerRow is row with the column that is added.
type widerRow struct {
	Z           int64    `parquet:"z,delta"`
	Text        *string  `parquet:"text,optional,zstd"`
	Tags        []string `parquet:"tags,list"`
	Meta        meta     `parquet:"meta"`
	Score       float64  `parquet:"a_score"`
	Translation *string  `parquet:"translation,optional"`
}

func rowsOf(n int) []row {
	list := make([]row, n)
	for i := range list {
		text := fmt.Sprintf("text %d\nline", i)
		list[i] = row{Z: int64(i), Text: &text, Meta: meta{"s", fmt.Sprint("title ", i)}, Score: float64(i) / 3}
		if i%7 == 3 {
			list[i].Text = nil
		}
		for range i % 3 {
			list[i].Tags = append(list[i].Tags, fmt.Sprint("tag", i))
		}
	}
	return list
}

func parquetFile(t testing.TB, list []row, options ...parquet.WriterOption) []byte {
	t.Helper()
	var file bytes.Buffer
	options = append(options, parquet.MaxRowsPerRowGroup(300), parquet.PageBufferSize(500), parquet.KeyValueMetadata("owner", "me"), parquet.KeyValueMetadata("ARROW:schema", "?"))
	if err := parquet.Write(&file, list, options...); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func decodeParquet(options Options, file []byte, at job.Position) ([]job.Record, error) {
	decoder, err := NewParquetDecoder(options, "in", bytes.NewReader(file), int64(len(file)), at)
	if err != nil {
		return nil, err
	}
	return drain(decoder)
}

// assembled translates a file to the end.
func assembled(t testing.TB, options Options, file []byte) ([]byte, error) {
	t.Helper()
	records, err := decodeParquet(options, file, job.Position{})
	if err != nil {
		return nil, err
	}
	spool := encode(t, NewEncoder(options), records)
	path := filepath.Join(t.TempDir(), "in.parquet")
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = AssembleParquet(options, func(string) string { return path })(context.Background(), "lane", strings.NewReader(spool), &out)
	return out.Bytes(), err
}

func TestParquetColumn(t *testing.T) {
	list := rowsOf(1000)
	file := parquetFile(t, list)
	for _, column := range []string{"text", "meta.title"} {
		options := Options{Format: Parquet, Field: column}
		records, err := decodeParquet(options, file, job.Position{})
		if err != nil || len(records) != len(list) {
			t.Fatalf("%s: %d records, error %v", column, len(records), err)
		}
		for i, record := range records {
			want := list[i].Meta.Title
			if column == "text" {
				want = ""
				if list[i].Text != nil {
					want = *list[i].Text
				}
			}
			if record.Text != want || record.Seq != int64(i) || record.End != (job.Position{Record: int64(i + 1), Offset: int64(i + 1)}) {
				t.Fatalf("%s: record %d is %+v, want %q", column, i, record, want)
			}
		}
		for _, i := range []int{0, 1, 299, 300, 301, 650, 999} {
			rest, err := decodeParquet(options, file, records[i].End)
			if err != nil || !reflect.DeepEqual(texts(rest), texts(records[i+1:])) {
				t.Errorf("%s, behind row %d: %d records, error %v", column, i, len(rest), err)
			}
		}
	}
}

func TestParquetKeepsWhatIsNotTranslated(t *testing.T) {
	list := rowsOf(1000)
	file := parquetFile(t, list)
	out, err := assembled(t, Options{Format: Parquet}, file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[widerRow](bytes.NewReader(out), int64(len(out)))
	if err != nil || len(got) != len(list) {
		t.Fatalf("%d rows, error %v", len(got), err)
	}
	for i, r := range got {
		want := widerRow{list[i].Z, list[i].Text, list[i].Tags, list[i].Meta, list[i].Score, nil}
		if list[i].Text != nil {
			text := strings.ToUpper(*list[i].Text)
			want.Translation = &text
		}
		if len(r.Tags) == 0 {
			r.Tags = nil
		}
		if !reflect.DeepEqual(r, want) {
			t.Fatalf("row %d is %+v, want %+v", i, r, want)
		}
	}
	checkParquetShape(t, file, out)
	if again, _ := assembled(t, Options{Format: Parquet}, file); !bytes.Equal(again, out) {
		t.Error("the same input gives other bytes")
	}
}

// checkParquetShape compares what readers see of a file beside its rows.
func checkParquetShape(t *testing.T, before, after []byte) {
	t.Helper()
	old, err := openParquet("old", bytes.NewReader(before), int64(len(before)))
	if err != nil {
		t.Fatal(err)
	}
	now, err := openParquet("now", bytes.NewReader(after), int64(len(after)))
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, path := range now.Schema().Columns() {
		columns = append(columns, strings.Join(path, "."))
	}
	if got, want := strings.Join(columns, " "), "z text tags.list.element meta.source meta.title a_score translation"; got != want {
		t.Errorf("columns %q, want %q", got, want)
	}
	if len(old.RowGroups()) != len(now.RowGroups()) {
		t.Errorf("%d row groups, %d before", len(now.RowGroups()), len(old.RowGroups()))
	}
	if owner, _ := now.Lookup("owner"); owner != "me" {
		t.Errorf("the metadata of the file have owner %q", owner)
	}
	if _, there := now.Lookup("ARROW:schema"); there {
		t.Error("the metadata of the file still describe the old columns")
	}
	chunk := func(f *parquet.File, column int) string {
		return fmt.Sprint(f.Metadata().RowGroups[0].Columns[column].MetaData.Codec)
	}
	if chunk(old, 1) != chunk(now, 1) {
		t.Errorf("text is compressed by %s, and was by %s", chunk(now, 1), chunk(old, 1))
	}
}

func TestParquetColumnReplaced(t *testing.T) {
	list := rowsOf(50)
	for _, column := range []string{"text", "meta.title"} {
		out, err := assembled(t, Options{Format: Parquet, Field: column, Target: column}, parquetFile(t, list))
		if err != nil {
			t.Fatal(err)
		}
		got, err := parquet.Read[row](bytes.NewReader(out), int64(len(out)))
		if err != nil || len(got) != 50 {
			t.Fatalf("%s: %d rows, error %v", column, len(got), err)
		}
		for i, r := range got {
			want := list[i]
			if column == "meta.title" {
				want.Meta.Title = strings.ToUpper(want.Meta.Title)
			} else if want.Text != nil {
				text := strings.ToUpper(*want.Text)
				want.Text = &text
			}
			if len(r.Tags) == 0 {
				r.Tags = nil
			}
			if !reflect.DeepEqual(r, want) {
				t.Fatalf("%s: row %d is %+v, want %+v", column, i, r, want)
			}
		}
	}
}

func TestParquetFilesThatCannotBeUsed(t *testing.T) {
	file := parquetFile(t, rowsOf(10))
	for field, want := range map[string]string{"nothing": "there is no column nothing: the file has z, text,", "tags.list.element": "not of texts, one a row", "z": "not of texts, one a row"} {
		if _, err := decodeParquet(Options{Format: Parquet, Field: field}, file, job.Position{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", field, err, want)
		}
	}
	for target, want := range map[string]string{"z": "cannot hold translations", "meta": "columns of its own", "meta.x": "none can be added", "tags.list.element": "cannot hold translations"} {
		if _, err := assembled(t, Options{Format: Parquet, Target: target}, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("target %s: error %v, want %q", target, err, want)
		}
	}
	if _, err := decodeParquet(Options{Format: Parquet}, file, job.Position{Offset: 11}); err == nil {
		t.Error("row 11 of 10: no error")
	}
}

func TestASpoolOfAnotherLengthIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.parquet")
	if err := os.WriteFile(path, parquetFile(t, rowsOf(3)), 0o666); err != nil {
		t.Fatal(err)
	}
	assemble := AssembleParquet(Options{Format: Parquet}, func(string) string { return path })
	for _, spool := range []string{"", "\"a\"\n", "\"a\"\nnull\n\"b\"\n\"c\"\n", "\"a\"\n7\nnull\n"} {
		if err := assemble(context.Background(), "", strings.NewReader(spool), &bytes.Buffer{}); err == nil {
			t.Errorf("spool %q: no error", spool)
		}
	}
}

func TestADamagedParquetFileDoesNotCrash(t *testing.T) {
	file := parquetFile(t, rowsOf(20))
	for i := range len(file) {
		decodeParquet(Options{Format: Parquet}, file[:i], job.Position{})
		bad := bytes.Clone(file)
		bad[i] ^= 0xff
		if records, err := decodeParquet(Options{Format: Parquet}, bad, job.Position{}); err == nil && len(records) > 1000 {
			t.Errorf("byte %d changed: %d records", i, len(records))
		}
	}
	if _, err := decodeParquet(Options{Format: Parquet}, file[:len(file)-20], job.Position{}); err == nil {
		t.Error("cut short: no error")
	}
}

func FuzzParquet(f *testing.F) {
	f.Add(parquetFile(f, rowsOf(20)))
	f.Add([]byte("PAR1"))
	f.Fuzz(func(t *testing.T, file []byte) {
		decodeParquet(Options{Format: Parquet}, file, job.Position{})
	})
}
