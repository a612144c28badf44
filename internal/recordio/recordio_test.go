package recordio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/internal/job"
)

// memory is a Stream of bytes. It gives them in pieces.
type memory struct {
	data  []byte
	at    int
	piece int
}

func (m *memory) Read(p []byte) (int, error) {
	if m.at == len(m.data) {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), max(1, m.piece))], m.data[m.at:])
	m.at += n
	return n, nil
}

func (m *memory) SkipTo(offset int64) error {
	if offset < int64(m.at) || offset > int64(len(m.data)) {
		return fmt.Errorf("cannot skip from %d to %d of %d", m.at, offset, len(m.data))
	}
	m.at = int(offset)
	return nil
}

func decode(t testing.TB, options Options, data string, at job.Position) ([]job.Record, error) {
	t.Helper()
	decoder, err := NewDecoder(options, "in", &memory{data: []byte(data), piece: 7}, at)
	if err != nil {
		return nil, err
	}
	return drain(decoder)
}

func drain(decoder Decoder) ([]job.Record, error) {
	var records []job.Record
	for {
		record, err := decoder.Next()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, record)
	}
}

func mustDecode(t testing.TB, options Options, data string) []job.Record {
	t.Helper()
	records, err := decode(t, options, data, job.Position{})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// shout is the translation of the tests.
func shout(record job.Record) job.Output {
	output := job.Output{Record: record}
	if record.Err == nil {
		output.Result.Hypotheses = []job.Hypothesis{{Text: strings.ToUpper(record.Text)}}
	}
	return output
}

func encode(t testing.TB, encoder Encoder, records []job.Record) string {
	t.Helper()
	var dst []byte
	for _, record := range records {
		output := shout(record)
		var err error
		if dst, err = encoder.Append(dst, &output); err != nil {
			t.Fatal(err)
		}
	}
	return string(dst)
}

func texts(records []job.Record) []string {
	var list []string
	for _, record := range records {
		list = append(list, record.Text)
	}
	return list
}

func TestTextLines(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		name, data string
		want       []string
	}{
		{"no bytes", "", nil},
		{"one line break", "\n", []string{""}},
		{"last line without a break", "a\nb", []string{"a", "b"}},
		{"CR before LF", "a\r\nb\r\n\r\n", []string{"a", "b", ""}},
		{"CR elsewhere", "a\rb\r\r\n", []string{"a\rb\r"}},
		{"CR at the end of the file", "a\r", []string{"a"}},
		{"what is no line break", "a\x00b\u2028c\u0085d\ve\ff\n", []string{"a\x00b\u2028c\u0085d\ve\ff"}},
		{"byte order mark", "\ufeffa\n\ufeffb\n", []string{"a", "\ufeffb"}},
		{"longest line", long + "\n" + long + "\r\n" + long, []string{long, long, long}},
	} {
		for _, piece := range []int{1, 2, 7, 1000} {
			decoder, err := NewDecoder(Options{MaxLine: 100}, "in", &memory{data: []byte(c.data), piece: piece}, job.Position{})
			if err != nil {
				t.Fatal(err)
			}
			records, err := drain(decoder)
			if got := texts(records); err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
				t.Errorf("%s, %d bytes at a time: %q, error %v, want %q", c.name, piece, got, err, c.want)
			}
			for _, record := range records {
				if record.Flags != 0 || record.Err != nil {
					t.Errorf("%s: flags %v, error %v", c.name, record.Flags, record.Err)
				}
			}
		}
	}
}

func TestInvalidUTF8IsRepairedAndFlagged(t *testing.T) {
	records := mustDecode(t, Options{}, "good\nb\xff\xfed\n\xc3\n\xed\xa0\x80\n")
	want := []string{"good", "b\ufffdd", "\ufffd", "\ufffd"}
	if got := texts(records); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i, record := range records {
		if flagged := record.Flags == job.InvalidText; flagged != (i > 0) {
			t.Errorf("record %d: flags %v", i, record.Flags)
		}
	}
}

