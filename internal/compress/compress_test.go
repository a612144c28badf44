package compress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

var compressed = []Format{Gzip, Zstd, Bzip2, XZ}

// lines returns n lines of words, the same for the same seed.
func lines(n int, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for range n {
		for range random.IntN(20) {
			fmt.Fprintf(&b, "w%d ", random.IntN(5000))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// pack compresses data with a cut after every line, and returns the file and its length after each frame.
func pack(t testing.TB, data []byte, format Format) (file []byte, ends map[int]int) {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, format)
	if err != nil {
		t.Fatal(err)
	}
	ends = map[int]int{0: 0}
	at := 0
	for line := range bytes.Lines(data) {
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
		at += len(line)
		complete, err := w.Cut()
		if err != nil {
			t.Fatal(err)
		}
		if complete {
			ends[at] = out.Len()
		}
	}
	if err := w.Finish(true); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), ends
}

func inflate(file []byte) ([]byte, error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, format := range append(compressed, Plain) {
		for _, n := range []int{0, 1, 10, 20000} {
			data := lines(n, 1)
			file, ends := pack(t, data, format)
			got, err := inflate(file)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s, %d lines: read %d bytes of %d, error %v", format, n, len(got), len(data), err)
			}
			if n == 20000 && format != Plain && len(ends) < 3 {
				t.Errorf("%s: %d frames in %d bytes", format, len(ends), len(data))
			}
		}
	}
}

func TestContinuingAfterAFrameGivesTheSameBytes(t *testing.T) {
	data := lines(20000, 2)
	for _, format := range compressed {
		whole, ends := pack(t, data, format)
		for plain, length := range ends {
			rest, _ := pack(t, data[plain:], format)
			if plain == len(data) {
				continue
			}
			if !bytes.Equal(append(whole[:length:length], rest...), whole) {
				t.Errorf("%s: continuing at byte %d gives another file", format, plain)
			}
		}
	}
}

func TestOtherProgramsReadAndWriteTheSame(t *testing.T) {
	data := lines(20000, 3)
	for format, program := range map[Format]string{Gzip: "gzip", Zstd: "zstd", Bzip2: "bzip2", XZ: "xz"} {
		t.Run(program, func(t *testing.T) {
			sharedtest.Program(t, program)
			file, _ := pack(t, data, format)
			if got := pipe(t, file, program, "-dc"); !bytes.Equal(got, data) {
				t.Errorf("%s -d reads %d bytes of %d", program, len(got), len(data))
			}
			half := len(data) / 2
			theirs := append(pipe(t, data[:half], program, "-c"), pipe(t, data[half:], program, "-c")...)
			got, err := inflate(theirs)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("two files of %s, one after the other: read %d bytes of %d, error %v", program, len(got), len(data), err)
			}
			if empty, err := inflate(pipe(t, nil, program, "-c")); err != nil || len(empty) != 0 {
				t.Errorf("empty file of %s: %d bytes, error %v", program, len(empty), err)
			}
		})
	}
}

func pipe(t *testing.T, data []byte, program string, arguments ...string) []byte {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Stdin = bytes.NewReader(data)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return out
}

func TestAFileCutShortIsAnError(t *testing.T) {
	data := lines(25, 4)
	for _, format := range compressed {
		file, _ := pack(t, data, format)
		for length := 1; length < len(file); length++ {
			got, err := inflate(file[:length])
			if kind, more := Detect(file[:length]); kind == Plain && more {
				continue // too short to be told from text
			}
			var damage *Error
			if !errors.As(err, &damage) {
				t.Fatalf("%s, %d of %d bytes: error %v", format, length, len(file), err)
			}
			if damage.Offset > int64(length) || damage.Format != format {
				t.Fatalf("%s, %d bytes: %v", format, length, damage)
			}
			if !bytes.HasPrefix(data, got) {
				t.Fatalf("%s, %d bytes: what was read before the error is not what was written", format, length)
			}
		}
	}
}

func TestAFlippedBitIsAnErrorOrHarmless(t *testing.T) {
	data := lines(25, 5)
	for _, format := range compressed {
		file, _ := pack(t, data, format)
		for i := range file {
			bad := bytes.Clone(file)
			bad[i] ^= 1 << (i % 8)
			got, err := inflate(bad)
			if kind, _ := Detect(bad); err == nil && kind == format && !bytes.Equal(got, data) {
				t.Errorf("%s, byte %d changed: %d wrong bytes and no error", format, i, len(got))
			}
		}
	}
}

func TestGarbageAfterTheLastFrameIsAnError(t *testing.T) {
	for _, format := range compressed {
		file, _ := pack(t, lines(10, 6), format)
		if _, err := inflate(append(file, "garbage, and enough of it"...)); err == nil {
			t.Errorf("%s: no error", format)
		}
	}
}

