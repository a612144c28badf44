package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/wholefile"
)

// writeFile writes a file, compressed as its name says, so that it appears under its name when it is complete. A symbolic link stays
// one: the file that it names is replaced. What is not a file (a device, a pipe) is written to.
func writeFile(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return writeThrough(path, write)
	}
	target, err := followLinks(path)
	if err != nil {
		return outputError{err}
	}
	file, err := wholefile.Create(target)
	if err != nil {
		return outputError{err}
	}
	err = compress.WriteWhole(file, compress.BySuffix(path), func(w *bufio.Writer) error { return write(w) })
	if err != nil {
		err = errors.Join(err, file.Discard())
	} else {
		err = file.Publish()
	}
	if err != nil {
		return outputError{fmt.Errorf("write %s: %w", path, err)}
	}
	return nil
}

// writeThrough writes to what is there.
func writeThrough(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return outputError{err}
	}
	err = compress.WriteWhole(file, compress.BySuffix(path), func(w *bufio.Writer) error { return write(w) })
	if err = errors.Join(err, file.Close()); err != nil {
		return outputError{fmt.Errorf("write %s: %w", path, err)}
	}
	return nil
}

// followLinks returns the name of the file, which need not exist, that a path leads to through symbolic links.
func followLinks(path string) (string, error) {
	const mostLinks = 40 // as Linux has it
	for range mostLinks {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, nil // what is wrong with it is found when it is opened
		}
		next, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	return "", fmt.Errorf("%s: too many symbolic links", path)
}

// fileOf returns the name of the file that a path leads to, for outputs that can only be files.
func fileOf(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", outputError{fmt.Errorf("%s is a device or a pipe, and this is written to files alone", path)}
	}
	target, err := followLinks(path)
	if err != nil {
		return "", outputError{err}
	}
	return target, nil
}

// checkFree refuses to write where something is already, unless it may be replaced.
func checkFree(path string, overwrite bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return outputError{err}
	case info.IsDir():
		return outputError{fmt.Errorf("%s is a folder", path)}
	case !overwrite && info.Mode().IsRegular():
		return outputError{fmt.Errorf("%s exists already: give --overwrite to replace it", path)}
	}
	return nil
}

// probeFolder finds out whether files can be made in a folder: it makes one, and removes it.
func probeFolder(path string) error {
	file, err := os.CreateTemp(path, ".sluice-probe-*")
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// checkOutputs refuses outputs of a command that are not free, that two of its outputs would be written to, or that it reads. Empty names
// stand for what is not written or read, and "-" for standard output and input.
func checkOutputs(overwrite bool, outputs, inputs []string) error {
	for i, path := range outputs {
		if path == "" {
			continue
		}
		for _, other := range outputs[:i] {
			if sameOutput(path, other) {
				return usageErrorf("two outputs cannot both be written to %s", outputName(path))
			}
		}
		if path == "-" {
			continue
		}
		for _, input := range inputs {
			if input != "-" && sameOutput(path, input) {
				return usageErrorf("%s is read, so it cannot be written as well", path)
			}
		}
		if err := checkFree(path, overwrite); err != nil {
			return err
		}
	}
	return nil
}

// sameOutput says whether two names are those of one file, which need not exist. Devices may be written to twice.
func sameOutput(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	if a == "-" || b == "-" {
		return a == b
	}
	first, err := os.Stat(a)
	if err == nil && !first.Mode().IsRegular() {
		return false
	}
	if second, secondErr := os.Stat(b); err == nil && secondErr == nil {
		return os.SameFile(first, second)
	}
	return placeOf(a) == placeOf(b)
}

// placeOf is the absolute name of what a path leads to.
func placeOf(path string) string {
	if target, err := followLinks(path); err == nil {
		path = target
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

// below says whether a file, which need not exist, lies in a folder or in one of those in it.
func below(path, folder string) bool {
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() {
		return false
	}
	relative, err := filepath.Rel(placeOf(filepath.Join(folder, ".")), placeOf(path))
	return err == nil && filepath.IsLocal(relative)
}

func outputName(path string) string {
	if path == "-" {
		return "standard output"
	}
	return path
}
