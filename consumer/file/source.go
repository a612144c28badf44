// Package file reads records from files, folders and standard input.
//
// Every input is a lane, or all of them are joined into one. Compressed inputs are inflated, whatever they are
// called. A lane continues at any position it has given: in a plain file by seeking, otherwise by reading again
// what comes before.
package file

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/recordio"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Config says what is read, and how.
type Config struct {
	// Paths are files, folders, patterns as of filepath.Match, and Stdin. A folder stands for the regular files in
	// it and in the folders below, in lexical order, except those whose name begins with a dot. Links to files are
	// followed, links to folders are not. None at all stands for Stdin.
	Paths []string

	// Exclude are folders that are not entered, and files that are passed over, where a folder or a pattern would have them read,
	// such as those that the output is written to.
	Exclude []string

	// Join makes one lane of all inputs, in the order in which they are given.
	Join bool

	// Beside makes one lane of all inputs, of which a line each is read at a time: the sources of one sentence. The text of a
	// record holds them separated by tabs. The inputs must be text and have equally many lines.
	Beside bool

	// Records says how records lie in the inputs.
	Records recordio.Options

	// Stdin is read for the path Stdin; nil means os.Stdin.
	Stdin *os.File
}

// A Source is a consumer.Source of files.
type Source struct {
	config Config
	inputs []*input
	lanes  []*lane
	byName map[string]*lane
	bySize map[int64][]*input // regular files, by their size before anything was read
	next   int
}

// New returns a Source. Connect checks the configuration and finds the files.
func New(config Config) *Source {
	if len(config.Paths) == 0 {
		config.Paths = []string{Stdin}
	}
	if config.Stdin == nil {
		config.Stdin = os.Stdin
	}
	return &Source{config: config}
}

// Connect finds the files. It does not read them yet.
func (s *Source) Connect(ctx context.Context) error {
	if err := s.config.Records.Check(); err != nil {
		return err
	}
	if s.config.Beside && s.config.Records.Format != recordio.Text {
		return errBeside
	}
	search := search{stdin: s.config.Stdin, exclude: exclude(s.config.Exclude), single: len(s.config.Paths) == 1}
	for _, path := range s.config.Paths {
		if err := search.add(ctx, path); err != nil {
			return err
		}
	}
	s.inputs = search.found
	s.bySize = map[int64][]*input{}
	for _, in := range s.inputs {
		if in.info.Mode().IsRegular() {
			s.bySize[in.info.Size()] = append(s.bySize[in.info.Size()], in)
		}
	}
	switch {
	case s.config.Beside:
		s.lanes = []*lane{newLane(joinedName(s.inputs), s.inputs, s.config.Records)}
		s.lanes[0].beside = true
	case s.config.Join:
		s.lanes = []*lane{newLane(joinedName(s.inputs), s.inputs, s.config.Records)}
	default:
		if err := s.divide(); err != nil {
			return err
		}
	}
	s.byName = make(map[string]*lane, len(s.lanes))
	for _, lane := range s.lanes {
		s.byName[lane.name] = lane
	}
	return nil
}

// divide makes every input a lane.
func (s *Source) divide() error {
	byRelative := map[string]string{}
	for _, in := range s.inputs {
		if other, taken := byRelative[in.relative]; taken {
			return fmt.Errorf("%s and %s would have the same name in the output folder, %s: translate them one at a time", other, in.path, in.relative)
		}
		byRelative[in.relative] = in.path
		s.lanes = append(s.lanes, newLane(in.path, []*input{in}, s.config.Records))
	}
	return nil
}

func joinedName(inputs []*input) string {
	switch len(inputs) {
	case 0:
		return "no files"
	case 1:
		return inputs[0].path
	default:
		return fmt.Sprintf("%s and %d more", inputs[0].path, len(inputs)-1)
	}
}

// Next returns the next lane, or consumer.ErrEndOfInput.
func (s *Source) Next(ctx context.Context) (consumer.Lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.next == len(s.lanes) {
		return nil, consumer.ErrEndOfInput
	}
	s.next++
	return s.lanes[s.next-1], nil
}

// Close releases nothing: lanes are closed by whoever took them.
func (s *Source) Close(context.Context) error { return nil }

// Lanes returns how many lanes there are.
func (s *Source) Lanes() int { return len(s.lanes) }

// Progress returns how many bytes of all inputs have been read, before decompression, and how many there are, 0 if
// that is not known. Lanes that were closed without being started count as read: their output was complete already.
func (s *Source) Progress() (done, total int64) {
	for _, lane := range s.lanes {
		part, _ := lane.Progress()
		done += part
	}
	return done, totalSize(s.inputs)
}

// Relative returns the path that the lane's output has in an output folder: the path of its first input below the
// folder that was given, with that folder's name before it if several paths were given; or below the part of the
// pattern before the first folder that is matched; or the file's name alone.
func (s *Source) Relative(lane string) (string, error) {
	l, ok := s.byName[lane]
	if !ok || len(l.inputs) == 0 {
		return "", fmt.Errorf("there is no input %s", lane)
	}
	return filepath.FromSlash(l.inputs[0].relative), nil
}

// Reads returns the path of the input that a regular file is, under whatever name, and "" if it is none.
func (s *Source) Reads(file fs.FileInfo) string {
	for _, in := range s.bySize[file.Size()] {
		if os.SameFile(file, in.info) {
			return in.path
		}
	}
	return ""
}

func totalSize(inputs []*input) int64 {
	var total int64
	for _, in := range inputs {
		if in.pipe != nil {
			return 0
		}
		total += in.size
	}
	return total
}
