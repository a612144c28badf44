package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-mt/sluice/producer"
)

// ErrExists is returned for an output that is there already and was not made by the same job.
var ErrExists = errors.New("the output exists already")

// ErrNotContinued is returned for an output that was begun, and of which it cannot be known how far it came.
var ErrNotContinued = errors.New("it cannot be continued")

// open locks the output and finds out where it stands.
func (w *writer) open() error {
	if err := os.MkdirAll(filepath.Dir(w.names.final), 0o777); err != nil {
		return err
	}
	created, err := w.lock()
	if err != nil {
		return err
	}
	w.sink.step("locked")
	if err = w.resume(); err == nil {
		err = w.start()
	}
	if err != nil {
		if created {
			err = errors.Join(err, remove(w.names.partial))
		}
		w.file.Close()
		if w.letters != nil {
			err = errors.Join(err, w.letters.close())
		}
	}
	return err
}

// lock opens the partial file, or creates it, and takes it for this process. Another process may rename it to the
// final name at any time before it is locked, so that what was opened is not what has the name any more.
func (w *writer) lock() (created bool, err error) {
	for {
		file, err := os.OpenFile(w.names.partial, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		created = err == nil
		if errors.Is(err, fs.ErrExist) {
			file, err = openPartial(w.names.partial)
			if errors.Is(err, fs.ErrNotExist) && exists(filepath.Dir(w.names.partial)) {
				continue
			}
		}
		if err != nil {
			return false, err
		}
		if err := lock(file); err != nil {
			file.Close()
			if errors.Is(err, errLocked) {
				return false, fmt.Errorf("%s is being written by another process: %w", w.names.final, producer.ErrFenced)
			}
			return false, &fs.PathError{Op: "lock", Path: w.names.partial, Err: err}
		}
		opened, err := file.Stat()
		named, statErr := os.Stat(w.names.partial)
		if err == nil && statErr == nil && os.SameFile(opened, named) {
			w.file = file
			return created, nil
		}
		file.Close()
	}
}

// openPartial opens a partial file that was begun. Links, which lead to what is not ours, and whatever else has the name are refused.
func openPartial(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file that was begun here, but %s: remove it", path, kindOf(info.Mode()))
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a device or a pipe"
}

// resume decides, from what is there, whether the output is begun, continued, complete or refused.
func (w *writer) resume() error {
	if w.sink.config.Overwrite {
		return w.begin(true)
	}
	saved, began, err := loadCheckpoint(w.names.checkpoint)
	if err != nil {
		return err
	}
	partial, err := w.file.Stat()
	if err != nil {
		return err
	}
	final, err := os.Stat(w.names.final)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, linkErr := os.Lstat(w.names.final); err != nil && linkErr == nil {
		return fmt.Errorf("%s: %w, as a symbolic link to a file that is not there: remove it, or overwrite it", w.names.final, ErrExists)
	}
	switch {
	case saved != nil && final != nil && saved.Inode != 0 && inode(final) == saved.Inode && final.Size() >= saved.Length:
		return w.completed(saved)
	case saved != nil && final != nil && !saved.Replaces:
		return fmt.Errorf("%s: %w, though %s says that it is still to be written: remove one of them, or overwrite it", w.names.final, ErrExists, w.names.checkpoint)
	case saved != nil:
		return w.continued(saved, partial.Size())
	case began && final == nil:
		return w.begin(false)
	case partial.Size() > 0:
		return fmt.Errorf("%s has data but no checkpoint, so that %w: remove it, or overwrite it", w.names.partial, ErrNotContinued)
	case final != nil:
		return w.passOver(final)
	default:
		return w.begin(false)
	}
}

// begin starts with nothing. The first checkpoint says that the partial file is ours before there is data in it, and
// that nothing of it counts before start empties it.
func (w *writer) begin(replaces bool) error {
	info, err := w.file.Stat()
	if err != nil {
		return err
	}
	w.saved = checkpoint{Version: checkpointVersion, Replaces: replaces, Inode: inode(info), MadeWith: w.sink.config.MadeWith}
	if w.sink.config.Assemble != nil {
		w.saved.Inode = 0
	}
	if w.saved.Input, err = w.sink.identity(w.lane); err != nil {
		return err
	}
	w.fresh = true
	return w.saved.save(w.names.checkpoint, false, w.sink.step)
}

// continued goes on behind what was committed.
func (w *writer) continued(saved *checkpoint, length int64) error {
	if err := w.sink.changes(w.lane, w.names.final, saved.Input, saved.MadeWith); err != nil {
		return err
	}
	if length < saved.Length {
		return fmt.Errorf("%s has %d bytes, and %s says that it had %d, so that %w: restore it, or overwrite it", w.names.partial, length, w.names.checkpoint, saved.Length, ErrNotContinued)
	}
	w.saved = *saved
	if w.sink.config.Assemble == nil {
		info, err := w.file.Stat()
		if err != nil {
			return err
		}
		w.saved.Inode = inode(info) // the files may have been copied to another place meanwhile
	}
	return nil
}

// completed tidies up after a process that ended between renaming the output and removing the checkpoint.
func (w *writer) completed(saved *checkpoint) error {
	if err := w.sink.changes(w.lane, w.names.final, saved.Input, saved.MadeWith); err != nil {
		return err
	}
	if err := remove(w.names.partial); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	return producer.ErrDone
}

// passOver is for a complete output with nothing beside it.
func (w *writer) passOver(final fs.FileInfo) error {
	entry, ok := w.sink.ledger.find(w.names.final)
	if !ok || entry.Size != final.Size() { // another process may have completed it meanwhile
		if err := w.sink.ledger.read(); err != nil {
			return err
		}
		entry, ok = w.sink.ledger.find(w.names.final)
	}
	if !ok || entry.Size != final.Size() {
		return fmt.Errorf("%s: %w: overwrite it to begin afresh", w.names.final, ErrExists)
	}
	if err := w.sink.changes(w.lane, w.names.final, entry.Input, entry.MadeWith); err != nil {
		return err
	}
	return producer.ErrDone
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// remove removes a file that may be gone already.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// renameIfFree renames a file unless the name is taken. Someone may take it in between.
func renameIfFree(from, to string) error {
	if exists(to) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}
