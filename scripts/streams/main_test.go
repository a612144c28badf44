package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/kafkatest"
)

func TestStreams(t *testing.T) {
	broker := kafkatest.StartFake(t).Brokers[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	do := func(in string, arguments ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := run(ctx, arguments, strings.NewReader(in), &out); err != nil {
			t.Fatalf("%v: %v", arguments, err)
		}
		return out.String()
	}
	do("", "topics", broker, "texts:1", "others:3")
	do("", "topics", broker, "texts:1") // they may be there already
	do("a\tone\nb\ttwo\nc\tthree\n", "write", broker, "texts")
	want := "0\t0\ta\tone\n0\t1\tb\ttwo\n0\t2\tc\tthree\n"
	for _, count := range []string{"3", "0"} {
		if got := do("", "read", broker, "texts", count); got != want {
			t.Errorf("read %s gives %q, want %q", count, got, want)
		}
	}
	if got := do("", "read", broker, "others", "0"); got != "" {
		t.Errorf("an empty topic gives %q", got)
	}
}

func TestStreamsRefuses(t *testing.T) {
	broker := kafkatest.StartFake(t).Brokers[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, arguments := range [][]string{
		{}, {"read", broker}, {"read", broker, "texts"}, {"read", broker, "texts", "many"}, {"topics", broker, "texts"}, {"listen", broker, "texts"},
		{"write", broker, "texts"},
	} {
		if err := run(ctx, arguments, strings.NewReader("no tab\n"), new(bytes.Buffer)); err == nil {
			t.Errorf("%v works", arguments)
		}
	}
}
