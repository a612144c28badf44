package recordio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/job"
)

// fill decodes a value, and writes it back with the given translations.
func fill(t testing.TB, options ValueOptions, value string, translations ...string) (job.Record, string) {
	t.Helper()
	codec, err := NewValue(options)
	if err != nil {
		t.Fatal(err)
	}
	var record job.Record
	codec.Decode([]byte(value), &record)
	output := job.Output{Record: record}
	for _, text := range translations {
		output.Result.Hypotheses = append(output.Result.Hypotheses, job.Hypothesis{Text: text})
	}
	written, err := codec.Append([]byte("-"), &output)
	if err != nil {
		t.Fatal(err)
	}
	return record, strings.TrimPrefix(string(written), "-")
}

func TestValues(t *testing.T) {
	row := ValueOptions{Format: TSV, Field: "2"}
	object := ValueOptions{Format: JSONL}
	deep := ValueOptions{Format: JSONL, Field: "a.text", Targets: []string{"a.best", "other", `a.rest[1]`}}
	for _, test := range []struct {
		name    string
		options ValueOptions
		value   string
		text    string
		want    string
	}{
		{"Text", ValueOptions{}, "Hallo", "Hallo", "T0"},
		{"TextOfSeveralLines", ValueOptions{}, "eins\nzwei\r\n", "eins\nzwei\r\n", "T0"},
		{"Row", row, "1\tHallo\tx", "Hallo", "1\tHallo\tx\tT0"},
		{"RowWithLineBreak", row, "1\tHallo\r\n", "Hallo", "1\tHallo\tT0\r\n"},
		{"RowsMayDiffer", row, "\tHallo", "Hallo", "\tHallo\tT0"},
		{"ColumnReplaced", ValueOptions{Format: TSV, Field: "1", Targets: []string{"1"}}, "Hallo\tx", "Hallo", "T0\tx"},
		{"Columns", ValueOptions{Format: TSV, Targets: []string{"3", "", "1", ""}}, "Hallo\tb\tc", "Hallo", "T2\tb\tT0\tT1\t"},
		{"Object", object, `{"id": 1.0, "text": "Ha\u006clo"}`, "Hallo", `{"id": 1.0, "text": "Ha\u006clo", "translation": "T0"}`},
		{"ObjectOfSeveralLines", object, "{\n \"text\":\"Hallo\"\n}\n", "Hallo", "{\n \"text\":\"Hallo\",\"translation\":\"T0\"\n}\n"},
		{"TargetReplaced", object, `{"translation":{"old":1},"text":"Hallo"}`, "Hallo", `{"translation":"T0","text":"Hallo"}`},
		{"Paths", deep, `{"a":{"text":"Hallo","rest":[0,1]}}`, "Hallo", `{"a":{"text":"Hallo","rest":[0,"T2"],"best":"T0"},"other":"T1"}`},
		{"EmptyObject", ValueOptions{Format: JSONL, Field: "t", Targets: []string{"o.x", "o.y", "o.z", "o.n"}}, "{\"t\":\"Hallo\",\"o\":{\n}}", "Hallo", "{\"t\":\"Hallo\",\"o\":{\"x\":\"T0\",\"y\":\"T1\",\"z\":\"T2\",\"n\":null\n}}"},
		{"White", object, " \n", "", " \n"},
		{"WholeValue", ValueOptions{Format: JSONL, Field: "[0]", Targets: []string{"[1]"}}, `["Hallo",null]`, "Hallo", `["Hallo","T0"]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			record, got := fill(t, test.options, test.value, "T0", "T1", "T2")
			if record.Text != test.text || record.Err != nil || record.Flags != 0 || got != test.want {
				t.Errorf("text %q, error %v, flags %v, written %q; want %q", record.Text, record.Err, record.Flags, got, test.want)
			}
		})
	}
}

func TestValuesThatCannotBeRead(t *testing.T) {
	for _, test := range []struct {
		options ValueOptions
		value   string
		reason  string
	}{
		{ValueOptions{Format: TSV, Field: "3"}, "a\tb", "2 columns"},
		{ValueOptions{Format: TSV, Targets: []string{"9"}}, "a\tb", "column 9"},
		{ValueOptions{Format: TSV}, "a\nb", "line break"},
		{ValueOptions{Format: JSONL}, `{"text":1}`, "a number, not a string"},
		{ValueOptions{Format: JSONL}, `{}`, "the field text is missing"},
		{ValueOptions{Format: JSONL}, `{"text":"a"`, "not JSON"},
		{ValueOptions{Format: JSONL}, `null`, "the field text is missing"},
		{ValueOptions{Format: JSONL, Targets: []string{"x.y"}}, `{"text":"a"}`, "no place"},
	} {
		record, got := fill(t, test.options, test.value, "T")
		if record.Err == nil || !strings.Contains(record.Err.Error(), test.reason) || record.Flags&job.Unreadable == 0 || record.Text != "" {
			t.Errorf("%s: %+v", test.value, record)
		}
		if got != test.value || string(record.Original) != test.value {
			t.Errorf("%s was written as %q, the original is %q", test.value, got, record.Original)
		}
	}
}

func TestOriginalIsKeptWhereTheTextDoesNotTellAll(t *testing.T) {
	if record, _ := fill(t, ValueOptions{}, "plain"); record.Original != nil {
		t.Errorf("the original %q is kept beside the text", record.Original)
	}
	record, _ := fill(t, ValueOptions{}, "bad \xff")
	if string(record.Original) != "bad \xff" || record.Text != "bad \ufffd" || record.Flags != job.InvalidText {
		t.Errorf("%+v", record)
	}
}

func TestValueOptions(t *testing.T) {
	for _, test := range []struct {
		options ValueOptions
		reason  string
	}{
		{ValueOptions{Format: Parquet}, "cannot be parquet"},
		{ValueOptions{Field: "text"}, "no fields"},
		{ValueOptions{Targets: []string{"x"}}, "no fields"},
		{ValueOptions{Format: TSV, Field: "name"}, "not a number"},
		{ValueOptions{Format: TSV, Targets: []string{"name"}}, "not a number"},
		{ValueOptions{Format: TSV, Targets: []string{"2", "2"}}, "two translations"},
		{ValueOptions{Format: JSONL, Field: "a["}, "closing bracket"},
		{ValueOptions{Format: JSONL, Targets: []string{"a.b", "a"}}, "in each other"},
		{ValueOptions{Format: JSONL, Targets: []string{"a", "a"}}, "in each other"},
	} {
		if _, err := NewValue(test.options); err == nil || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%+v: %v", test.options, err)
		}
	}
}

func TestAValueOfAnotherFormatIsAnError(t *testing.T) {
	codec, _ := NewValue(ValueOptions{Format: JSONL})
	if _, err := codec.Append(nil, &job.Output{}); err == nil {
		t.Error("no error")
	}
}

// What is not a target keeps its value, whatever the object looks like.
func TestTheRestOfAnObjectStays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		object := map[string]any{"text": rapid.String().Draw(r, "text")}
		for range rapid.IntRange(0, 5).Draw(r, "members") {
			object[rapid.StringMatching(`[a-dä"\\]{1,2}`).Draw(r, "key")] = rapid.OneOf(
				rapid.Just[any](nil), rapid.Just[any](map[string]any{}), rapid.Just[any]([]any{"x", 1.5}), rapid.Map(rapid.String(), func(s string) any { return s }),
			).Draw(r, "value")
		}
		indent := rapid.SampledFrom([]string{"", " ", "\t"}).Draw(r, "indent")
		value, err := json.MarshalIndent(object, "", indent)
		if err != nil {
			r.Fatal(err)
		}
		if indent == "" {
			value, _ = json.Marshal(object)
		}
		options := ValueOptions{Format: JSONL, Targets: []string{"a", "new", `["b"]`}}
		best, second := rapid.String().Draw(r, "best"), rapid.String().Draw(r, "second")
		record, written := fill(t, options, string(value), best, second)
		if record.Err != nil || record.Text != object["text"] {
			r.Fatalf("%s: text %q, %v", value, record.Text, record.Err)
		}
		object["a"], object["new"], object["b"] = best, second, nil
		var got map[string]any
		if err := json.Unmarshal([]byte(written), &got); err != nil || !reflect.DeepEqual(got, object) {
			r.Fatalf("%s became %s: %v", value, written, err)
		}
	})
}

