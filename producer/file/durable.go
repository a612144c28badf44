package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// temporary is the name under which a file is written before it gets its own.
func temporary(path string) string { return path + ".tmp" }

// writeWhole replaces a file such that its name always stands for a whole one.
func writeWhole(path string, data []byte, sync bool, step func(string)) error {
	file, err := os.OpenFile(temporary(path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	step("checkpoint written")
	if err == nil && sync {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	step("checkpoint synced")
	if err != nil {
		return errors.Join(err, os.Remove(temporary(path)))
	}
	if err := os.Rename(temporary(path), path); err != nil {
		return err
	}
	step("checkpoint renamed")
	if sync {
		return syncFolder(filepath.Dir(path))
	}
	return nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// explained adds what to do to errors of a full disk.
func explained(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w: what was committed is kept; make room and run the same command again", err)
	default:
		return err
	}
}
