//go:build unix

package file

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/recordio"
)

// TestAPipeNobodyReadsIsGivenUp opens a named pipe, which waits for a reader that never comes.
func TestAPipeNobodyReadsIsGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	sink := New(Config{Path: func(string) (string, error) { return path, nil }, Encoder: recordio.NewTextEncoder()})
	for _, wait := range append(make([]time.Duration, 20), 20*time.Millisecond) { // what gave one up does not let in the next
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		done := make(chan error, 1)
		go func() {
			_, _, err := sink.Open(ctx, "lane")
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v", wait, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("after %v it is still waiting", wait)
		}
		cancel()
	}
}