func TestUTF16IsRefused(t *testing.T) {
	for _, data := range []string{"\xff\xfea\x00\n\x00", "\xfe\xff\x00a\x00\n"} {
		if _, err := decode(t, Options{}, data, job.Position{}); !errors.Is(err, errUTF16) {
			t.Errorf("%q: error %v", data, err)
		}
	}
}

func TestALineThatIsTooLongHasItsPlace(t *testing.T) {
	for _, format := range []Format{Text, TSV, JSONL} {
		for _, length := range []int{101, 102, 103, 1000, 300_000} {
			for _, ending := range []string{"\n", "\r\n"} {
				data := "a" + ending + strings.Repeat("x", length) + ending + "b" + ending
				options := Options{Format: format, MaxLine: 100}
				records := mustDecode(t, options, data)
				if len(records) != 3 {
					t.Fatalf("%s, %d bytes: %d records", format, length, len(records))
				}
				long := records[1]
				if long.Flags != job.Unreadable || long.Err == nil || long.Text != "" {
					t.Errorf("%s, %d bytes: flags %v, error %v, text of %d bytes", format, length, long.Flags, long.Err, len(long.Text))
				}
				if !strings.Contains(fmt.Sprint(long.Err), "in, line 2, byte ") {
					t.Errorf("error %v", long.Err)
				}
				if records[2].End.Offset != int64(len(data)) {
					t.Errorf("%s, %d bytes: the end is at %d, want %d", format, length, records[2].End.Offset, len(data))
				}
				if lines := strings.Split(encode(t, NewEncoder(options), records), "\n"); lines[1] != "" || len(lines) != 4 {
					t.Errorf("%s: output %q", format, lines)
				}
			}
		}
	}
}

// xs is an endless line.
type xs struct{ left int }

func (x *xs) Read(p []byte) (int, error) {
	if x.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), x.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	x.left -= n
	return n, nil
}

func (x *xs) SkipTo(int64) error { return errors.New("not here") }

func TestALineOf100MBTakesLittleMemory(t *testing.T) {
	const limit = 1 << 20
	decoder, err := NewDecoder(Options{MaxLine: limit}, "in", &xs{left: 100 << 20}, job.Position{})
	if err != nil {
		t.Fatal(err)
	}
	record, err := decoder.Next()
	if err != nil || record.Err == nil || record.End.Offset != 100<<20 {
		t.Errorf("record %+v, error %v", record, err)
	}
	if kept := len(decoder.(*lineDecoder).lines.unused); kept > 2*limit {
		t.Errorf("%d bytes of memory for lines of at most %d", kept, limit)
	}
	if _, err := decoder.Next(); err != io.EOF {
		t.Errorf("error %v after the line", err)
	}
}

func TestTSV(t *testing.T) {
	const data = "id\ttext\tnote\n1\ta b\tx\n2\tc\n3\td\ty\tz\n4\t\t\n5\te\xff\tw\xff\r\n"
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Field: "2"}, "id\ttext\tnote\tTEXT\n1\ta b\tx\tA B\n2\tc\n3\td\ty\tz\n4\t\t\t\n5\te\xff\tw\xff\tE\ufffd\n"},
		{Options{Field: "2", Header: true}, "id\ttext\tnote\ttranslation\n1\ta b\tx\tA B\n2\tc\n3\td\ty\tz\n4\t\t\t\n5\te\xff\tw\xff\tE\ufffd\n"},
		{Options{Field: "text", Target: "de", Header: true}, "id\ttext\tnote\tde\n1\ta b\tx\tA B\n2\tc\n3\td\ty\tz\n4\t\t\t\n5\te\xff\tw\xff\tE\ufffd\n"},
		{Options{Field: "text", Target: "text", Header: true}, "id\ttext\tnote\n1\tA B\tx\n2\tc\n3\td\ty\tz\n4\t\t\n5\tE\ufffd\tw\xff\n"},
		{Options{Field: "text", Target: "note", Header: true}, "id\ttext\tnote\n1\ta b\tA B\n2\tc\n3\td\ty\tz\n4\t\t\n5\te\xff\tE\ufffd\n"},
		{Options{Field: "2", Target: "4", Header: true}, "id\ttext\tnote\ttranslation\n1\ta b\tx\tA B\n2\tc\n3\td\ty\tz\n4\t\t\t\n5\te\xff\tw\xff\tE\ufffd\n"},
		{Options{Field: "2", Target: "1"}, "TEXT\ttext\tnote\nA B\ta b\tx\n2\tc\n3\td\ty\tz\n\t\t\nE\ufffd\te\xff\tw\xff\n"},
	} {
		c.options.Format = TSV
		records := mustDecode(t, c.options, data)
		if got := encode(t, NewEncoder(c.options), records); got != c.want {
			t.Errorf("%+v:\n%q, want\n%q", c.options, got, c.want)
		}
		for i, unreadable := range []bool{false, false, true, true, false, false} {
			if records[i].Flags&job.Unreadable != 0 != unreadable || (records[i].Err != nil) != unreadable {
				t.Errorf("row %d: flags %v, error %v", i, records[i].Flags, records[i].Err)
			}
			if unreadable && !strings.Contains("2\tc 3\td\ty\tz", string(records[i].Original)) || unreadable == (len(records[i].Original) == 0) {
				t.Errorf("row %d: a dead letter would hold %q", i, records[i].Original)
			}
		}
		if records[5].Flags != job.InvalidText {
			t.Errorf("last row: flags %v", records[5].Flags)
		}
	}
}

