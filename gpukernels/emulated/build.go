package emulated

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// A Sanitizer is what watches the kernels.
type Sanitizer string

const (
	Unwatched Sanitizer = ""
	Address   Sanitizer = "address" // bounds, use after free, undefined behaviour
	Thread    Sanitizer = "thread"  // races; slow
)

// flags returns the compiler's flags for kernels, for the device itself, and for linking.
func (s Sanitizer) flags() (kernels, device, link []string) {
	kernels = []string{"-x", "c++", "-O2"} // the last flag for optimisation counts
	device = []string{"-O1"}
	switch s {
	case Address:
		checks := []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"}
		return append(append(kernels, checks...), "-O1"), append(device, checks...), checks
	case Thread:
		// Built-in functions that are expanded in place would go unseen.
		return append(kernels, "-fsanitize=thread", "-fno-builtin"), append(device, "-DEMULATED_TSAN"), []string{"-fsanitize=thread"}
	}
	return kernels, device, nil
}

// Library builds a device with the kernels of some .cu files and returns the path of the library. What was built before is found in
// .cache/emulated below the repository's root.
func Library(t testing.TB, s Sanitizer, sources ...string) string {
	t.Helper()
	return newBuilder(t, s).library(sources)
}

// LibraryOfBFloat16 builds a device with the kernels for numbers that are stored as bfloat16.
func LibraryOfBFloat16(t testing.TB, s Sanitizer, sources ...string) string {
	t.Helper()
	b := newBuilder(t, s)
	b.kernel = append(b.kernel, "-DSLUICE_BFLOAT16")
	return b.library(sources)
}

func (b *builder) library(sources []string) string {
	b.t.Helper()
	objects := []string{b.device()}
	for _, source := range sources {
		objects = append(objects, b.kernels(source))
	}
	return b.link(objects)
}

// A builder compiles for one sanitizer.
type builder struct {
	t                        testing.TB
	compiler, version, cache string
	kernel, own, linking     []string // flags
}

// deviceFolder holds the sources of the device.
func deviceFolder() string {
	return filepath.Join(sharedtest.Root(), "gpukernels", "emulated", "device")
}

// Cache is the folder for what is built.
func Cache() string { return filepath.Join(sharedtest.Root(), ".cache", "emulated") }

// SourceFolder holds the sources of the project's kernels, and the headers that every kernel uses.
func SourceFolder() string { return filepath.Join(sharedtest.Root(), "gpukernels", "src") }

// Sources are the files of all the project's kernels.
func Sources(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(SourceFolder(), "*.cu"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no kernels: %v", err)
	}
	return files
}

func newBuilder(t testing.TB, s Sanitizer) *builder {
	t.Helper()
	b := &builder{t: t, compiler: sharedtest.Program(t, "g++"), cache: Cache()}
	shared := []string{"-std=c++20", "-g1", "-fno-omit-frame-pointer", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra",
		"-Werror", "-Wno-unknown-pragmas", "-DSLUICE_EMULATED", "-I" + deviceFolder()}
	if runtime.GOARCH == "amd64" {
		shared = append(shared, "-march=x86-64-v3")
	}
	b.kernel, b.own, b.linking = s.flags()
	b.kernel, b.own = append(shared[:len(shared):len(shared)], b.kernel...), append(shared[:len(shared):len(shared)], b.own...)
	version, err := exec.Command(b.compiler, "-dumpfullversion").Output()
	if err != nil {
		t.Fatalf("%s: %v", b.compiler, err)
	}
	b.version = string(version)
	if err := os.MkdirAll(b.cache, 0o777); err != nil {
		t.Fatal(err)
	}
	b.prune()
	return b
}

// keep is how long a result stays that nobody uses: every change of a kernel leaves some behind.
const keep = 48 * time.Hour

// prune removes results that have not been used for long.
func (b *builder) prune() {
	files, _ := os.ReadDir(b.cache)
	for _, file := range files {
		info, err := file.Info()
		if err == nil && !file.IsDir() && time.Since(info.ModTime()) > keep {
			os.Remove(filepath.Join(b.cache, file.Name()))
		}
	}
}

// device compiles the device itself: all of its files as one, which is faster.
func (b *builder) device() string {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(deviceFolder(), "*.cpp"))
	if err != nil || len(files) == 0 {
		b.t.Fatalf("no sources of the device: %v", err)
	}
	var all strings.Builder
	for _, file := range files {
		fmt.Fprintf(&all, "#include %q\n", file)
	}
	return b.make(".o", []string{deviceFolder()}, all.String(), func(to string) []string {
		return slices.Concat(b.own, []string{"-x", "c++", "-c", "-", "-o", to})
	})
}

// kernels compiles a .cu file.
func (b *builder) kernels(source string) string {
	b.t.Helper()
	return b.make(".o", []string{deviceFolder(), SourceFolder(), filepath.Dir(source)}, source, func(to string) []string {
		return slices.Concat(b.kernel, []string{"-include", "cuda_language.h", "-c", source, "-o", to})
	})
}

func (b *builder) link(objects []string) string {
	b.t.Helper()
	return b.make(".so", nil, strings.Join(objects, " "), func(to string) []string {
		return slices.Concat([]string{"-shared", "-pthread"}, b.linking, objects, []string{"-o", to})
	})
}

// make runs the compiler unless its result is there: results are named by the digest of the flags, the input and all files of the
// folders that may be included.
func (b *builder) make(suffix string, folders []string, input string, arguments func(to string) []string) string {
	b.t.Helper()
	digest := sha256.New()
	fmt.Fprintln(digest, b.version, input, arguments(""))
	for _, folder := range folders {
		digestFolder(b.t, digest, folder)
	}
	result := filepath.Join(b.cache, fmt.Sprintf("%x%s", digest.Sum(nil)[:16], suffix))
	if err := os.Chtimes(result, time.Time{}, time.Now()); err == nil { // it is there, and in use
		return result
	}
	unfinished, err := os.MkdirTemp(b.cache, "unfinished")
	if err != nil {
		b.t.Fatal(err)
	}
	defer os.RemoveAll(unfinished)
	to := filepath.Join(unfinished, "result"+suffix)
	command := exec.Command(b.compiler, arguments(to)...)
	command.Stdin = strings.NewReader(input)
	if output, err := command.CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %v\n%s", command, err, output)
	}
	if err := os.Rename(to, result); err != nil {
		b.t.Fatal(err)
	}
	return result
}

// digestFolder adds the sources of a folder to a digest.
func digestFolder(t testing.TB, digest interface{ Write([]byte) (int, error) }, folder string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains([]string{".h", ".cpp", ".cu", ".cuh"}, filepath.Ext(file.Name())) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(digest, "%s %d\n%s", file.Name(), len(text), text)
	}
}
