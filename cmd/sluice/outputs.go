package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	filesource "github.com/sluice-mt/sluice/consumer/file"
	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/wholefile"
	filesink "github.com/sluice-mt/sluice/producer/file"
)

// writeFile writes a file, compressed as its name says, so that it appears under its name when it is complete. A symbolic link stays
// one: the file that it names is replaced. What is not a file (a device, a pipe) is written to, and so is what a descriptor leads to, such as
// /dev/fd/3. What write fails with is returned as it is if it is not about the file: it may be about an input.
func writeFile(path string, write func(io.Writer) error) error {
	if !isPlace(path) {
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
	if err := writeInto(file, path, write); err != nil {
		return errors.Join(err, file.Discard())
	}
	if err := file.Publish(); err != nil {
		return outputError{fmt.Errorf("write %s: %w", path, err)}
	}
	return nil
}

// writeInto writes to an open file, compressed as the name says.
func writeInto(file io.Writer, name string, write func(io.Writer) error) error {
	var failed error
	err := compress.WriteWhole(marked{file}, compress.BySuffix(name), func(w *bufio.Writer) error {
		failed = write(w)
		return failed
	})
	if failed != nil || err == nil {
		return failed
	}
	return outputError{fmt.Errorf("write %s: %w", name, err)}
}

// marked is a writer of which everything that goes wrong is about the output.
type marked struct{ io.Writer }

func (m marked) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	if err != nil {
		err = outputError{err}
	}
	return n, err
}

// isPlace says whether a file can be put at a path, in the place of another if there is one: not where there is something else than a file.
func isPlace(path string) bool {
	info, err := os.Stat(path)
	return (err != nil || info.Mode().IsRegular()) && !filesink.IsDescriptor(path)
}

// writeThrough writes to what is there.
func writeThrough(path string, write func(io.Writer) error) error {
	file, err := filesink.OpenDescriptor(path)
	if err == nil && file == nil {
		file, err = os.OpenFile(path, os.O_WRONLY, 0)
	}
	if err != nil {
		return outputError{err}
	}
	err = writeInto(file, path, write)
	if closing := file.Close(); closing != nil {
		err = errors.Join(err, outputError{fmt.Errorf("write %s: %w", path, closing)})
	}
	return err
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
	case !overwrite && isPlace(path):
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

// checkOutputs refuses outputs of a command that are not free, that two of its outputs would be written to, that it reads, or that cannot
// be written: that is better told before the work than behind it. Empty names stand for what is not written or read, and "-" for standard
// output and input.
func checkOutputs(overwrite bool, outputs, inputs []string) error {
	if err := checkDistinct(overwrite, outputs, inputs); err != nil {
		return err
	}
	for _, path := range outputs {
		if path == "" || path == "-" || !isPlace(path) {
			continue
		}
		target, err := followLinks(path)
		if err != nil {
			return outputError{err}
		}
		file, err := wholefile.Create(target)
		if err == nil {
			err = file.Discard()
		}
		if err != nil {
			return outputError{err}
		}
	}
	return nil
}

// checkDistinct is checkOutputs but for whether they can be written: their folders may still have to be made.
func checkDistinct(overwrite bool, outputs, inputs []string) error {
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
	return filesource.Place(path)
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