func TestTSVColumnsThatAreNotThere(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Field: "3"}, "no column 3: the first row has 2"},
		{Options{Field: "c", Header: true}, `no column "c" in the header: it names ["a" "b"]`},
		{Options{Field: "c"}, "without a header there are no names"},
		{Options{Field: "0"}, "not a number from 1"},
		{Options{Target: "4"}, "no column 4"},
	} {
		c.options.Format = TSV
		_, err := decode(t, c.options, "a\tb\n1\t2\n", job.Position{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.options, err, c.want)
		}
	}
}

func TestATabOrLineBreakInATranslationBecomesASpace(t *testing.T) {
	output := job.Output{Result: job.Result{Hypotheses: []job.Hypothesis{{Text: "a\tb\nc\rd"}}}}
	for format, want := range map[Format]string{Text: "a\tb c d\n", TSV: "x\ta b c d\n", JSONL: `{"text":"x","translation":"a\tb\nc\rd"}` + "\n"} {
		line := map[Format]string{Text: "x", TSV: "x", JSONL: `{"text":"x"}`}[format]
		output.Record = mustDecode(t, Options{Format: format}, line)[0]
		got, err := NewEncoder(Options{Format: format}).Append(nil, &output)
		if string(got) != want || err != nil {
			t.Errorf("%s: %q, error %v, want %q", format, got, err, want)
		}
	}
}

func TestJSONL(t *testing.T) {
	for _, c := range []struct {
		field, target, line, want string
		bad                       string // what the error says
	}{
		{line: `{"text":"a"}`, want: `{"text":"a","translation":"A"}`},
		{line: `{ "n": 1.50, "text": "a" }`, want: `{ "n": 1.50, "text": "a", "translation": "A" }`},
		{line: ` {"z":1e400,"text":"\u00e4\n","a":[{"text":"no"}]} `, want: ` {"z":1e400,"text":"\u00e4\n","a":[{"text":"no"}],"translation":"Ä\n"} `},
		{line: `{"translation":null,"text":"a"}`, want: `{"translation":"A","text":"a"}`},
		{line: `{"text":"a","text":"b"}`, want: `{"text":"a","text":"b","translation":"B"}`},
		{field: "text", target: "text", line: `{"text":"a","k":"}"}`, want: `{"text":"A","k":"}"}`},
		{field: "a.b[1].c", target: "a.de", line: `{"a":{"b":[0,{"c":"x"}]}}`, want: `{"a":{"b":[0,{"c":"x"}],"de":"X"}}`},
		{field: `["a.b"]`, target: "x.y", line: `{"a\u002eb":"x","x":{}}`, want: `{"a\u002eb":"x","x":{"y":"X"}}`},
		{field: "[0]", target: "[1]", line: `["a",{"b":[]}]`, want: `["a","A"]`},
		{line: `   `, want: `   `},
		{line: ``, want: ``},
		{line: `{"text":"a"`, want: `{"text":"a"`, bad: "not JSON, at byte 11 of the line"},
		{line: `{"text":"a"} x`, want: `{"text":"a"} x`, bad: "not JSON"},
		{line: `{"txt":"a"}`, want: `{"txt":"a"}`, bad: "the field text is missing"},
		{line: `{"text":3}`, want: `{"text":3}`, bad: "text is a number, not a string"},
		{line: `{"text":null}`, want: `{"text":null}`, bad: "text is null"},
		{line: `[1]`, want: `[1]`, bad: "the field text is missing"},
		{line: `"text"`, want: `"text"`, bad: "the field text is missing"},
		{field: "[0]", line: `["a"]`, want: `["a"]`, bad: "no place for the translation"},
		{target: "a.b", line: `{"text":"a","a":1}`, want: `{"text":"a","a":1}`, bad: "no place for the translation"},
	} {
		options := Options{Format: JSONL, Field: c.field, Target: c.target}
		records := mustDecode(t, options, c.line+"\n")
		if got := encode(t, NewEncoder(options), records); got != c.want+"\n" {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
		err := records[0].Err
		if c.bad == "" && err != nil || c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad) || records[0].Flags != job.Unreadable) {
			t.Errorf("%s: flags %v, error %v, want %q", c.line, records[0].Flags, err, c.bad)
		}
		if original := string(records[0].Original); c.bad != "" && original != c.line {
			t.Errorf("%s: a dead letter would hold %q", c.line, original)
		}
	}
}

