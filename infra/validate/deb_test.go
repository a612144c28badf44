package validate

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// debianPackage makes the package that the configuration describes, of a program that is handed in, by the library that GoReleaser uses.
func debianPackage(t *testing.T, program string, made time.Time) []byte {
	t.Helper()
	described := loadReleases(t).NFPMs[0]
	var contents files.Contents
	for _, content := range described.Contents {
		if content.FileInfo.MTime != "{{ .CommitDate }}" {
			t.Errorf("%s has a time of its own", content.Source)
		}
		contents = append(contents, &files.Content{
			Source: file(content.Source), Destination: content.Destination, Type: content.Type,
			FileInfo: &files.ContentFileInfo{Mode: content.FileInfo.Mode, MTime: made},
		})
	}
	contents = append(contents, &files.Content{
		Source: program, Destination: described.Bindir + "/sluice", FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: made},
	})
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: described.PackageName, Arch: "amd64", Platform: "linux", Version: "1.2.3", Section: described.Section, Maintainer: described.Maintainer,
		Description: described.Description, Vendor: described.Vendor, Homepage: described.Homepage, License: described.License, MTime: made,
		Overridables: nfpm.Overridables{Contents: contents, Recommends: described.Recommends},
	})
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := deb.Default.Package(info, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// members takes an archive of ar apart.
func members(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	rest, ok := bytes.CutPrefix(archive, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("no Debian package")
	}
	found := map[string][]byte{}
	for len(rest) >= 60 {
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || 60+size > len(rest) {
			t.Fatal("a member is cut off", err)
		}
		found[strings.TrimRight(string(rest[:16]), "/ ")] = rest[60 : 60+size]
		rest = rest[min(len(rest), 60+size+size%2):]
	}
	return found
}

// list returns the contents of a compressed archive of tar by their names.
func list(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for reader := tar.NewReader(unpacked); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(header.Name, "./")] = string(content)
	}
}

func TestDebianPackage(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sluice")
	if err := os.WriteFile(program, []byte("the program"), 0o755); err != nil {
		t.Fatal(err)
	}
	made := time.Unix(1_750_000_000, 0)
	one := debianPackage(t, program, made)
	if err := os.Chtimes(program, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, debianPackage(t, program, made)) {
		t.Error("two packages of the same commit differ")
	}
	parts := members(t, one)
	control := list(t, parts["control.tar.gz"])["control"]
	for _, line := range []string{"Package: sluice\n", "Architecture: amd64\n", "Version: 1.2.3\n", "Recommends: ca-certificates\n", "Maintainer: "} {
		if !strings.Contains(control, line) {
			t.Errorf("%q is missing in\n%s", line, control)
		}
	}
	data := list(t, parts["data.tar.gz"])
	if data["usr/bin/sluice"] != "the program" {
		t.Error("the package does not hold the program")
	}
	for _, name := range []string{"usr/share/doc/sluice/copyright", "usr/share/sluice/job.schema.json", "usr/share/doc/sluice/examples/kafka.yml"} {
		if data[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}
