package recordio

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/sluice-mt/sluice/internal/job"
)

func TestValueLines(t *testing.T) {
	tests := []struct {
		options     ValueOptions
		value, want string
	}{
		{ValueOptions{}, "one\r\ntwo", "ONE\n"},
		{ValueOptions{Format: TSV, Field: "2"}, "a\tb", "a\tb\tONE\n"},
		{ValueOptions{Format: JSONL, Targets: []string{"de"}}, "{\n \"text\": \"x\"\n}", "{  \"text\": \"x\", \"de\": \"ONE\" }\n"},
		{ValueOptions{Format: JSONL, Targets: []string{"de"}}, "{\n oops", "\"{\\n oops\"\n"},
	}
	for _, test := range tests {
		v, err := NewValue(test.options)
		if err != nil {
			t.Fatal(err)
		}
		var record job.Record
		v.Decode([]byte(test.value), &record)
		output := job.Output{Record: record, Result: job.Result{Hypotheses: []job.Hypothesis{{Text: "ONE"}}}}
		got, err := NewValueLines(v).Append([]byte("before\n"), &output)
		if err != nil {
			t.Fatal(err)
		}
		line := bytes.TrimPrefix(got, []byte("before\n"))
		if bytes.Count(line, []byte("\n")) != 1 || test.options.Format == JSONL && !json.Valid(line) {
			t.Errorf("%q is not one line", line)
		}
		if string(line) != test.want {
			t.Errorf("%q: %q, want %q", test.value, line, test.want)
		}
	}
	for format, want := range map[Format]string{Text: "\n", JSONL: "null\n"} {
		v, err := NewValue(ValueOptions{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		got, err := NewValueLines(v).Append(nil, &job.Output{Record: job.Record{Message: &job.Message{Tombstone: true}}})
		if string(got) != want || err != nil {
			t.Errorf("tombstone: %q, %v", got, err)
		}
	}
}

// Whatever a message holds, it is one line.
func FuzzValueLines(f *testing.F) {
	f.Add([]byte("{\"text\":\n\"a\"}"), uint8(2))
	f.Add([]byte("a\r\nb\tc"), uint8(1))
	f.Fuzz(func(t *testing.T, value []byte, format uint8) {
		v, err := NewValue(ValueOptions{Format: Format(format % 3)})
		if err != nil {
			t.Skip(err)
		}
		var record job.Record
		v.Decode(value, &record)
		got, err := NewValueLines(v).Append(nil, &job.Output{Record: record, Result: job.Result{Hypotheses: []job.Hypothesis{{Text: "x\ny"}}}})
		if err != nil || bytes.Count(got, []byte("\n")) != 1 || got[len(got)-1] != '\n' {
			t.Errorf("%q became %q, %v", value, got, err)
		}
	})
}
