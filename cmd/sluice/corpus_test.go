package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// TestInterruptedCorpusCommands: they end with the code of an interruption, whatever it was, and leave nothing behind.
func TestInterruptedCorpusCommands(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("a signal was received"))
	for _, command := range []*cobra.Command{newAlignCommand(), newCleanCommand(), newShuffleCommand(), newNoiseCommand()} {
		folder := t.TempDir()
		text := filepath.Join(folder, "text.tsv")
		if err := os.WriteFile(text, []byte("a\tb\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		arguments := []string{"--tsv", text, "-o", filepath.Join(folder, "out")}
		if command.Flags().Lookup("tempdir") != nil {
			arguments = append(arguments, "--tempdir", folder)
		}
		command.SetArgs(arguments)
		command.SetOut(io.Discard)
		command.SetErr(io.Discard)
		command.SilenceErrors, command.SilenceUsage = true, true
		if err := command.ExecuteContext(ctx); exitCode(err) != exitInterrupted {
			t.Errorf("%s: %v", command.Name(), err)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
			t.Errorf("%s left %v, %v", command.Name(), left, err)
		}
	}
}
