package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	source "github.com/sluice-mt/sluice/consumer/file"
	"github.com/sluice-mt/sluice/internal/recordio"
)

// steps returns the points between events that a job of that shape passes, in order.
func steps(t *testing.T, s shape, input string) []string {
	t.Helper()
	var passed []string
	c := copyJob{input: input, output: filepath.Join(t.TempDir(), s.output), records: s.records, commitEvery: 20,
		step: func(name string) { passed = append(passed, name) }}
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return passed
}

// A process that is killed between any two events must leave a state from which the next one reaches the same bytes.
func TestAJobThatIsKilledBetweenAnyTwoEventsGivesTheSameBytes(t *testing.T) {
	for _, s := range shapes {
		if !slices.Contains([]string{"plain", "gz", "parquet"}, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			input := s.write(t, t.TempDir(), 2500)
			want := undisturbed(t, s, input)
			passed := steps(t, s, input)
			seen := map[string]int{}
			for i, name := range passed {
				seen[name]++
				if seen[name] > 2 || seen[name] > 1 && s.name != "plain" || testing.Short() && i%5 > 0 {
					continue // a third commit is like the second
				}
				crash := fmt.Sprintf("%s:%d", name, seen[name])
				killAndResume(t, s, input, want, crash)
			}
			t.Logf("%d points", len(passed))
		})
	}
}

// killAndResume kills a process at an event, and lets the next one finish.
func killAndResume(t *testing.T, s shape, input string, want []byte, crash string) {
	t.Helper()
	folder := t.TempDir()
	output := filepath.Join(folder, s.output)
	command, _ := process(input, output, s.records.Format, crash)
	if err := command.Run(); err == nil {
		t.Fatalf("%s: the process was not killed", crash)
	}
	next := copyJob{input: input, output: output, records: s.records}
	err := next.run(context.Background())
	if crash == "checkpoint removed:1" && errors.Is(err, ErrExists) {
		err = nil // it was complete, and nothing is left that could tell
	}
	if err != nil {
		t.Fatalf("killed at %s: %v", crash, err)
	}
	got, err := os.ReadFile(output)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("killed at %s: %d bytes, want %d, or other ones, error %v", crash, len(got), len(want), err)
	}
	expectOnly(t, folder, s.output)
}

// A copying process that is killed while another one holds the lock does not disturb it.
func TestTwoProcessesDoNotWriteOneOutput(t *testing.T) {
	s := shapes[0]
	folder := t.TempDir()
	input := s.write(t, t.TempDir(), 500)
	output := filepath.Join(folder, s.output)
	var others []error
	c := copyJob{input: input, output: output, commitEvery: 2, step: func(name string) {
		if name == "committed" && len(others) < 3 {
			command, messages := process(input, output, recordio.Text, "")
			err := command.Run()
			if err != nil {
				err = errors.New(messages.String())
			}
			others = append(others, err)
		}
	}}
	if err := c.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, err := range others {
		if err == nil || !strings.Contains(err.Error(), "is being written by another process") {
			t.Errorf("another process: %v", err)
		}
	}
	if len(others) == 0 {
		t.Error("no other process was started")
	}
	expectOnly(t, folder, s.output)
}

// A job that begins afresh and is killed at once leaves a state from which another one goes on.
func TestAKillWhileBeginningAfresh(t *testing.T) {
	for _, crash := range []string{"locked:1", "checkpoint written:1", "checkpoint synced:1", "checkpoint renamed:1", "checkpoint written:2"} {
		c, folder := half(t)
		want := undisturbed(t, shapes[0], c.input)
		command, messages := process(c.input, c.output, recordio.Text, crash)
		command.Env = append(command.Env, "TEST_COPY_OVERWRITE=1")
		if err := command.Run(); err == nil || messages.Len() > 0 {
			t.Fatalf("%s: the process was not killed: %s", crash, messages)
		}
		if err := c.run(context.Background()); err != nil {
			t.Errorf("killed at %s: %v", crash, err)
		}
		if got, _ := os.ReadFile(c.output); !bytes.Equal(got, want) {
			t.Errorf("killed at %s: %d bytes, want %d, or other ones", crash, len(got), len(want))
		}
		expectOnly(t, folder, "out.txt")
	}
}

// A job on a pipe goes on if it is given the same bytes again, and only then.
func TestAJobOnAPipeIsResumed(t *testing.T) {
	s := shapes[0]
	data, err := os.ReadFile(s.write(t, t.TempDir(), 3000))
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), s.output)
	pipeJob := func(data []byte) copyJob {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { read.Close() })
		go func() {
			defer write.Close()
			write.Write(data)
		}()
		return copyJob{input: source.Stdin, stdin: read, output: output, commitEvery: 5}
	}
	interrupted(t, pipeJob(data), stopAt("committed", 4))
	other := pipeJob(bytes.ToUpper(data))
	var changed *ChangedError
	if err := other.run(context.Background()); !errors.As(err, &changed) || !strings.Contains(err.Error(), "begins with other bytes") {
		t.Errorf("other bytes: %v", err)
	}
	same := pipeJob(data)
	if err := same.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(output); !bytes.Equal(got, bytes.ToUpper(data)) {
		t.Errorf("%d bytes, want %d, or other ones", len(got), len(data))
	}
}
