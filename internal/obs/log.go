// Package obs sets up what a run tells about itself while it goes. Nothing in it is global: whoever logs is given
// its logger.
package obs

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes records of at least the given level to w, as "text" or "json".
// level is one of debug, info, warn and error, in either case.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	options.Level = least
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: want text or json", format)
}
