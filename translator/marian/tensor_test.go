package marian

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/klauspost/compress/gzip"
	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// Every half there is: its value from the definition, and back.
func TestEveryHalf(t *testing.T) {
	for h := range 1 << 16 {
		sign, exponent, fraction := h>>15, h>>10&31, h&0x3ff
		want := math.Ldexp(float64(1024+fraction), exponent-25)
		switch {
		case exponent == 31 && fraction != 0:
			want = math.NaN()
		case exponent == 31:
			want = math.Inf(1)
		case exponent == 0:
			want = math.Ldexp(float64(fraction), -24)
		}
		if sign == 1 {
			want = -want
		}
		got := halfToFloat(uint16(h))
		if math.IsNaN(want) {
			if got == got {
				t.Fatalf("%#04x is %v, want NaN", h, got)
			}
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != (sign == 1) {
			t.Fatalf("%#04x is %v, want %v", h, got, want)
		}
		if back := floatToHalf(got); int(back) != h {
			t.Fatalf("%#04x became %v and then %#04x", h, got, back)
		}
	}
	if h := floatToHalf(float32(math.NaN())); h&0x7c00 != 0x7c00 || h&0x3ff == 0 {
		t.Errorf("NaN became %#04x", h)
	}
}

// Rounding goes to the nearest half, and to the even one of two that are equally near.
func TestHalfRounding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := uint16(rapid.IntRange(0, 0x7bfe).Draw(t, "half"))
		part := rapid.Float64Range(0, 1).Draw(t, "part")
		if rapid.Bool().Draw(t, "middle") {
			part = 0.5
		}
		a, b := float64(halfToFloat(low)), float64(halfToFloat(low+1))
		v := float32(a + (b-a)*part)
		want := low
		up, down := b-float64(v), float64(v)-a
		if up < down || up == down && low&1 == 1 {
			want = low + 1
		}
		if got := floatToHalf(v); got != want {
			t.Fatalf("%v lies between %#04x and the next: became %#04x, want %#04x", v, low, got, want)
		}
		if got := floatToHalf(-v); got != want|0x8000 {
			t.Fatalf("%v became %#04x", -v, got)
		}
	})
	for f, want := range map[float32]uint16{65519.996: 0x7bff, 65520: 0x7c00, 1e30: 0x7c00, 1e-10: 0, 0x1p-25: 0, 0x1.8p-25: 1} {
		if got := floatToHalf(f); got != want {
			t.Errorf("%v became %#04x, want %#04x", f, got, want)
		}
	}
}

func TestEveryTypeBecomesFloat32(t *testing.T) {
	le := binary.LittleEndian
	cases := map[Type]struct {
		data []byte
		want float32
	}{
		Int8: {[]byte{0xfe}, -2}, Uint8: {[]byte{0xfe}, 254},
		Int16: {le.AppendUint16(nil, 0xfffe), -2}, Uint16: {le.AppendUint16(nil, 0xfffe), 65534},
		Int32: {le.AppendUint32(nil, 0xfffffffe), -2}, Uint32: {le.AppendUint32(nil, 0x80000000), 1 << 31},
		Int64: {le.AppendUint64(nil, math.MaxUint64-1), -2}, Uint64: {le.AppendUint64(nil, 1<<63), 1 << 63},
		Float16: {le.AppendUint16(nil, 0xc000), -2}, Float32: {le.AppendUint32(nil, 0xc0000000), -2},
		Float64:   {le.AppendUint64(nil, math.Float64bits(-2)), -2},
		Intgemm8:  {le.AppendUint32([]byte{0xfe}, math.Float32bits(0.5)), -4},
		Intgemm16: {le.AppendUint32(le.AppendUint16(nil, 0xfffe), math.Float32bits(0.5)), -4},
	}
	for typ := Float32; typ <= Intgemm16; typ++ {
		c, ok := cases[typ]
		if !ok {
			t.Errorf("no case for %s", typ)
			continue
		}
		tensor := &Tensor{Name: "x", Shape: []int{1, 1}, Type: typ, Data: c.data}
		if got, err := tensor.Scalar(); got != c.want || err != nil {
			t.Errorf("%s: %v, %v; want %v", typ, got, err, c.want)
		}
	}
}

func TestQuantisedWeightsComeBackInLogicalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 70).Draw(t, "rows"), rapid.IntRange(1, 70).Draw(t, "cols")
		name := rapid.SampledFrom([]string{"x_W", "Wemb"}).Draw(t, "name")
		stored := rapid.SliceOfN(rapid.Byte(), rows*cols, rows*cols).Draw(t, "stored")
		data := binary.LittleEndian.AppendUint32(bytes.Clone(stored), math.Float32bits(2))
		tensor := &Tensor{Name: name, Shape: []int{rows, cols}, Type: Intgemm8, Data: data}
		values, multiplier, err := tensor.Int8()
		if err != nil || multiplier != 2 {
			t.Fatal(multiplier, err)
		}
		floats, err := tensor.Float32()
		if err != nil {
			t.Fatal(err)
		}
		for r := range rows {
			for c := range cols {
				want := int8(stored[c*rows+r])
				if name == "Wemb" {
					want = int8(stored[r*cols+c])
				}
				if at := r*cols + c; values[at] != want || floats[at] != float32(want)/2 {
					t.Fatalf("row %d, column %d: %d and %v, want %d", r, c, values[at], floats[at], want)
				}
			}
		}
	})
}

