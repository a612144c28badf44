package main

import (
	"io"
	"log/slog"
	"strings"

	"github.com/sluice-mt/sluice/internal/obs"
)

// newLogger returns the logger of a command. With quiet it leaves out what is not at least a warning.
func newLogger(w io.Writer, format, level string, quiet bool) (*slog.Logger, error) {
	if quiet && !strings.EqualFold(level, "error") {
		level = "warn"
	}
	logger, err := obs.NewLogger(w, format, level)
	if err != nil {
		return nil, usageError{err}
	}
	return logger, nil
}
