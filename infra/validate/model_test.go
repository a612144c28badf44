package validate

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// A modelStore stands in for a bucket with a model, and for the command aws, which notes what it is asked for.
type modelStore struct {
	folder string // of the objects
	cache  string // the volume
	calls  string // a file
	sum    string // of SHA256SUMS
}

func newModelStore(t *testing.T) *modelStore {
	t.Helper()
	root := t.TempDir()
	s := &modelStore{folder: filepath.Join(root, "bucket"), cache: filepath.Join(root, "cache"), calls: filepath.Join(root, "calls")}
	write := func(mode os.FileMode, content string, name ...string) {
		path := filepath.Join(append([]string{root}, name...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	sums := ""
	for name, content := range map[string]string{"model.npz": "weights", "vocab.spm": "pieces", "lists/lex.bin": "words"} {
		write(0o666, content, "bucket", name)
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(content)), name)
	}
	write(0o666, sums, "bucket", "SHA256SUMS")
	s.sum = fmt.Sprintf("%x", sha256.Sum256([]byte(sums)))
	write(0o777, "#!/bin/sh\necho \"$4\" >>"+s.calls+"\n[ \"$1 $2 $3\" = 's3 cp --no-progress' ] && exec cp \""+s.folder+"/${4#s3://models/ende-tiny/}\" \"$5\"\n", "bin", "aws")
	if err := os.Mkdir(s.cache, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return s
}

// bring runs the init container's command, with the volume elsewhere.
func (s *modelStore) bring(t *testing.T, sum string) error {
	t.Helper()
	deployment := fileDrop(t, sum)
	container := deployment.Spec.Template.Spec.InitContainers[0]
	command := exec.Command(container.Command[0], append(container.Command[1:], strings.ReplaceAll(container.Args[0], "/cache", s.cache))...)
	command.Env = os.Environ()
	for _, variable := range container.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// fileDrop is the deployment of a file drop whose model has a checksum.
func fileDrop(t *testing.T, sum string) *apps.Deployment {
	t.Helper()
	values := valuesOf(t, "file-drop.yaml", "file-drop-s3.yml")
	model := chartutil.Values(values["model"].(map[string]any))
	model["sha256"] = sum
	text, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return find[apps.Deployment](t, decodeManifests(t, "file-drop.yaml", []byte(text)))
}

// requests are how often the store was asked.
func (s *modelStore) requests() int {
	content, _ := os.ReadFile(s.calls)
	return strings.Count(string(content), "\n")
}

// left lists what is in the cache.
func (s *modelStore) left(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestModelIsDownloadedOnceAndChecked(t *testing.T) {
	s := newModelStore(t)
	if err := s.bring(t, s.sum); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(s.cache, s.sum, "lists", "lex.bin")); err != nil || string(content) != "words" || s.requests() != 4 {
		t.Errorf("%q after %d requests, %v", content, s.requests(), err)
	}
	if err := s.bring(t, s.sum); err != nil || s.requests() != 4 {
		t.Errorf("the second pod asks again: %d requests, %v", s.requests(), err)
	}
	if left := s.left(t); len(left) != 1 {
		t.Errorf("the cache holds %q", left)
	}
}

func TestWrongModelIsRefused(t *testing.T) {
	s := newModelStore(t)
	expectError(t, s.bring(t, strings.Repeat("0", 64)), "SHA256SUMS: FAILED")
	if s.requests() != 1 {
		t.Errorf("%d requests, although the list is not the one that is wanted", s.requests())
	}
	if err := os.WriteFile(filepath.Join(s.folder, "model.npz"), []byte("other"), 0o666); err != nil {
		t.Fatal(err)
	}
	expectError(t, s.bring(t, s.sum), "model.npz: FAILED")
	if left := s.left(t); len(left) != 0 {
		t.Errorf("the cache holds %q", left)
	}
}

// Pods that begin at the same time each bring it, and one of them puts it in its place.
func TestModelIsBroughtBySeveral(t *testing.T) {
	s := newModelStore(t)
	done := make(chan error)
	for range 4 {
		go func() { done <- s.bring(t, s.sum) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if left := s.left(t); len(left) != 1 || left[0] != s.sum {
		t.Errorf("the cache holds %q", left)
	}
}

// The worker sees the folder of its model alone, and cannot write it.
func TestWorkerMountsItsModel(t *testing.T) {
	spec := fileDrop(t, strings.Repeat("a", 64)).Spec.Template.Spec
	var volume *core.Volume
	for i := range spec.Volumes {
		if spec.Volumes[i].Name == "model" {
			volume = &spec.Volumes[i]
		}
	}
	if volume == nil || volume.PersistentVolumeClaim == nil || volume.PersistentVolumeClaim.ClaimName != "models" {
		t.Fatalf("the cache is %+v", volume)
	}
	for _, mount := range spec.Containers[0].VolumeMounts {
		if mount.Name == "model" && (mount.MountPath != "/model" || mount.SubPath != strings.Repeat("a", 64) || !mount.ReadOnly) {
			t.Errorf("%+v", mount)
		}
	}
}