func TestWeightsOf16BitsComeBackInLogicalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 20).Draw(t, "rows"), rapid.IntRange(1, 20).Draw(t, "cols")
		name := rapid.SampledFrom([]string{"x_W", "Wemb"}).Draw(t, "name")
		stored := rapid.SliceOfN(rapid.Int16(), rows*cols, rows*cols).Draw(t, "stored")
		var data []byte
		for _, v := range stored {
			data = binary.LittleEndian.AppendUint16(data, uint16(v))
		}
		tensor := &Tensor{Name: name, Shape: []int{rows, cols}, Type: Intgemm16, Data: binary.LittleEndian.AppendUint32(data, math.Float32bits(1024))}
		values, multiplier, err := tensor.Int16()
		if err != nil || multiplier != 1024 {
			t.Fatal(multiplier, err)
		}
		for r := range rows {
			for c := range cols {
				want := stored[c*rows+r]
				if name == "Wemb" {
					want = stored[r*cols+c]
				}
				if values[r*cols+c] != want {
					t.Fatalf("row %d, column %d: %d, want %d", r, c, values[r*cols+c], want)
				}
			}
		}
	})
}

func TestFloat32AliasesOnlyWhatIsAligned(t *testing.T) {
	buffer := make([]byte, 12)
	start := int(-uintptr(unsafe.Pointer(&buffer[0])) & 3)
	for shift := range 4 {
		data := buffer[start+shift : start+shift+4]
		tensor := &Tensor{Name: "x", Shape: []int{1}, Type: Float32, Data: data}
		values, err := tensor.Float32()
		if err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint32(data, math.Float32bits(float32(shift+1)))
		aliased := values[0] == float32(shift+1)
		if aliased != (shift == 0) {
			t.Errorf("shifted by %d: aliased %v", shift, aliased)
		}
	}
}

func TestWhatTensorsRefuse(t *testing.T) {
	with := func(typ Type, multiplier float32) *Tensor {
		data := binary.LittleEndian.AppendUint32([]byte{1, 2}, math.Float32bits(multiplier))
		return &Tensor{Name: "x_W", Shape: []int{2}, Type: typ, Data: data}
	}
	for _, m := range []float32{0, -1, float32(math.NaN())} {
		if _, _, err := with(Intgemm8, m).Int8(); err == nil {
			t.Errorf("multiplier %v accepted", m)
		}
	}
	// Marian's own converter leaves this for a matrix of zeros.
	if values, err := with(Intgemm8, float32(math.Inf(1))).Float32(); err != nil || !slices.Equal(values, []float32{0, 0}) {
		t.Errorf("infinite multiplier: %v, %v", values, err)
	}
	if _, err := with(Intgemm8, 1).Scalar(); err == nil {
		t.Error("two elements are a scalar")
	}
	if _, _, err := alphaTensor("x", 1).Int8(); err == nil {
		t.Error("float32 came out as int8")
	}
	if _, _, err := with(Intgemm8, 1).Int16(); err == nil {
		t.Error("int8 came out as int16")
	}
	if _, _, err := with(Intgemm16, 1).Int16(); err == nil {
		t.Error("six bytes are two weights of 16 bits and a multiplier")
	}
	if _, err := (&Tensor{Name: "x", Shape: []int{2}, Type: Float32, Data: make([]byte, 4)}).Float32(); err == nil {
		t.Error("four bytes are two singles")
	}
}

func TestClosedFilesHandOutNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.npz")
	if err := WriteNPZ(path, small()); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	wemb := f.Tensor("Wemb")
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := wemb.Float32(); err == nil {
		t.Error("data after Close")
	}
	if fingerprint := f.Fingerprint(); fingerprint != "" {
		t.Errorf("fingerprint %q after Close", fingerprint)
	}
}

func compressedNPZ(path string) error {
	if err := WriteNPZ(path, small()); err != nil {
		return err
	}
	plain, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write(plain); err != nil {
		return err
	}
	return errors.Join(writer.Close(), os.WriteFile(path, compressed.Bytes(), 0o600))
}

