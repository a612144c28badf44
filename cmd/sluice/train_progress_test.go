package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/train"
)

// TestTrainingBar draws with a clock of its own: not too often, with the time that is left, and below the messages.
func TestTrainingBar(t *testing.T) {
	var screen bytes.Buffer
	now := time.Unix(1000, 0)
	bar := newTrainingBar(&screen, func() time.Time { return now })
	drawn := func(update int, after time.Duration) string {
		screen.Reset()
		now = now.Add(after)
		bar.show(train.Progress{Update: update, Updates: 1000, Epoch: 2, Loss: 3.25, WordsPerSecond: 12345, Skipped: update / 500})
		return screen.String()
	}
	if got := drawn(401, 0); !strings.Contains(got, "update 401, epoch 2, loss 3.250, 12,345 words/s") || strings.Contains(got, "left") {
		t.Errorf("the first update draws %q", got)
	}
	if got := drawn(402, redrawEvery/2); got != "" {
		t.Errorf("soon after it, %q is drawn", got)
	}
	if got := drawn(501, 10*time.Second); !strings.Contains(got, "50s left") || !strings.Contains(got, "1 skipped") {
		t.Errorf("100 updates in 10 s, with 499 to go, draw %q", got)
	}
	screen.Reset()
	if _, err := bar.Write([]byte("message\n")); err != nil {
		t.Fatal(err)
	}
	if got := screen.String(); !strings.HasSuffix(got, "message\n") || got == "message\n" {
		t.Errorf("the bar is not removed before a message: %q", got)
	}
	if got := drawn(502, time.Millisecond); !strings.Contains(got, "update 502") {
		t.Errorf("after a message, %q is drawn", got)
	}
}

func TestWhenThereIsABar(t *testing.T) {
	for kind, want := range map[string]bool{"bar": true, "log": false, "auto": false} { // no test has a terminal for its errors
		if got, err := wantsBar(kind, false); got != want || err != nil {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
	if got, err := wantsBar("bar", true); got || err != nil {
		t.Errorf("--quiet with a bar: %v, %v", got, err)
	}
	if _, err := wantsBar("line", false); exitCode(err) != exitUsage {
		t.Errorf("line: %v", err)
	}
}
