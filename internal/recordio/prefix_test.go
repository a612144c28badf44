package recordio

import (
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
)

func TestPrefix(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		data    string
		want    []string // text|prefix|flags of each record
	}{
		{"the last column", Options{Format: TSV, Prefix: LastColumn}, "a\tx\nb\t\nc\n", []string{"a|x|", "b||", "||unreadable"}},
		{"by number", Options{Format: TSV, Field: "3", Prefix: "1"}, "x\t1\ta\n", []string{"a|x|"}},
		{"by name", Options{Format: TSV, Header: true, Field: "en", Prefix: "de"}, "de\ten\nx\ta\n", []string{"||", "a|x|"}},
		{"not valid", Options{Format: TSV, Prefix: "2"}, "a\tx\xff\n", []string{"a|x\ufffd|invalid-text"}},
		{"JSON", Options{Format: JSONL, Prefix: "p.q"}, `{"text":"a","p":{"q":"x"}}` + "\n" + `{"text":"b"}` + "\n" +
			`{"text":"c","p":{"q":null}}` + "\n" + `{"text":"d","p":{"q":1}}` + "\n", []string{"a|x|", "b||", "c||", "||unreadable"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, record := range mustDecode(t, test.options, test.data) {
				got = append(got, record.Text+"|"+record.Prefix+"|"+record.Flags.String())
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPrefixThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		options Options
		data    string
	}{
		{Options{Prefix: "1"}, "a\n"},
		{Options{Format: TSV, Prefix: LastColumn}, "a\n"},
		{Options{Format: TSV, Prefix: "1"}, "a\tb\n"},
		{Options{Format: TSV, Prefix: "3"}, "a\tb\n"},
		{Options{Format: TSV, Prefix: "-2"}, "a\tb\n"},
		{Options{Format: TSV, Header: true, Prefix: "de"}, "en\tfr\na\tb\n"},
		{Options{Format: JSONL, Prefix: "a..b"}, "{}\n"},
		{Options{Format: Parquet, Prefix: "a"}, ""},
	} {
		if c.options.Check() != nil {
			continue
		}
		if records, err := decode(t, c.options, c.data, job.Position{}); err == nil {
			t.Errorf("%+v of %q was taken: %+v", c.options, c.data, records)
		}
	}
}

// TestColumns gives the number of columns, so that the first row has no say.
func TestColumns(t *testing.T) {
	records := mustDecode(t, Options{Format: TSV, Columns: 2, Prefix: LastColumn}, "only one\na\tx\nb\ty\tz\n")
	for i, want := range []string{"||unreadable", "a|x|", "||unreadable"} {
		if got := records[i].Text + "|" + records[i].Prefix + "|" + records[i].Flags.String(); got != want {
			t.Errorf("record %d: got %q, want %q", i, got, want)
		}
	}
	for _, options := range []Options{{Columns: 2}, {Format: JSONL, Columns: 2}, {Format: TSV, Columns: -1}, {Format: TSV, Columns: 3, Header: true}} {
		if options.Check() != nil {
			continue
		}
		if _, err := decode(t, options, "a\tb\n", job.Position{}); err == nil {
			t.Errorf("%+v was taken", options)
		}
	}
}
