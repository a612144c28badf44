package scratch

import (
	"io"
	"os"
	"runtime"
	"testing"
)

func TestAFileIsGoneWithItsProcess(t *testing.T) {
	folder := t.TempDir()
	file, err := Create(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 && runtime.GOOS != "windows" {
		t.Errorf("%v; a killed process would leave %v", err, left)
	}
	if text, err := io.ReadAll(io.NewSectionReader(file, 0, 10)); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v; left %v", err, left)
	}
	if _, err := Create(folder + "/none"); err == nil {
		t.Error("a file in no folder")
	}
}
