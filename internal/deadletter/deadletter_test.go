package deadletter_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
)

func TestALetterIsOneLineOfJSON(t *testing.T) {
	output := job.Output{
		Record: job.Record{Seq: 17, Text: "Ä <b>", Flags: job.InvalidText, End: job.Position{Record: 18, Offset: 1042}, Original: []byte("Ä <b>\n")},
		Result: job.Result{Err: errors.New("no\nlanguage"), Flags: job.Failed},
	}
	letter := deadletter.Of("orders/3", &output)
	letter.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	line, err := deadletter.Append([]byte("before\n"), &letter)
	if err != nil {
		t.Fatal(err)
	}
	want := `before
{"lane":"orders/3","record":17,"position":{"record":18,"input":0,"offset":1042},"reason":"no\nlanguage","flags":["invalid-text","failed"],"time":"2026-01-02T03:04:05Z","original":"Ä <b>\n"}
`
	if string(line) != want {
		t.Errorf("got %s\nwant %s", line, want)
	}
}

func TestTheReasonOfTheRecordComesFirst(t *testing.T) {
	output := job.Output{Record: job.Record{Err: errors.New("first")}, Result: job.Result{Err: errors.New("second")}}
	if got := deadletter.Of("lane", &output).Reason; got != "first" {
		t.Errorf("the reason is %q", got)
	}
	if err := deadletter.Failed(&job.Output{}); err != nil {
		t.Errorf("a good output has failed: %v", err)
	}
}

func TestWithoutOriginalBytesTheTextIsKept(t *testing.T) {
	output := job.Output{Record: job.Record{Text: "text", Err: errors.New("x")}}
	if got := deadletter.Of("lane", &output).Original; string(got) != "text" {
		t.Errorf("the original is %q", got)
	}
}

func TestLettersComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte())
		letter := deadletter.Letter{
			Lane:     rapid.StringN(1, 10, -1).Draw(r, "lane"),
			Record:   rapid.Int64Min(0).Draw(r, "record"),
			Position: job.Position{Record: rapid.Int64().Draw(r, "next"), Input: rapid.Int().Draw(r, "input"), Offset: rapid.Int64().Draw(r, "offset")},
			Reason:   rapid.String().Draw(r, "reason"),
			Flags:    job.Flags(rapid.Uint32Range(0, 255).Draw(r, "flags")),
			Original: raw.Draw(r, "original"),
		}
		if rapid.Bool().Draw(r, "message") {
			letter.Message = &job.Message{Key: raw.Draw(r, "key"), Tombstone: rapid.Bool().Draw(r, "tombstone"), Time: time.UnixMilli(rapid.Int64Range(1, 1<<40).Draw(r, "time")).UTC()}
			for range rapid.IntRange(0, 3).Draw(r, "headers") {
				letter.Message.Headers = append(letter.Message.Headers, job.Header{Key: rapid.String().Draw(r, "name"), Value: raw.Draw(r, "value")})
			}
			if rapid.Bool().Draw(r, "no key") {
				letter.Message.Key = nil
			}
		}
		line, err := deadletter.Append(nil, &letter)
		if err != nil {
			r.Fatal(err)
		}
		if bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("\n")) {
			r.Fatalf("not one line: %q", line)
		}
		got, err := deadletter.Parse(line)
		if err != nil {
			r.Fatal(err)
		}
		if !bytes.Equal(got.Original, letter.Original) {
			r.Fatalf("the original is %q, and was %q", got.Original, letter.Original)
		}
		got.Original = letter.Original
		if !reflect.DeepEqual(got, letter) {
			r.Fatalf("got %+v\nwant %+v", got, letter)
		}
	})
}

func TestOtherLinesAreRefused(t *testing.T) {
	for _, line := range []string{"", "x", "{}", `{"lane":""}`, `[1]`, `{"lane":"a","original":"x","original_base64":"eA=="}`, `{"lane":"a","original_base64":"?"}`} {
		if letter, err := deadletter.Parse([]byte(line)); err == nil {
			t.Errorf("%s was read as %+v", line, letter)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"lane":"a/0","record":1,"position":{"record":2,"input":0,"offset":3},"reason":"r","original":"x"}`))
	f.Add([]byte(`{"lane":"a","original_base64":"/w==","message":{"key":"","headers":[{"key":"k","value":null}],"tombstone":true}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		letter, err := deadletter.Parse(line)
		if err != nil || !utf8.ValidString(letter.Lane) {
			return
		}
		again, err := deadletter.Append(nil, &letter)
		if err != nil {
			t.Skip(err) // a time with a year that JSON does not write
		}
		back, err := deadletter.Parse(again)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if back.Lane != letter.Lane || back.Reason != letter.Reason || !bytes.Equal(back.Original, letter.Original) {
			t.Fatalf("%+v came back as %+v", letter, back)
		}
		if strings.Count(string(again), "\n") != 1 {
			t.Fatalf("not one line: %q", again)
		}
	})
}
