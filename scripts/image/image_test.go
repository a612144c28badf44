package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const dockerfile = `
FROM golang AS build
RUN ["go", "build"]

FROM scratch AS base
COPY --from=build /out/ /
LABEL a="one two" \
      b=three
USER 65532:65532
ENV MODEL=/model LISTEN=:9090
EXPOSE 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --retries=3 CMD ["/usr/bin/healthcheck"]
ENTRYPOINT ["/usr/bin/sluice"]
CMD ["--help"]

FROM base
`

func writeFile(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// build makes an image of a program and a folder, and returns the tar file.
func build(t *testing.T) []byte {
	t.Helper()
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	writeFile(t, at("Dockerfile"), dockerfile, 0o600)
	writeFile(t, at("sluice"), "program", 0o755)
	writeFile(t, at("model/model.npz"), "weights", 0o600)
	writeFile(t, at("model/deep/vocab.spm"), "pieces", 0o600)
	pairs := []string{at("model") + "=/model", at("sluice") + "=/usr/bin/sluice"}
	if err := makeImage(at("image.tar"), "sluice:1.0", "arm64", at("Dockerfile"), pairs); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(at("image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func untar(t *testing.T, content []byte) (files map[string][]byte, headers []*tar.Header) {
	t.Helper()
	files = map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return files, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, header)
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

// get returns what a descriptor points to, and checks that it is that.
func get(t *testing.T, files map[string][]byte, d descriptor) []byte {
	t.Helper()
	data, ok := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	sum := sha256.Sum256(data)
	if !ok || len(data) != d.Size || d.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Fatalf("%s: %d bytes where %d are described", d.Digest, len(data), d.Size)
	}
	return data
}

func decode[T any](t *testing.T, text []byte) (value T) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestImage(t *testing.T) {
	files, _ := untar(t, build(t))
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", files["oci-layout"])
	}
	top := decode[index](t, files["index.json"])
	content := decode[manifest](t, get(t, files, top.Manifests[0]))
	config := decode[configuration](t, get(t, files, content.Config))
	if config.Architecture != "arm64" || config.OS != "linux" {
		t.Errorf("the platform is %s/%s", config.OS, config.Architecture)
	}
	s := config.Config
	if s.User != "65532:65532" || !slices.Equal(s.Env, []string{"LISTEN=:9090", "MODEL=/model"}) || s.Entrypoint[0] != "/usr/bin/sluice" ||
		s.Labels["a"] != "one two" || s.Labels["b"] != "three" || s.StopSignal != "SIGTERM" || s.Healthcheck.Retries != 3 ||
		!slices.Equal(s.Healthcheck.Test, []string{"CMD", "/usr/bin/healthcheck"}) {
		t.Errorf("settings are %+v", s)
	}
	names := map[string]int64{}
	for i, described := range content.Layers {
		reader, err := gzip.NewReader(bytes.NewReader(get(t, files, described)))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if newBlob(plain).digest != config.RootFS.DiffIDs[i] {
			t.Errorf("layer %d is not what the configuration names", i)
		}
		_, headers := untar(t, plain)
		for _, header := range headers {
			names[header.Name] = header.Mode
			if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 {
				t.Errorf("%s has owner %d:%d and time %v", header.Name, header.Uid, header.Gid, header.ModTime)
			}
		}
	}
	for name, mode := range map[string]int64{"usr/": 0o755, "usr/bin/sluice": 0o755, "model/": 0o755, "model/model.npz": 0o644, "model/deep/vocab.spm": 0o644} {
		if names[name] != mode {
			t.Errorf("%s has the mode %o, want %o", name, names[name], mode)
		}
	}
}

func TestSameFilesGiveSameBytes(t *testing.T) {
	if !bytes.Equal(build(t), build(t)) {
		t.Error("two images of the same files differ")
	}
}

func TestParseStageRefuses(t *testing.T) {
	for _, text := range []string{
		"", "FROM alpine AS base\n", "FROM scratch AS base\nVOLUME /data\n", "FROM scratch AS base\nENV A=\"b\n",
		"FROM scratch AS base\nHEALTHCHECK NONE\n", "FROM scratch AS base\nENTRYPOINT sluice\n",
		"FROM scratch AS base\nHEALTHCHECK --pause=1s CMD [\"x\"]\n",
	} {
		if s, err := parseStage(text, "base"); err == nil {
			t.Errorf("%q gives %+v", text, s)
		}
	}
}

// The Dockerfile of the repository has to be one that is understood here.
func TestRepositorysDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseStage(string(text), "base")
	if err != nil {
		t.Fatal(err)
	}
	if user, _, _ := strings.Cut(s.User, ":"); user == "" || user == "0" || strings.Trim(user, "0123456789") != "" {
		t.Errorf("the user is %q; Kubernetes can only tell from a number that it is not root", s.User)
	}
	if s.Healthcheck == nil || len(s.Entrypoint) != 1 {
		t.Errorf("settings are %+v", s)
	}
}
