package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// command runs a command line with an echo for an engine, and returns what it prints.
func command(t *testing.T, want int, arguments ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	root := newRootCommand(beginEcho)
	root.SetOut(&out)
	root.SetErr(&messages)
	if code := runWith(root, arguments); code != want {
		t.Fatalf("sluice %s: exit code %d, want %d\n%s", strings.Join(arguments, " "), code, want, messages.String())
	}
	return out.String() + messages.String()
}

func writeJob(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yml")
	text += fmt.Sprintf("translate: {models: %s}\n", filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Letters of a topic are listed, and sent again to the topic that they came from: once, however often that is asked for.
func TestLettersOfATopic(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	in, out := &topic{cluster, "in"}, &topic{cluster, "out"}
	in.create(t, 2)
	out.create(t, 2)
	in.fill(t, 2, 300)
	path := writeJob(t, fmt.Sprintf("name: letters\nsource: %s\nsink: %s\ndead-letters: out.failed\n", in.settings(t, true), out.settings(t, false)))
	command(t, exitOK, "run", path)

	listed := textLines(command(t, exitOK, "dlq", "list", path))
	if len(listed) != 6 || !strings.Contains(listed[0], `in/`) || !strings.Contains(listed[0], `poison lane`) || !strings.Contains(listed[0], "closed") {
		t.Errorf("listed: %q", listed)
	}
	if n := strings.Count(command(t, exitOK, "dlq", "list", "--jsonl", path), `"reason":`); n != 6 {
		t.Errorf("%d letters as JSON", n)
	}
	for range 2 {
		command(t, exitOK, "dlq", "replay", path)
	}
	var again []string
	for lane := range 2 {
		values := kafkatest.Values(cluster.Committed(t, "in", lane))
		again = append(again, values[300:]...)
	}
	slices.Sort(again)
	var want []string
	for lane := range 2 {
		for i := 57; i < 300; i += 100 {
			want = append(want, recordText(lane, i))
		}
	}
	slices.Sort(want)
	if !slices.Equal(again, want) {
		t.Errorf("sent again: %q, want %q", again, want)
	}
}

// Records without a key go back to the partition that they came from, however many the letters' topic has; and what was sent to
// one place is still to be sent to another.
func TestReplayOfRecordsWithoutKeys(t *testing.T) {
	const lanes, records = 3, 100
	cluster := kafkatest.StartFake(t)
	in, out := &topic{cluster, "in"}, &topic{cluster, "out"}
	cluster.CreateTopic(t, in.name, lanes)
	cluster.CreateTopic(t, out.name, lanes)
	cluster.CreateTopic(t, out.deadLetters(), 1)
	cluster.CreateTopic(t, "elsewhere", lanes-1)
	in.fill(t, lanes, records)
	path := writeJob(t, fmt.Sprintf("name: keyless\nsource: %s\nsink: %s\ndead-letters: out.failed\n", in.settings(t, true), out.settings(t, false)))
	command(t, exitOK, "run", path)
	for _, arguments := range [][]string{{"--to", "elsewhere"}, {"--to", "elsewhere"}, nil, {"--to", "in"}} {
		command(t, exitOK, append(append([]string{"dlq", "replay"}, arguments...), path)...)
	}
	elsewhere := make([][]string, lanes-1)
	for lane := range lanes {
		want := recordText(lane, 57)
		if again := kafkatest.Values(cluster.Committed(t, "in", lane))[records:]; !slices.Equal(again, []string{want}) {
			t.Errorf("sent again to partition %d: %q, want %q", lane, again, want)
		}
		elsewhere[lane%(lanes-1)] = append(elsewhere[lane%(lanes-1)], want)
	}
	for id, want := range elsewhere {
		got := kafkatest.Values(cluster.Committed(t, "elsewhere", id))
		if slices.Sort(got); !slices.Equal(got, want) { // letters of different lanes have no order
			t.Errorf("elsewhere, partition %d: %q, want %q", id, got, want)
		}
	}
}

// Records of a topic whose letters are objects go to the topic that is named.
func TestReplayOfObjectsToATopic(t *testing.T) {
	cluster, store := kafkatest.StartFake(t), s3test.Fake(t)
	in, out := &topic{cluster, "in"}, &bucket{store, store.Bucket(t), false}
	in.create(t, 2)
	cluster.CreateTopic(t, "elsewhere", 2)
	in.fill(t, 2, 100)
	path := writeJob(t, fmt.Sprintf("name: objects\nsource: %s\nsink: %s\ndead-letters: %s\n", in.settings(t, true), out.settings(t, false), out.deadLetters()))
	command(t, exitOK, "run", path)
	for range 2 {
		command(t, exitOK, "dlq", "replay", "--to", "elsewhere", path)
	}
	for lane := range 2 {
		want := []string{recordText(lane, 57)}
		if got := kafkatest.Values(cluster.Committed(t, "elsewhere", lane)); !slices.Equal(got, want) {
			t.Errorf("partition %d: %q, want %q", lane, got, want)
		}
	}
}

func TestLettersOfObjects(t *testing.T) {
	store := s3test.Fake(t)
	p := &bucket{store, store.Bucket(t), false}
	p.fill(t, 2, 300)
	path := writeJob(t, fmt.Sprintf("name: letters\nsource: %s\nsink: %s\ndead-letters: %s\n", p.settings(t, true), p.settings(t, false), p.deadLetters()))
	command(t, exitOK, "run", path)
	if listed := textLines(command(t, exitOK, "dlq", "list", path)); len(listed) != 6 {
		t.Errorf("listed: %q", listed)
	}
	command(t, exitUsage, "dlq", "replay", path)
	for range 2 {
		command(t, exitOK, "dlq", "replay", "--to", "s3://"+p.name+"/again/", path)
	}
	var again []string
	for _, key := range store.Keys(t, p.name, "again/") {
		content, _ := store.Get(t, p.name, key)
		again = append(again, textLines(string(content))...)
	}
	if len(again) != 6 || !strings.HasPrefix(again[0], "poison lane") {
		t.Errorf("sent again: %q", again)
	}
}

func TestLettersWithoutAPlace(t *testing.T) {
	path := writeJob(t, "name: x\nsource: {files: {paths: in}}\nsink: {files: {folder: out}}\n")
	if said := command(t, exitUsage, "dlq", "list", path); strings.Contains(said, "panic") {
		t.Error(said)
	}
}