func FuzzValue(f *testing.F) {
	for _, seed := range []string{"a\tb", `{"text":"x","o":{}}`, "{\n\"text\":\"x\"\n}", `{"text":"\ud800"}`, "\xff", "", "[[]]", `{"text":"a","text":"b","o":[{}]}`} {
		for format := range 3 {
			f.Add([]byte(seed), format, "out")
		}
	}
	options := []ValueOptions{
		{}, {Format: TSV, Field: "2", Targets: []string{"1", "", "4"}}, {Format: JSONL, Targets: []string{"o.x", "text", "o.y", "z"}},
	}
	f.Fuzz(func(t *testing.T, value []byte, format int, translation string) {
		codec, err := NewValue(options[uint(format)%3])
		if err != nil {
			t.Fatal(err)
		}
		kept := bytes.Clone(value)
		var record job.Record
		codec.Decode(value, &record)
		if !utf8.ValidString(record.Text) || !bytes.Equal(kept, value) {
			t.Fatalf("text %q, value %q", record.Text, value)
		}
		output := job.Output{Record: record, Result: job.Result{Hypotheses: []job.Hypothesis{{Text: translation}}}}
		written, err := codec.Append(nil, &output)
		if err != nil {
			t.Fatal(err)
		}
		if record.Err != nil && !bytes.Equal(written, value) {
			t.Fatalf("%q cannot be read, and is written as %q", value, written)
		}
		if codec.format == JSONL && json.Valid(value) && !json.Valid(written) {
			t.Fatalf("%q became %q, which is not JSON", value, written)
		}
	})
}