func TestDetect(t *testing.T) {
	for text, want := range map[string]Format{
		"":                             Plain,
		"B":                            Plain,
		"BZh9 is a magic number":       Plain,
		"\x1f\x8b\x08rest":             Gzip,
		"\x28\xb5\x2f\xfdrest":         Zstd,
		"\x53\x2a\x4d\x18\x00":         Zstd,
		"\xfd7zXZ\x00":                 XZ,
		"BZh91AY&SY":                   Bzip2,
		"BZh1\x17\x72\x45\x38\x50\x90": Bzip2,
		"(a bracket) in a line":        Plain,
		"\xfd is no UTF-8":             Plain,
	} {
		if got, _ := Detect([]byte(text)); got != want {
			t.Errorf("Detect(%q) = %s, want %s", text, got, want)
		}
	}
	for name, want := range map[string]Format{"a.gz": Gzip, "a.txt.zst": Zstd, "b.xz": XZ, "c.bz2": Bzip2, "gz": Plain, "a.gz.txt": Plain, "": Plain} {
		if got := BySuffix(name); got != want {
			t.Errorf("BySuffix(%q) = %s, want %s", name, got, want)
		}
	}
}

// A line that arrives alone must be readable before the next one comes.
func TestTheFirstBytesAreNotWaitedFor(t *testing.T) {
	for _, text := range []string{"a", "Be", "\n"} {
		in, out := io.Pipe()
		go out.Write([]byte(text))
		r, err := NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 10)
		if n, err := r.Read(buffer); string(buffer[:n]) != text || err != nil {
			t.Errorf("read %q, error %v, want %q", buffer[:n], err, text)
		}
		out.Close()
	}
}

func TestAnErrorOfTheInputIsPassedOn(t *testing.T) {
	failure := errors.New("disk on fire")
	file, _ := pack(t, lines(1000, 7), Gzip)
	for _, head := range [][]byte{nil, file[:1000], []byte("plain")} {
		r, err := NewReader(io.MultiReader(bytes.NewReader(head), failing{failure}))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if !errors.Is(err, failure) {
			t.Errorf("after %d bytes: error %v", len(head), err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A gigabyte of zeros takes some kilobytes; reading them must not take a gigabyte.
func TestMemoryDoesNotFollowTheInflatedSize(t *testing.T) {
	if testing.Short() {
		t.Skip("inflates 256 MiB")
	}
	const size = 256 << 20
	zeros := make([]byte, 1<<20)
	var gz, zst bytes.Buffer
	g := gzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	for range size >> 20 {
		g.Write(zeros)
		z.Write(zeros)
	}
	g.Close()
	z.Close()
	for name, file := range map[string][]byte{"gzip": gz.Bytes(), "zstd": zst.Bytes()} {
		var before, during runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, zeros)
		runtime.GC()
		runtime.ReadMemStats(&during)
		if n != size || err != nil {
			t.Errorf("%s: %d bytes, error %v", name, n, err)
		}
		if grown := int64(during.HeapSys) - int64(before.HeapSys); grown > 64<<20 {
			t.Errorf("%s: the heap grew by %d MiB", name, grown>>20)
		}
		r.Close()
	}
}

func TestAnXZDictionaryBeyondTheLimitIsRefused(t *testing.T) {
	sharedtest.Program(t, "xz")
	file := pipe(t, []byte("hello\n"), "xz", "-c", "--lzma2=dict=256MiB")
	if _, err := inflate(file); err == nil || !strings.Contains(err.Error(), "dictionary of 256 MiB") {
		t.Errorf("error %v", err)
	}
}

func TestAZstdWindowBeyondTheLimitIsRefused(t *testing.T) {
	sharedtest.Program(t, "zstd")
	file := pipe(t, bytes.Repeat([]byte("x"), 1000), "zstd", "-c", "--long=31", "--no-content-size", "--zstd=wlog=31")
	if _, err := inflate(file); err != nil && !strings.Contains(err.Error(), "window") {
		t.Errorf("error %v", err)
	} else if err == nil {
		t.Error("no error")
	}
}

func FuzzReader(f *testing.F) {
	for _, format := range compressed {
		file, _ := pack(f, lines(20, 8), format)
		f.Add(file)
		f.Add(append(file, file...))
	}
	f.Add([]byte("plain text"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		defer r.Close()
		n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<22))
		if r.Format() == Plain && (err != nil || n != int64(len(file))) {
			t.Errorf("plain: %d bytes of %d, error %v", n, len(file), err)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		format := compressed[int(kind)%len(compressed)]
		file, _ := pack(t, data, format)
		if got, err := inflate(file); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: error %v", format, err)
		}
	})
}

// What is written at one go is in frames, too, and comes back whole, in every format.
func TestWriteWhole(t *testing.T) {
	for _, size := range []int{0, 1, 3 * FrameSize} {
		data := bytes.Repeat([]byte("a line of text\n"), size/15+size%15)
		for _, format := range []Format{Plain, Gzip, Zstd, Bzip2, XZ} {
			var out bytes.Buffer
			err := WriteWhole(&out, format, func(w *bufio.Writer) error {
				_, err := w.Write(data)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			r, err := NewReader(&out)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes of %d came back, %v", format, len(got), len(data), err)
			}
		}
		failed := errors.New("failed")
		if err := WriteWhole(io.Discard, Zstd, func(*bufio.Writer) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%v", err)
		}
	}
}
