package recordio

import (
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
)

// The texts of several sources are one text, divided by the only tabs in it.
func TestFurtherSources(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		data    string
		want    []string // text|flags of each record
	}{
		{"by number", Options{Format: TSV, Field: "3", Further: []string{"1", "2"}}, "b\tc\ta\n\t\tx\nq\n", []string{"a\tb\tc|", "x\t\t|", "|unreadable"}},
		{"by name", Options{Format: TSV, Header: true, Field: "src", Further: []string{"mt"}}, "mt\tsrc\nb\ta\n", []string{"|", "a\tb|"}},
		{"not valid", Options{Format: TSV, Further: []string{"2"}}, "a\tx\xff\n", []string{"a\tx\ufffd|invalid-text"}},
		{"JSON", Options{Format: JSONL, Field: "t.src", Further: []string{"t.mt"}}, `{"t":{"mt":"b\tc","src":"a\ta"}}` + "\n" + `{"t":{"src":"a"}}` + "\n" +
			`{"t":{"src":"a","mt":1}}` + "\n", []string{"a a\tb c|", "|unreadable", "|unreadable"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, record := range mustDecode(t, test.options, test.data) {
				got = append(got, record.Text+"|"+record.Flags.String())
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestFurtherSourcesThatCannotBe(t *testing.T) {
	for _, options := range []Options{
		{Further: []string{"1"}}, {Format: Parquet, Further: []string{"a"}}, {Format: TSV, Further: []string{"x"}},
		{Format: JSONL, Further: []string{"a..b"}},
	} {
		if options.Check() == nil {
			t.Errorf("%+v was taken", options)
		}
	}
	for _, options := range []Options{{Format: TSV, Further: []string{"3"}}, {Format: TSV, Header: true, Further: []string{"c"}}} {
		if records, err := decode(t, options, "a\tb\n", job.Position{}); err == nil {
			t.Errorf("%+v was taken: %+v", options, records)
		}
	}
}

func TestFurtherSourcesOfMessages(t *testing.T) {
	for _, test := range []struct {
		options ValueOptions
		value   string
		want    string // text|what is written
	}{
		{ValueOptions{Format: TSV, Field: "2", Further: []string{"1"}}, "b\ta", "a\tb|b\ta\tX"},
		{ValueOptions{Format: JSONL, Field: "src", Further: []string{"mt"}, Targets: []string{"pe"}}, `{"mt":"b","src":"a"}`, `a	b|{"mt":"b","src":"a","pe":"X"}`},
		{ValueOptions{Format: TSV, Further: []string{"3"}}, "b\ta", "|"},
	} {
		value, err := NewValue(test.options)
		if err != nil {
			t.Fatal(err)
		}
		var record job.Record
		value.Decode([]byte(test.value), &record)
		written := ""
		if record.Err == nil {
			output := &job.Output{Record: record, Result: job.Result{Hypotheses: []job.Hypothesis{{Text: "X"}}}}
			translated, err := value.Append(nil, output)
			if err != nil {
				t.Fatal(err)
			}
			written = string(translated)
		}
		if got := record.Text + "|" + written; got != test.want {
			t.Errorf("%+v: got %q, want %q", test.options, got, test.want)
		}
	}
	for _, options := range []ValueOptions{{Further: []string{"1"}}, {Format: TSV, Further: []string{"a"}}, {Format: JSONL, Further: []string{"a..b"}}} {
		if _, err := NewValue(options); err == nil {
			t.Errorf("%+v was taken", options)
		}
	}
}