func TestJSONTextThatIsNotUnicode(t *testing.T) {
	for line, want := range map[string]string{
		"{\"text\":\"a\xffb\",\"x\":\"\xff\"}": "a\ufffdb",
		`{"text":"a\ud800b"}`:                  "a\ufffdb",
		"{\"text\":\"\\t\xff\"}":               "\t\ufffd",
	} {
		record := mustDecode(t, Options{Format: JSONL}, line)[0]
		if record.Text != want || record.Flags != job.InvalidText {
			t.Errorf("%q: %q, flags %v", line, record.Text, record.Flags)
		}
		if got := encode(t, NewEncoder(Options{Format: JSONL}), []job.Record{record}); !strings.HasPrefix(got, line[:len(line)-1]) {
			t.Errorf("%q: the line became %q", line, got)
		}
	}
	record := mustDecode(t, Options{Format: JSONL}, `{"text":"\uFFFD`+"\ufffd"+`"}`)[0]
	if record.Flags != 0 {
		t.Errorf("a replacement character that is meant is flagged %v", record.Flags)
	}
}

func TestAFailedTranslationIsNull(t *testing.T) {
	record := mustDecode(t, Options{Format: JSONL}, `{"text":"a"}`)[0]
	output := job.Output{Record: record, Result: job.Result{Err: errors.New("no")}}
	got, err := NewEncoder(Options{Format: JSONL}).Append(nil, &output)
	if string(got) != `{"text":"a","translation":null}`+"\n" || err != nil {
		t.Errorf("%s, error %v", got, err)
	}
}

func TestPaths(t *testing.T) {
	for _, path := range []string{"a..b", ".a", "a.", "a[", "a[x]", "a[-1]", `a["b]`, `a["b"`, "[]", "a[99999999999]"} {
		if steps, err := parsePath(path); err == nil {
			t.Errorf("%q: %v and no error", path, steps)
		}
	}
	for path, want := range map[string]string{"": "[]", "a": "[{a -1}]", "a.b[3].c": "[{a -1} {b -1} { 3} {c -1}]", `a["b.c"][0]`: "[{a -1} {b.c -1} { 0}]", `["\u0061"]`: "[{a -1}]"} {
		if steps, err := parsePath(path); err != nil || fmt.Sprint(steps) != want {
			t.Errorf("%q: %v, error %v, want %s", path, steps, err, want)
		}
	}
}

