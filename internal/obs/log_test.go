package obs

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestNewLoggerKeepsLevel(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, err := NewLogger(&out, format, "Warn")
		if err != nil {
			t.Fatal(err)
		}
		log.Info("hidden")
		log.Warn("shown", "lane", "a b")
		if got := out.String(); strings.Contains(got, "hidden") || !strings.Contains(got, "shown") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: got %q, want one line, about what was shown", format, got)
		}
		if format == "json" {
			var line struct{ Msg, Lane string }
			if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Msg != "shown" || line.Lane != "a b" {
				t.Errorf("got %+v, %v from %s", line, err, out.String())
			}
		}
	}
}

func TestNewLoggerRefusesUnknownNames(t *testing.T) {
	for _, c := range [][2]string{{"xml", "info"}, {"", "info"}, {"text", "loud"}, {"text", ""}} {
		if _, err := NewLogger(nil, c[0], c[1]); err == nil {
			t.Errorf("format %q, level %q were taken", c[0], c[1])
		}
	}
}