func ExampleValue() {
	codec, err := NewValue(ValueOptions{Format: JSONL, Field: "msg.de", Targets: []string{"msg.en", "msg.second"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var record job.Record
	codec.Decode([]byte(`{"id": 7, "msg": {"de": "Guten Tag"}}`), &record)
	output := job.Output{Record: record, Result: job.Result{Hypotheses: []job.Hypothesis{{Text: "Good day"}, {Text: "Hello"}}}}
	value, err := codec.Append(nil, &output)
	fmt.Println(string(value), err)
	// Output: {"id": 7, "msg": {"de": "Guten Tag", "en": "Good day", "second": "Hello"}} <nil>
}

// A value that is too long is a record that cannot be translated, and nothing is made of it.
func TestValuesThatAreTooLong(t *testing.T) {
	for _, format := range []Format{Text, TSV, JSONL} {
		v, err := NewValue(ValueOptions{Format: format, MaxSize: 20})
		if err != nil {
			t.Fatal(err)
		}
		long := []byte(`{"text":"123456789"}`)
		var record job.Record
		if v.Decode(long, &record); record.Err != nil {
			t.Errorf("%v: 20 bytes: %v", format, record.Err)
		}
		record = job.Record{}
		long = append(long, ' ')
		if v.Decode(long, &record); record.Err == nil || record.Flags != job.Unreadable || record.Text != "" || len(record.Original) != 21 {
			t.Errorf("%v: 21 bytes: %+v", format, record)
		}
		if got, err := v.Append(nil, &job.Output{Record: record}); err != nil || len(got) != 0 {
			t.Errorf("%v: %q, %v", format, got, err)
		}
	}
}
