package file

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAFullDiskCanBeResumed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	defer syscall.Unmount(folder, 0)
	for _, s := range shapes[:3] {
		t.Run(s.name, func(t *testing.T) {
			remount(t, folder, "size=256k")
			input := s.write(t, t.TempDir(), 20000)
			want := undisturbed(t, s, input)
			c := copyJob{input: input, output: filepath.Join(folder, s.output), commitEvery: 10}
			for range 2 {
				err := c.run(context.Background())
				if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") {
					t.Fatalf("error %v", err)
				}
			}
			remount(t, folder, "size=64m")
			if err := c.run(context.Background()); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(c.output)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, want %d, or other ones, error %v", len(got), len(want), err)
			}
			expectOnly(t, folder, s.output)
			os.Remove(c.output)
		})
	}
}

func remount(t *testing.T, folder, size string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, size); err != nil {
		t.Fatal(err)
	}
}
