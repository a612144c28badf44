package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// search finds the inputs that paths stand for.
type search struct {
	stdin   *os.File
	exclude []excluded
	single  bool // there is one path only, so that a folder need not be repeated in the output folder
	found   []*input
}

func (s *search) add(ctx context.Context, path string) error {
	if path == Stdin {
		in, err := stdinInput(s.stdin)
		if err == nil {
			s.found = append(s.found, in)
		}
		return err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?[") {
		return s.addPattern(ctx, path)
	}
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(path) // so that .. has a name
	if err != nil {
		return err
	}
	relative := filepath.Base(absolute)
	if info.IsDir() && s.single {
		relative = ""
	}
	return s.addFound(ctx, path, relative, info)
}

func (s *search) addPattern(ctx context.Context, pattern string) error {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("pattern %q: %w", pattern, err)
	}
	if len(matches) == 0 {
		return fmt.Errorf("no file matches %q", pattern)
	}
	base := patternBase(pattern)
	for _, path := range matches {
		relative, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if s.excludes(path, info) {
			continue
		}
		if err := s.addFound(ctx, path, relative, info); err != nil {
			return err
		}
	}
	return nil
}

// patternBase returns the folder before the first part of the pattern that has a wildcard.
func patternBase(pattern string) string {
	base := filepath.Dir(pattern)
	for strings.ContainsAny(base, "*?[") {
		base = filepath.Dir(base)
	}
	return base
}

// addFound adds a file or the files of a folder. In the output folder they lie at relative, or below it.
func (s *search) addFound(ctx context.Context, path, relative string, info fs.FileInfo) error {
	if !info.IsDir() {
		return s.addFile(path, relative, info)
	}
	return filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if at == path {
			return nil
		}
		hidden := strings.HasPrefix(entry.Name(), ".")
		if hidden && entry.IsDir() {
			return fs.SkipDir
		}
		if hidden {
			return nil
		}
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		excluded := s.excludes(at, info)
		if excluded && entry.IsDir() {
			return fs.SkipDir
		}
		if excluded || !info.Mode().IsRegular() {
			return nil
		}
		below, err := filepath.Rel(path, at)
		if err != nil {
			return err
		}
		return s.addFile(at, filepath.Join(relative, below), info)
	})
}

// excluded is what is passed over: a folder under any name, a file under its own. Another name of the file may be an input of its own right.
type excluded struct {
	info  fs.FileInfo
	place string
}

func exclude(paths []string) (list []excluded) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			list = append(list, excluded{info, Place(path)})
		}
	}
	return list
}

func (s *search) excludes(path string, info fs.FileInfo) bool {
	return slices.ContainsFunc(s.exclude, func(other excluded) bool {
		return os.SameFile(info, other.info) && (info.IsDir() || Place(path) == other.place)
	})
}

// Place is the absolute name of a file, which need not exist and may be a link, that does not depend on how its folder is called.
func Place(path string) string {
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

func (s *search) addFile(path, relative string, info fs.FileInfo) error {
	in := &input{path: path, relative: filepath.ToSlash(relative), info: info}
	if info.Mode().IsRegular() {
		in.size = info.Size()
	} else {
		in.pipe = &pipe{}
	}
	s.found = append(s.found, in)
	return nil
}
