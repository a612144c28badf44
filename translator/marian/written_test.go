package marian

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// sameBytes fails unless two files have the same content.
func sameBytes(t *testing.T, got, want string) {
	t.Helper()
	a, err := os.ReadFile(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(a, b) {
		return
	}
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	t.Errorf("%s: %d bytes, want the %d bytes of %s; the first difference is at byte %#x", got, len(a), len(b), want, at)
}

func TestNPZIsWrittenAsMarianWritesIt(t *testing.T) {
	models, err := filepath.Glob(filepath.Join(sharedtest.Path(t, "models", "reference"), "*", "model.npz"))
	if err != nil || len(models) == 0 {
		t.Fatalf("no reference models: %v", err)
	}
	for _, model := range models {
		switch filepath.Base(filepath.Dir(model)) {
		case "transformer-rms": // not written by Marian
			continue
		case "nematus": // Marian sorts by its own names before it writes those of Nematus
			continue
		}
		copied := filepath.Join(t.TempDir(), "model.npz")
		if err := WriteNPZ(copied, open(t, model)); err != nil {
			t.Fatal(err)
		}
		sameBytes(t, copied, model)
	}
}

func TestBinIsWrittenAsMarianConvWritesIt(t *testing.T) {
	for _, name := range []string{"transformer-selfatt/model.float32.bin", "transformer-selfatt/model.intgemm8.bin",
		"transformer-ssru-tied/model.intgemm8.bin"} {
		want := sharedtest.Path(t, "models", "reference", filepath.FromSlash(name))
		model := open(t, filepath.Join(filepath.Dir(want), "model.npz"))
		if strings.Contains(name, "intgemm8") {
			quantized, err := model.Quantize(Intgemm8, Mainline, nil)
			if err != nil {
				t.Fatal(err)
			}
			model = quantized
		}
		written := filepath.Join(t.TempDir(), "model.bin")
		if err := WriteBin(written, model, Mainline); err != nil {
			t.Fatal(err)
		}
		sameBytes(t, written, want)
		if strings.Contains(name, "float32") && model.Fingerprint() != open(t, want).Fingerprint() {
			t.Errorf("%s: not the fingerprint of the .npz it was made from", name)
		}
		again := filepath.Join(t.TempDir(), "again.bin")
		if err := WriteBin(again, open(t, want), Mainline); err != nil {
			t.Fatal(err)
		}
		sameBytes(t, again, want)
	}
}

func TestDemoModelIsReproduced(t *testing.T) {
	want := sharedtest.Path(t, "models", "ende-tiny", "model.intgemm.alphas.bin")
	published := open(t, want)
	again := filepath.Join(t.TempDir(), "again.bin")
	if err := WriteBin(again, published, Browsermt); err != nil {
		t.Fatal(err)
	}
	sameBytes(t, again, want)

	// From the float model and the alphas, as a map.
	alphas := make(map[string]float32)
	for _, tensor := range published.Tensors {
		if name, ok := strings.CutSuffix(tensor.Name, AlphaSuffix); ok && name != "none" && name != "Wemb" {
			alpha, err := tensor.Scalar()
			if err != nil {
				t.Fatal(err)
			}
			alphas[name] = alpha
		}
	}
	// Stored as int8 and a multiplier, the alpha of Wemb has lost its last bit; none_QuantMultA is the original.
	shared, err := published.Tensor("none_QuantMultA").Scalar()
	if err != nil {
		t.Fatal(err)
	}
	alphas["Wemb"] = shared
	quantized, err := open(t, sharedtest.Path(t, "models", "ende-tiny", "model.npz")).Quantize(Intgemm8, Browsermt, alphas)
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(t.TempDir(), "made.bin")
	if err := WriteBin(made, quantized, Browsermt); err != nil {
		t.Fatal(err)
	}
	sameBytes(t, made, want)
	if quantized.Fingerprint() != published.Fingerprint() {
		t.Error("equal models with different fingerprints")
	}
}

func TestDemoNPZRoundTrips(t *testing.T) {
	original := open(t, sharedtest.Path(t, "models", "ende-tiny", "model.npz"))
	folder := t.TempDir()
	if err := WriteNPZ(filepath.Join(folder, "m.npz"), original); err != nil {
		t.Fatal(err)
	}
	if err := WriteBin(filepath.Join(folder, "m.bin"), original, Mainline); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m.npz", "m.bin"} {
		copied := open(t, filepath.Join(folder, name))
		if checks, ok := copied.Verify(); !ok {
			t.Errorf("%s: %v", name, checks)
		}
		if copied.Fingerprint() != original.Fingerprint() {
			t.Errorf("%s: another fingerprint", name)
		}
		if got := copied.Parameters(); got != 16_907_008 || got != original.Parameters() {
			t.Errorf("%s: %d parameters", name, got)
		}
	}
}

