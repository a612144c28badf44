package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func content(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry.Name()+"="+string(data))
	}
	return strings.Join(all, " ")
}

// begin creates a file in both ways that there are, and writes to it.
func begin(t *testing.T, path string, named bool) *File {
	t.Helper()
	f, err := Create(path)
	if named && err == nil && f.temporary == "" {
		err = f.Discard()
		f = &File{path: path, temporary: temporaryName(path)}
		if err == nil {
			f.File, err = os.Create(f.temporary)
		}
	}
	if err == nil {
		_, err = f.WriteString("new")
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFileIsThereWholeOrNotAtAll(t *testing.T) {
	for _, named := range []bool{false, true} {
		folder := t.TempDir()
		path := filepath.Join(folder, "file")
		if err := begin(t, path, named).Discard(); err != nil || content(t, folder) != "" {
			t.Errorf("discarded: %v, %s", err, content(t, folder))
		}
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		f := begin(t, path, named)
		if data, err := os.ReadFile(path); err != nil || string(data) != "old" {
			t.Errorf("while it is written: %v, %s", err, data)
		}
		if now := content(t, folder); now != "file=old" && !named && runtime.GOOS == "linux" && f.temporary == "" {
			t.Errorf("a killed process would leave %s", now)
		}
		if err := f.Publish(); err != nil || content(t, folder) != "file=new" {
			t.Errorf("published: %v, %s", err, content(t, folder))
		}
		f = begin(t, path, named)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := f.Publish(); err == nil {
			t.Error("published in the place of a folder")
		}
		if entries, _ := os.ReadDir(folder); len(entries) != 1 {
			t.Errorf("left behind: %v", entries)
		}
	}
}

func TestAFileThatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "file")
	_, err := Create(path)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path+":") {
		t.Errorf("%v", err)
	}
}

// TestTheMaskOfTheProcessHolds compares a file with one that was created as files are.
func TestTheMaskOfTheProcessHolds(t *testing.T) {
	folder := t.TempDir()
	usual, err := os.OpenFile(filepath.Join(folder, "usual"), os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer usual.Close()
	want, err := usual.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := begin(t, filepath.Join(folder, "file"), false).Publish(); err != nil {
		t.Fatal(err)
	}
	got, err := os.Stat(filepath.Join(folder, "file"))
	if err != nil || got.Mode() != want.Mode() {
		t.Errorf("%v: mode %v, want %v", err, got.Mode(), want.Mode())
	}
}