func TestContinuingAtEveryRecordGivesTheRest(t *testing.T) {
	for _, c := range []struct {
		options Options
		data    string
	}{
		{Options{}, "\ufeffa\r\nb\n\n\nc"},
		{Options{Format: TSV, Field: "2", Header: true}, "a\tb\n1\t2\r\nbad\n3\t4\n\n5\t6"},
		{Options{Format: TSV}, "1\t2\nbad\n3\t4\n"},
		{Options{Format: JSONL}, "{\"text\":\"a\"}\n\n{\"text\"\n{\"text\":\"b\"}"},
		{Options{MaxLine: 3}, "abc\nabcd\nab\nabcdefghi\nx"},
	} {
		whole := mustDecode(t, c.options, c.data)
		for i, record := range whole {
			if record.Seq != int64(i) || record.End.Record != int64(i+1) {
				t.Errorf("%+v: record %d has number %d and ends before %d", c.options, i, record.Seq, record.End.Record)
			}
			rest, err := decode(t, c.options, c.data, record.End)
			if got, want := fmt.Sprintf("%+v", rest), fmt.Sprintf("%+v", whole[i+1:]); err != nil || got != want {
				t.Errorf("%+v, after record %d: %s, error %v, want %s", c.options, i, got, err, want)
			}
		}
	}
}

func TestTheHeaderOfAJoinedInputIsPassedOver(t *testing.T) {
	options := Options{Format: TSV, Field: "b", Header: true}
	records, err := decode(t, options, "a\tb\n1\tx\n", job.Position{Record: 5, Input: 1})
	if err != nil || len(records) != 1 || records[0].Text != "x" || records[0].End != (job.Position{Record: 6, Input: 1, Offset: 8}) {
		t.Errorf("%+v, error %v", records, err)
	}
	if records, err := decode(t, options, "", job.Position{Record: 5, Input: 1}); err != nil || len(records) != 0 {
		t.Errorf("empty input: %+v, error %v", records, err)
	}
}

func TestContinuingBehindTheEndIsAnError(t *testing.T) {
	for _, offset := range []int64{3, 100} {
		if _, err := decode(t, Options{}, "a\n", job.Position{Record: 1, Offset: offset}); err == nil {
			t.Errorf("offset %d: no error", offset)
		}
	}
}

