package emulated

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	device = []string{"-O2"}
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
	return newBuilder(t, s).ofBFloat16().library(sources)
}

// LibraryOfBoth builds a device that has, as a real one does, the kernels for both types.
func LibraryOfBoth(t testing.TB, s Sanitizer, sources ...string) string {
	t.Helper()
	b := newBuilder(t, s)
	objects := append(b.objects(sources), b.device())
	return b.link(append(objects, b.apart(b.ofBFloat16().objects(sources))))
}

// ofBFloat16 lets kernels be compiled for bfloat16.
func (b *builder) ofBFloat16() *builder {
	b.kernel = append(b.kernel, "-DSLUICE_BFLOAT16")
	return b
}

// apart joins objects to one whose functions are its own, though others in the library have the same names.
func (b *builder) apart(objects []string) string {
	b.t.Helper()
	joined := b.make(".o", nil, strings.Join(objects, " "), func(to string) []string {
		return slices.Concat([]string{b.compiler, "-r", "-nostdlib", "-Wl,--force-group-allocation"}, objects, []string{"-o", to})
	})
	return b.make(".o", nil, joined, func(to string) []string { return []string{"objcopy", "--localize-hidden", joined, to} })
}

func (b *builder) library(sources []string) string {
	b.t.Helper()
	return b.link(append(b.objects(sources), b.device()))
}

// objects compiles .cu files.
func (b *builder) objects(sources []string) (objects []string) {
	b.t.Helper()
	for _, source := range sources {
		objects = append(objects, b.kernels(source))
	}
	return objects
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

// prelude is the header that every kernel begins with: what CUDA adds to C++.
func prelude() string { return filepath.Join(deviceFolder(), "prelude.h") }

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
	return b.make(".o", included(b.t, files...), all.String(), func(to string) []string {
		return slices.Concat([]string{b.compiler}, b.own, []string{"-x", "c++", "-c", "-", "-o", to})
	})
}

// kernels compiles a .cu file.
func (b *builder) kernels(source string) string {
	b.t.Helper()
	files, language := included(b.t, prelude(), source), b.language()
	return b.make(".o", files, source, func(to string) []string {
		return slices.Concat([]string{b.compiler}, b.kernel, []string{"-Winvalid-pch", "-include", language, "-c", source, "-o", to})
	})
}

// language returns what -include finds compiled: the compiler looks beside a header for its name with .gch. To read what CUDA adds to C++ takes
// longer than to compile most kernels.
func (b *builder) language() string {
	b.t.Helper()
	compiled := b.make(".h"+precompiled, included(b.t, prelude()), prelude(), func(to string) []string {
		return slices.Concat([]string{b.compiler}, b.kernel, []string{"-x", "c++-header", "-c", prelude(), "-o", to})
	})
	return strings.TrimSuffix(compiled, precompiled)
}

// precompiled is the ending of a header that is compiled.
const precompiled = ".gch"

func (b *builder) link(objects []string) string {
	b.t.Helper()
	return b.make(".so", nil, strings.Join(objects, " "), func(to string) []string {
		return slices.Concat([]string{b.compiler, "-shared", "-pthread"}, b.linking, objects, []string{"-o", to})
	})
}

// make runs a command unless its result is there: results are named by the digest of the flags, the input and the files that it reads.
func (b *builder) make(suffix string, files []string, input string, words func(to string) []string) string {
	b.t.Helper()
	digest := sha256.New()
	fmt.Fprintln(digest, b.version, input, words(""))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			b.t.Fatal(err)
		}
		fmt.Fprintf(digest, "%s %d\n%s", filepath.Base(file), len(text), text)
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
	line := words(to)
	command := exec.Command(line[0], line[1:]...)
	command.Stdin = strings.NewReader(input)
	if output, err := command.CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %v\n%s", command, err, output)
	}
	if err := os.Rename(to, result); err != nil {
		b.t.Fatal(err)
	}
	return result
}

// inclusion is the line that includes a file of ours; those of the system stand in angle brackets.
var inclusion = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)

// included returns files and all that they include, those of the system left out.
func included(t testing.TB, files ...string) []string {
	t.Helper()
	var all []string
	for waiting := slices.Clone(files); len(waiting) > 0; {
		file := waiting[0]
		waiting = waiting[1:]
		if slices.Contains(all, file) {
			continue
		}
		all = append(all, file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range inclusion.FindAllStringSubmatch(string(text), -1) {
			waiting = append(waiting, findHeader(t, found[1], file))
		}
	}
	return all
}

// findHeader looks for what a file includes where the compiler does: beside it, and among the sources of the device.
func findHeader(t testing.TB, name, by string) string {
	t.Helper()
	for _, folder := range []string{filepath.Dir(by), deviceFolder()} {
		if at := filepath.Join(folder, name); isFile(at) {
			return at
		}
	}
	t.Fatalf("%s includes %s, which is neither beside it nor in %s", by, name, deviceFolder())
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