// A file that was forgotten has all that it had.
func TestForget(t *testing.T) {
	for name, write := range map[string]func(path string) error{
		"an .npz":           func(path string) error { return WriteNPZ(path, small()) },
		"a .bin":            func(path string) error { return WriteBin(path, small(), Mainline) },
		"a compressed file": compressedNPZ,
	} {
		path := filepath.Join(t.TempDir(), "model")
		if err := write(path); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(f.Tensors[0].Data)
		f.Forget()
		if !slices.Equal(f.Tensors[0].Data, before) || f.Fingerprint() != small().Fingerprint() || !slices.Equal(f.Tensors[0].Data, before) {
			t.Errorf("%s: other content after Forget", name)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		f.Forget() // of nothing
	}
}

func TestFingerprintIsOfTheContent(t *testing.T) {
	base := small().Fingerprint()
	changes := map[string]func(*File){
		"name":  func(f *File) { f.Tensors[0].Name = "Wemc" },
		"shape": func(f *File) { f.Tensors[0].Shape = []int{2, 3} },
		"type":  func(f *File) { f.Tensors[0].Type = Int32 },
		"data":  func(f *File) { f.Tensors[0].Data[3] ^= 1 },
		"less":  func(f *File) { f.Tensors = f.Tensors[1:] },
		"yaml":  func(f *File) { f.Config = []byte("type: s2s\n") },
	}
	for name, change := range changes {
		f := small()
		change(f)
		if f.Fingerprint() == base {
			t.Errorf("%s changed, the fingerprint did not", name)
		}
	}
	reordered := small()
	slices.Reverse(reordered.Tensors)
	reordered.Path, reordered.Format = "elsewhere", Bin
	if reordered.Fingerprint() != base {
		t.Error("the order of the tensors changed the fingerprint")
	}
}

// Files as numpy writes them: stored and deflated, every type that a model may hold, and what it must not.
func TestFilesFromNumpy(t *testing.T) {
	python := sharedtest.Program(t, "python3")
	if exec.Command(python, "-c", "import numpy").Run() != nil {
		if os.Getenv("SLUICE_REQUIRE_TOOLS") != "" {
			t.Fatal("needs numpy, and SLUICE_REQUIRE_TOOLS is set")
		}
		t.Skip("needs numpy")
	}
	folder := t.TempDir()
	script := `
import numpy as np
a = {t: np.arange(6).reshape(2, 3).astype(t) for t in "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split()}
a["special:model.yml"] = np.frombuffer(b"type: transformer\n\0", dtype=np.int8)
a["empty"] = np.zeros((1, 0), dtype=np.float32)
a["scalar"] = np.float32(7)
np.savez("stored.npz", **a)
np.savez_compressed("deflated.npz", **a)
np.savez("fortran.npz", w=np.asfortranarray(np.ones((2, 3), dtype=np.float32)))
np.savez("object.npz", w=np.array([{}], dtype=object))
np.savez("bigendian.npz", w=np.ones(3, dtype=">f4"))
np.savez("structured.npz", w=np.zeros(3, dtype=[("a", "<f4"), ("b", "<i4")]))
`
	command := exec.Command(python, "-c", script)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"stored.npz", "deflated.npz"} {
		f := open(t, filepath.Join(folder, name))
		if string(f.Config) != "type: transformer\n" || len(f.Tensors) != 13 {
			t.Errorf("%s: %q, %v", name, f.Config, f.Tensors)
		}
		for _, tensor := range f.Tensors {
			want := []float32{0, 1, 2, 3, 4, 5}
			switch tensor.Name {
			case "empty":
				want = nil
			case "scalar":
				want = []float32{7}
			}
			if got, err := tensor.Float32(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v is %v, %v", name, tensor, got, err)
			}
		}
		if checks, ok := f.Verify(); !ok {
			t.Errorf("%s: %v", name, checks)
		}
	}
	for _, name := range []string{"fortran.npz", "object.npz", "bigendian.npz", "structured.npz"} {
		if f, err := Open(filepath.Join(folder, name)); err == nil {
			t.Errorf("%s was read as %v", name, f.Tensors)
		}
	}

	// And numpy reads what is written here.
	if err := WriteNPZ(filepath.Join(folder, "ours.npz"), small()); err != nil {
		t.Fatal(err)
	}
	check := `
import numpy as np
z = np.load("ours.npz")
assert sorted(z.files) == ["Wemb", "decoder_c_tt", "encoder_l1_ffn_W1", "encoder_l1_ffn_b1", "special:model.yml"], z.files
assert z["Wemb"].tolist() == [[1, -2], [3, -4], [5, 6.5]] and z["Wemb"].dtype == np.float32
assert z["decoder_c_tt"].shape == (1, 0)
assert z["special:model.yml"].tobytes().rstrip(b"\0") == b"type: transformer\ndim-emb: 2\n"
`
	command = exec.Command(python, "-c", check)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, name := range []string{"model.intgemm.alphas.bin", "model.npz"} {
		path := sharedtest.Path(b, "models", "ende-tiny", name)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f, err := Open(path)
				if err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTensor(b *testing.B) {
	half := open(b, sharedtest.Path(b, "models", "ende-tiny", "model.npz"))
	quantized := open(b, sharedtest.Path(b, "models", "ende-tiny", "model.intgemm.alphas.bin"))
	benchmarks := map[string]func() error{
		"Float32 of float16 embeddings": func() error { _, err := half.Tensor("Wemb").Float32(); return err },
		"Float32 of int8 embeddings":    func() error { _, err := quantized.Tensor("Wemb").Float32(); return err },
		"Int8 of a feed-forward weight": func() error { _, _, err := quantized.Tensor("encoder_l1_ffn_W1").Int8(); return err },
		"Fingerprint of the int8 model": func() error { quantized.computeFingerprint(); return nil },
	}
	for name, run := range benchmarks {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