func TestReport(t *testing.T) {
	nan := float32(math.NaN())
	output := job.Output{
		Record: job.Record{Seq: 7, Flags: job.InvalidText},
		Result: job.Result{
			Hypotheses: []job.Hypothesis{
				{Text: "a\n\"b\"", Score: -1.5, ModelScores: []float32{-3, nan}, WordScores: []float32{-0.1}, Pieces: []string{"▁a"}, Alignment: [][]float32{{0.25, 0.75}}},
				{Text: "c", Score: -2},
			},
			Flags: job.Split, SourceTokens: 4, TargetTokens: 5, Err: errors.New("why"),
		},
	}
	const want = `{"id":7,"text":"a\n\"b\"","score":-1.5,"model_scores":[-3,null],"word_scores":[-0.1],"pieces":["▁a"],"alignment":[[0.25,0.75]],` +
		`"hypotheses":[{"text":"a\n\"b\"","score":-1.5,"model_scores":[-3,null],"word_scores":[-0.1],"pieces":["▁a"],"alignment":[[0.25,0.75]]},{"text":"c","score":-2}],` +
		`"source_tokens":4,"target_tokens":5,"flags":["split","invalid-text"],"error":"why"}` + "\n"
	got, err := NewReportEncoder().Append(nil, &output)
	if err != nil || string(got) != want {
		t.Errorf("%s, error %v, want %s", got, err, want)
	}
	got, _ = NewReportEncoder().Append(nil, &job.Output{})
	if want := `{"id":0,"text":null,"source_tokens":0,"target_tokens":0}` + "\n"; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestLinesOfHypotheses(t *testing.T) {
	encoder := NewLineEncoder(func(dst []byte, id int64, h *job.Hypothesis) []byte {
		return fmt.Appendf(dst, "%d ||| %s", id, h.Text)
	})
	output := job.Output{Record: job.Record{Seq: 3}, Result: job.Result{Hypotheses: []job.Hypothesis{{Text: "a\nb"}, {Text: "c"}}}}
	got, err := encoder.Append([]byte("before\n"), &output)
	if want := "before\n3 ||| a b\n3 ||| c\n"; string(got) != want || err != nil {
		t.Errorf("%q, error %v, want %q", got, err, want)
	}
	if got, _ := encoder.Append(nil, &job.Output{}); string(got) != "0 ||| \n" {
		t.Errorf("%q", got)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, options := range []Options{
		{Header: true}, {Field: "a"}, {MaxLine: -1}, {Format: JSONL, Field: "a["}, {Format: JSONL, Target: ".."},
		{Format: TSV, Field: "x"}, {Format: TSV, Target: "-1"}, {Format: JSONL, Header: true},
	} {
		if options.Check() == nil {
			t.Errorf("%+v: no error", options)
		}
	}
	if _, err := ParseFormat("csv"); err == nil {
		t.Error("csv: no error")
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("a\r\nb\xff\n\x00"), 3)
	f.Fuzz(func(t *testing.T, data []byte, limit int) { checkLines(t, Options{MaxLine: 1 + limit&0xff}, data) })
}

func FuzzTSV(f *testing.F) {
	f.Add([]byte("a\tb\n1\t2\nx\n"), "b", "", true)
	f.Add([]byte("a\tb\n1\t2\nx\n"), "2", "2", false)
	f.Fuzz(func(t *testing.T, data []byte, field, target string, header bool) {
		checkLines(t, Options{Format: TSV, Field: field, Target: target, Header: header, MaxLine: 200}, data)
	})
}

func FuzzJSONL(f *testing.F) {
	f.Add([]byte(`{"text":"a"}`), "", "")
	f.Add([]byte(`{"a":[{"b":"\u00e4\ud800"}], "x" : {}}`), "a[0].b", "x.y")
	f.Fuzz(func(t *testing.T, data []byte, field, target string) {
		options := Options{Format: JSONL, Field: field, Target: target, MaxLine: 1000}
		checkLines(t, options, data)
		if options.Check() != nil {
			return
		}
		records, err := decode(t, options, string(data), job.Position{})
		if err != nil {
			return
		}
		for i, line := range strings.Split(strings.TrimSuffix(encode(t, NewEncoder(options), records), "\n"), "\n") {
			if len(records) > 0 && records[i].Flags&job.Unreadable == 0 && strings.TrimSpace(line) != "" && !json.Valid([]byte(line)) {
				t.Errorf("%q was made into %q, which is not JSON", data, line)
			}
		}
	})
}

func FuzzPath(f *testing.F) {
	f.Add(`a.b[0]["c"]`)
	f.Fuzz(func(t *testing.T, path string) {
		steps, err := parsePath(path)
		if err == nil && path != "" && len(steps) == 0 {
			t.Error("no steps and no error")
		}
	})
}

// checkLines checks what holds for any input: as many records as lines, as many lines out as records, positions
// without gaps from which the rest is the same, and texts of valid UTF-8.
func checkLines(t *testing.T, options Options, data []byte) {
	records, err := decode(t, options, string(data), job.Position{})
	if err != nil {
		return
	}
	lines := bytes.Count(data, []byte{'\n'})
	if len(data) > 0 && data[len(data)-1] != '\n' {
		lines++
	}
	if len(records) != lines {
		t.Errorf("%d records of %d lines", len(records), lines)
	}
	out := encode(t, NewEncoder(options), records)
	if n := strings.Count(out, "\n"); n != lines {
		t.Errorf("%d lines out of %d", n, lines)
	}
	at := int64(0)
	for _, record := range records {
		if record.End.Offset <= at {
			t.Errorf("record %d ends at %d, behind %d", record.Seq, record.End.Offset, at)
		}
		at = record.End.Offset
		if !utf8.ValidString(record.Text) {
			t.Errorf("record %d is not valid UTF-8", record.Seq)
		}
	}
	if at != int64(len(data)) {
		t.Errorf("the last record ends at %d of %d", at, len(data))
	}
	if len(records) > 1 {
		middle := len(records) / 2
		rest, err := decode(t, options, string(data), records[middle-1].End)
		if err != nil || encode(t, NewEncoder(options), rest) != encode(t, NewEncoder(options), records[middle:]) {
			t.Errorf("continuing behind record %d gives something else, error %v", middle, err)
		}
	}
}