// small returns a model with every case that the formats treat differently.
func small() *File {
	float := func(name string, shape []int, values ...float32) *Tensor {
		data := []byte{}
		for _, v := range values {
			bits := math.Float32bits(v)
			data = append(data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
		}
		return &Tensor{Name: name, Shape: shape, Type: Float32, Data: data}
	}
	return &File{
		Config: []byte("type: transformer\ndim-emb: 2\n"),
		Tensors: []*Tensor{
			float("Wemb", []int{3, 2}, 1, -2, 3, -4, 5, 6.5),
			float("decoder_c_tt", []int{1, 0}),
			float("encoder_l1_ffn_W1", []int{2, 3}, 0.5, 0.25, -1, 0.125, 1, 0),
			float("encoder_l1_ffn_b1", []int{1, 3}, -1, 0, 1),
		},
	}
}

func TestFamiliesQuantiseDifferently(t *testing.T) {
	alphas := map[string]float32{"Wemb": 10, "encoder_l1_ffn_W1": 20}
	types := func(family Family) map[string]string {
		f, err := small().Quantize(Intgemm8, family, alphas)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.bin")
		if err := WriteBin(path, f, family); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, row := range open(t, path).Rows() {
			got[row.Name] = row.Type
		}
		return got
	}
	want := map[string]string{"Wemb": "float32", "Wemb_QuantMultA": "float32", "decoder_c_tt": "float32",
		"encoder_l1_ffn_W1": "intgemm8", "encoder_l1_ffn_W1_QuantMultA": "float32", "encoder_l1_ffn_b1": "float32",
		"none_QuantMultA": "float32"}
	if got := types(Mainline); !maps.Equal(got, want) {
		t.Errorf("mainline: %v", got)
	}
	want["Wemb"], want["Wemb_QuantMultA"] = "intgemm8", "intgemm8"
	if got := types(Browsermt); !maps.Equal(got, want) {
		t.Errorf("browsermt: %v", got)
	}
}

func TestConversionsBetweenFamiliesKeepTheValues(t *testing.T) {
	browser, err := small().Quantize(Intgemm8, Browsermt, map[string]float32{"Wemb": 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteBin(filepath.Join(t.TempDir(), "m.bin"), browser, Mainline); err == nil ||
		!strings.Contains(err.Error(), `tensor "Wemb"`) {
		t.Errorf("mainline took a quantised embedding: %v", err)
	}
	mainline, err := browser.Quantize(Intgemm8, Mainline, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range browser.Tensors {
		want, err := before.Float32()
		if err != nil {
			t.Fatal(err)
		}
		got, err := mainline.Tensor(before.Name).Float32()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v became %v, %v", before, got, err)
		}
	}
}

func TestInt16AndFloat16(t *testing.T) {
	f, err := small().Quantize(Intgemm16, Browsermt, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.bin")
	if err := WriteBin(path, f, Browsermt); err != nil {
		t.Fatal(err)
	}
	read := open(t, path)
	half, err := read.Float(Float16)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range small().Tensors { // all values are multiples of 1/1024 with few bits, so nothing may be lost
		wanted, _ := want.Float32()
		for _, source := range []*File{read, half} {
			got, err := source.Tensor(want.Name).Float32()
			if err != nil || !slices.Equal(got, wanted) {
				t.Errorf("%v: %v, %v; want %v", source.Tensor(want.Name), got, err, wanted)
			}
		}
	}
	if _, err := (&File{Tensors: []*Tensor{alphaTensor("w", 65520)}}).Float(Float16); err != nil {
		t.Errorf("an alpha was converted: %v", err)
	}
	large := alphaTensor("w", 65520)
	large.Name = "w"
	if _, err := (&File{Tensors: []*Tensor{large}}).Float(Float16); err == nil {
		t.Error("65520 fitted into float16")
	}
}

func TestQuantisationRoundsAsMarianDoes(t *testing.T) {
	q, m := QuantizeInt8([]float32{127, -127, 0.5, 1.5, -0.5, 2.5, 126.5})
	if m != 1 || !slices.Equal(q, []int8{127, -127, 0, 2, 0, 2, 126}) {
		t.Errorf("%v with multiplier %v", q, m)
	}
	if q, m := QuantizeInt8([]float32{0, 0}); m != 127 || !slices.Equal(q, []int8{0, 0}) {
		t.Errorf("zeros: %v with multiplier %v", q, m)
	}
	if q, m := QuantizeInt8([]float32{1e-40, -1e-44}); math.IsInf(float64(m), 0) || q[0] < 0 {
		t.Errorf("denormals: %v with multiplier %v", q, m)
	}
	if q, _ := QuantizeInt16([]float32{1, 100, -100, 1.0 / 2048, 3.0 / 2048}); !slices.Equal(q,
		[]int16{1024, 32767, -32768, 0, 2}) {
		t.Errorf("int16: %v", q)
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	broken := func(change func(*File)) *File {
		f := small()
		change(f)
		return f
	}
	quantized, err := small().Quantize(Intgemm8, Mainline, nil)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		file *File
		npz  bool
		want string
	}{
		"short data":      {broken(func(f *File) { f.Tensors[0].Data = f.Tensors[0].Data[1:] }), false, "has 23 bytes"},
		"twice":           {broken(func(f *File) { f.Tensors[1] = f.Tensors[0] }), true, "is there twice"},
		"no name":         {broken(func(f *File) { f.Tensors[1].Name = "" }), true, "no name"},
		"prefixed name":   {broken(func(f *File) { f.Tensors[1].Name = "F0::x" }), true, "not a name"},
		"name of config":  {broken(func(f *File) { f.Tensors[1].Name = ConfigName }), false, "not a name"},
		"no type":         {broken(func(f *File) { f.Tensors[1].Type = Invalid }), false, "invalid"},
		"negative shape":  {broken(func(f *File) { f.Tensors[1].Shape = []int{-1, 0} }), true, "shape [-1 0]"},
		"config not YAML": {broken(func(f *File) { f.Config = []byte("hello") }), true, "not YAML"},
		"intgemm in npz":  {quantized, true, "an .npz cannot hold"},
	}
	for name, c := range cases {
		folder := t.TempDir()
		path := filepath.Join(folder, "model")
		if c.npz {
			err = WriteNPZ(path, c.file)
		} else {
			err = WriteBin(path, c.file, Mainline)
		}
		var located *Error
		if !errors.As(err, &located) || located.Path != path || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(folder); len(left) > 0 {
			t.Errorf("%s: left %v behind", name, left)
		}
	}
	if _, err := small().Quantize(Intgemm8, Mainline, map[string]float32{"encoder_l1_ffn_b1": 1}); err == nil {
		t.Error("a bias got an alpha")
	}
	if _, err := small().Quantize(Intgemm8, Mainline, map[string]float32{"Wemb": float32(math.NaN())}); err == nil {
		t.Error("NaN was taken for an alpha")
	}
}

func TestWritingKeepsTheOldFileOnFailure(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "model.npz")
	if err := WriteNPZ(path, small()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("disk full")
	if err := writeFile(path, func(io.Writer) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the old file changed: %v", err)
	}
	if names, _ := os.ReadDir(folder); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
	if err := WriteBin(filepath.Join(folder, "missing", "m.bin"), small(), Mainline); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("into a folder that does not exist: %v", err)
	}
}

// A model may be written over the file it was read from.
func TestWritingOverTheFileThatIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.bin")
	if err := WriteBin(path, small(), Mainline); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	want := f.Fingerprint()
	if err := WriteBin(path, f, Browsermt); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path).Fingerprint(); got != want {
		t.Errorf("fingerprint %s, was %s", got, want)
	}
}
