package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrIsRead is returned for an output that is an input as well: it would be gone before it was read, or be fed with its own translation.
var ErrIsRead = errors.New("it cannot be written as well")

// Files lists an output and what lies beside it while it is not complete.
func Files(output string) []string {
	n := namesOf(output)
	return []string{n.final, n.partial, n.checkpoint, temporary(n.checkpoint), n.assembled}
}

// checkUnread refuses the output of a lane, and what lies beside it on the way, if it is an input, whatever name it has there.
func (s *Sink) checkUnread(lane, path string) error {
	if s.config.Reads == nil {
		return nil
	}
	if path == Stdout {
		out, isFile := s.config.Stdout.(*os.File)
		if !isFile {
			return nil
		}
		info, err := out.Stat()
		return s.unread("standard output", info, err)
	}
	paths := Files(path)
	if s.config.DeadLetters != nil {
		letters, err := s.config.DeadLetters(lane)
		if err != nil {
			return err
		}
		paths = append(paths, letters)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err := s.unread(path, info, err); err != nil {
			return err
		}
	}
	return nil
}

// unread is for one file. What cannot be looked at is no file, or what is wrong with it is found when it is opened.
func (s *Sink) unread(path string, info fs.FileInfo, err error) error {
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	switch input := s.config.Reads(info); input {
	case "":
		return nil
	case path:
		return fmt.Errorf("%s is read, so that %w", path, ErrIsRead)
	default:
		return fmt.Errorf("%s is the file that is read as %s, so that %w", path, input, ErrIsRead)
	}
}
