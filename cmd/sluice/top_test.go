package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/pipeline/page"
)

var topJob = page.Job{Name: "reviews", Source: "in", Sink: "out", Model: page.Model{Paths: []string{"m.bin"}, Precision: "int8"}}

func topState() *page.State {
	return &page.State{
		Time: 60_000, Ready: true, Now: page.Rates{Words: 1234.5, Records: 60, Decoder: 0.9, Busy: 0.5, Lag: 1500, Age: 0.25},
		Total:  page.Totals{Written: 12345, Flags: map[string]int64{"failed": 2, "unreadable": 1, "split": 7}},
		Stages: []page.Stage{{Name: "read", Lately: 0.1}, {Name: "encode", Lately: 0.25}}, Engine: &page.Engines{Workers: 2, Waiting: 3000},
		Memory: page.Memory{Process: 200 << 20, Used: 1 << 20, Budget: 64 << 20}, Left: &page.Left{Of: "lag", Seconds: 75},
		Lanes: page.Lanes{Open: 2, Matching: 2, Shown: []page.Lane{
			{Name: "reviews/0", Committed: 999, Lag: -1, Share: 0.5}, {Name: "bad\x1b[2J\nname" + strings.Repeat("ä", 300), Lag: 7, Share: -1},
		}},
	}
}

func TestTopLines(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		text := strings.Join(topLines(&topJob, topState(), width), "\n")
		for line := range strings.SplitSeq(text, "\n") {
			if n := utf8.RuneCountInString(line); n > width || strings.ContainsAny(line, "\x1b\r") {
				t.Errorf("%d characters on %d: %q", n, width, line)
			}
		}
	}
	text := strings.Join(topLines(&topJob, topState(), 110), "\n")
	for _, want := range []string{"reviews  running for 1m0s", "in -> out   m.bin int8", "words/s   1,234", "failed  3", "left    1m15s", "behind  1,500", "busy      50 %", "90 % full", "split 7", "lanes: read 0.10  workers: encode 0.25", "LANE (2 open)", "999", "250ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestTop(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer 0123456789abcdef":
			http.Error(w, "this needs the token\x1b[2J", http.StatusUnauthorized)
		case r.URL.Path == "/api/job":
			_, _ = w.Write([]byte(`{"name": "reviews", "source": "in", "sink": "out"}`))
		case r.URL.Path == "/api/state" && r.FormValue("sort") == "lag" && r.FormValue("find") == "x":
			_, _ = w.Write([]byte(`{"ready": true, "now": {"words": 77}, "lanes": {"open": 1, "shown": [{"name": "lane x"}]}}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		arguments string
		code      int
		want      string
	}{
		{"--once --sort lag --find x --token-file " + token + " " + server.URL, exitOK, "lane x"},
		{"--once --json --sort lag --find x --token-file " + token + " " + server.URL, exitOK, `"words":77`},
		{"--once --token-file " + token + " " + server.URL, exitInput, "has no status page"},
		{"--once " + server.URL, exitInput, "401 Unauthorized: this needs the token\ufffd[2J"},
		{"--once --token-file missing " + server.URL, exitUsage, "missing"},
		{"--once --every 1ms", exitUsage, "--every 1ms"},
		{"--once http://", exitUsage, "no address"},
		{"--once localhost:1", exitInput, "no job answers at localhost:1"},
	} {
		said := new(transcript)
		err := execute(t.Context(), said, append([]string{"top"}, strings.Fields(test.arguments)...)...)
		if code := exitCode(err); code != test.code || !strings.Contains(said.String(), test.want) {
			t.Errorf("%s: code %d, want %d: %s", test.arguments, code, test.code, said)
		}
	}
}
