package marian

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// content is a model in memory, in every container.
func binOf(t testing.TB, f *File, family Family) []byte {
	t.Helper()
	return written(t, func(path string) error { return WriteBin(path, f, family) })
}

func npzOf(t testing.TB, f *File) []byte {
	t.Helper()
	return written(t, func(path string) error { return WriteNPZ(path, f) })
}

func written(t testing.TB, write func(path string) error) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model")
	if err := write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// zipped makes an archive of arrays with the standard library.
func zipped(t testing.TB, method uint16, members map[string][]byte, order ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range order {
		part, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(members[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// npy makes an array with a header of the caller's choice.
func npy(dictionary string, data ...byte) []byte {
	header := append([]byte(npyMagic), 1, 0)
	header = binary.LittleEndian.AppendUint16(header, uint16(len(dictionary)))
	return append(append(header, dictionary...), data...)
}

func plainNPY(descr, shape string, data ...byte) []byte {
	return npy("{'descr': '"+descr+"', 'fortran_order': False, 'shape': "+shape+", }\n", data...)
}

func deflatedNPZ(t testing.TB) []byte {
	return zipped(t, zip.Deflate, map[string][]byte{
		"a.npy":             plainNPY("<f4", "(1, 2)", 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40),
		"b.npy":             plainNPY("|u1", "(3,)", 1, 2, 3),
		ConfigName + ".npy": plainNPY("|i1", "(8,)", []byte("a: b\n\x00\x00\x00")...),
	}, "a.npy", "b.npy", ConfigName+".npy")
}

// samples are small valid files, one of every kind that the readers tell apart.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	quantized, err := small().Quantize(Intgemm8, Browsermt, map[string]float32{"Wemb": 10})
	if err != nil {
		t.Fatal(err)
	}
	wide, err := small().Quantize(Intgemm16, Mainline, nil)
	if err != nil {
		t.Fatal(err)
	}
	half, err := small().Float(Float16)
	if err != nil {
		t.Fatal(err)
	}
	// Mainline does not quantise Wemb, so the two families differ in more than the codes.
	return map[string][]byte{
		"float32.bin":   binOf(t, small(), Mainline),
		"browsermt.bin": binOf(t, quantized, Browsermt),
		"int16.bin":     binOf(t, wide, Mainline),
		"float16.npz":   npzOf(t, half),
		"log4.bin":      binOf(t, log4Model(t), Browsermt),
		"mixed.bin":     binOf(t, mixedModel(t), Browsermt),
		"deflated.npz":  deflatedNPZ(t),
	}
}

func compressed(t testing.TB, plain []byte) (gz, zst []byte) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	return b.Bytes(), encoder.EncodeAll(plain, nil)
}

func TestCompressedFilesAreReadAsTheyAre(t *testing.T) {
	for name, plain := range samples(t) {
		want, err := parse(plain)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		gz, zst := compressed(t, plain)
		for compression, data := range map[string][]byte{"gzip": gz, "zstd": zst} {
			path := filepath.Join(t.TempDir(), "model.bin") // the name must not matter
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			got := open(t, path)
			if got.Compression != compression || got.Format != want.Format || got.Fingerprint() != want.Fingerprint() {
				t.Errorf("%s in %s: read as %s in %q", name, compression, got.Format, got.Compression)
			}
		}
	}
}

// Every proper beginning of a file must be refused with an error that says where, compressed or not.
func TestTruncatedFilesAreRefused(t *testing.T) {
	for name, plain := range samples(t) {
		gz, zst := compressed(t, plain)
		for kind, data := range map[string][]byte{"": plain, ".gz": gz, ".zst": zst} {
			for n := range data {
				f, err := parse(data[:n:n])
				var located *Error
				if !errors.As(err, &located) {
					t.Fatalf("%s%s cut to %d of %d bytes: %v, %v", name, kind, n, len(data), f, err)
				}
				if located.Problem == "" || located.Remedy == "" {
					t.Fatalf("%s%s cut to %d bytes: %q says not enough", name, kind, n, err)
				}
			}
		}
	}
}

// A changed bit is noticed at once, or by Verify, or changes nothing but one value. It never changes how many tensors of which
// shape and length come out without being noticed, and whatever comes out can be used.
func TestChangedBytesDoNoHarm(t *testing.T) {
	for name, plain := range samples(t) {
		original, err := parse(plain)
		if err != nil {
			t.Fatal(err)
		}
		npz := original.Format == NPZ
		for at := range plain {
			for _, flip := range []byte{0x01, 0x80, 0xff} {
				changed := bytes.Clone(plain)
				changed[at] ^= flip
				f, err := parse(changed)
				if err != nil {
					var located *Error
					if !errors.As(err, &located) {
						t.Fatalf("%s, byte %#x ^ %#x: %v is no *Error", name, at, flip, err)
					}
					continue
				}
				use(t, f)
				if _, ok := f.Verify(); npz && ok && f.Fingerprint() != original.Fingerprint() &&
					!renamed(f, original) {
					t.Errorf("%s, byte %#x ^ %#x: another model passes Verify", name, at, flip)
				}
			}
		}
	}
}

// renamed tells whether a model differs from another in the name of a tensor: a name is the one thing in an archive that no
// checksum covers.
func renamed(f, original *File) bool {
	if len(f.Tensors) != len(original.Tensors) || (f.Config == nil) != (original.Config == nil) {
		return true // the description's own name changed
	}
	for _, t := range f.Tensors {
		if original.Tensor(t.Name) == nil {
			return true
		}
	}
	return false
}

// use calls everything that reads a tensor, and checks what must hold for any model that Open accepts.
func use(t testing.TB, f *File) {
	t.Helper()
	seen := make(map[string]bool)
	for _, tensor := range f.Tensors {
		if seen[tensor.Name] || f.Tensor(tensor.Name) != tensor {
			t.Fatalf("%v is not alone under its name", tensor)
		}
		seen[tensor.Name] = true
		if err := tensor.check(); err != nil {
			t.Fatalf("%v: %v", tensor, err)
		}
		if values, err := tensor.Float32(); err == nil && len(values) != tensor.Elements() {
			t.Fatalf("%v: %d values", tensor, len(values))
		}
		if values, _, err := tensor.Int8(); err == nil && len(values) != tensor.Elements() {
			t.Fatalf("%v: %d values", tensor, len(values))
		}
		_, _ = tensor.Scalar()
	}
	f.Verify()
	f.Rows()
}

// bin makes a .bin with one tensor of the caller's choice.
func bin(version uint64, name string, code uint64, shape []int32, dataLength uint64, data []byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(nil, version)
	b = le.AppendUint64(b, 1)
	for _, v := range []uint64{uint64(len(name)), code, uint64(len(shape)), dataLength} {
		b = le.AppendUint64(b, v)
	}
	b = append(b, name...)
	for _, d := range shape {
		b = le.AppendUint32(b, uint32(d))
	}
	b = le.AppendUint64(b, 0)
	return append(b, data...)
}

func TestRefusalsNameWhatIsWrong(t *testing.T) {
	four := []byte{0, 0, 0x80, 0x3f}
	npzOf := func(array []byte) []byte {
		return zipped(t, zip.Store, map[string][]byte{"w.npy": array}, "w.npy")
	}
	twice := zipped(t, zip.Store, map[string][]byte{"w.npy": plainNPY("<f4", "(1,)", four...)}, "w.npy", "w.npy")
	cases := map[string]struct {
		data []byte
		want []string // all must be in the message
	}{
		"empty":         {nil, []string{"is empty"}},
		"encrypted":     {bin(2, "w\x00", codeFloat32, []int32{1}, 4, four), []string{"encrypted", "marian-conv"}},
		"Quicksand":     {[]byte{0xd2, 0x02, 0x96, 0x49, 0, 0, 0, 0}, []string{"Quicksand", "lexicon as text"}},
		"shortlist":     {binary.LittleEndian.AppendUint64(nil, 0xF11A48D5013417F5), []string{"lexical shortlist"}},
		"one array":     {plainNPY("<f4", "(1,)", four...), []string{"single NumPy array"}},
		"text":          {[]byte("type: transformer\n"), []string{"text file"}},
		"CTranslate2":   {append([]byte{6, 0, 0, 0, 16, 0}, "TransformerSpec\x00"...), []string{"CTranslate2"}},
		"bzip2":         {[]byte("BZh91AY&SY"), []string{"bzip2", "unpack it"}},
		"xz":            {[]byte("\xfd7zXZ\x00\x00"), []string{"xz", "unpack it"}},
		"noise":         {[]byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, []string{"neither", "09 08 07"}},
		"intgemm8avx2":  {bin(1, "w\x00", 0x11001, []int32{1}, 4, four), []string{`tensor "w"`, "intgemm8avx2", "--gemm-type intgemm8"}},
		"packed16":      {bin(1, "w\x00", 0x802, []int32{1}, 4, four), []string{"packed16", "--gemm-type float32"}},
		"vnni":          {bin(1, "w\x00", 0x13001, []int32{1}, 4, four), []string{"intgemm8avx512vnni"}},
		"int16 sse2":    {bin(1, "w\x00", 0x14002, []int32{1}, 4, four), []string{"intgemm16sse2", "--gemm-type intgemm16"}},
		"unknown type":  {bin(1, "w\x00", 0x999, []int32{1}, 4, four), []string{"unknown type 0x999", "byte 0x18"}},
		"overflow":      {bin(1, "w\x00", codeFloat32, []int32{math.MaxInt32, math.MaxInt32, 9}, 4, four), []string{"more elements"}},
		"negative":      {bin(1, "w\x00", codeFloat32, []int32{-1}, 4, four), []string{"dimension of -1"}},
		"too short":     {bin(1, "w\x00", codeFloat32, []int32{2}, 4, four), []string{"has 4 bytes of data", "takes 8"}},
		"too long":      {bin(1, "w\x00", codeFloat32, []int32{1}, 260, make([]byte, 260)), []string{"has 260 bytes"}},
		"out of range":  {bin(1, "w\x00", codeFloat32, []int32{65}, 260, four), []string{"data of tensor w", "only 4 are left"}},
		"name runs on":  {bin(1, "ww", codeFloat32, []int32{1}, 4, four), []string{"does not end"}},
		"control":       {bin(1, "w\n\x00", codeFloat32, []int32{1}, 4, four), []string{"not plain text"}},
		"more at end":   {bin(1, "w\x00", codeFloat32, []int32{1}, 4, append(four, 1)), []string{"1 bytes follow"}},
		"huge count":    {binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 1), 1<<60), []string{"number of tensors", "byte 0x8"}},
		"config float":  {bin(1, ConfigName+"\x00", codeFloat32, []int32{1}, 4, four), []string{"float32 instead of int8"}},
		"config binary": {bin(1, ConfigName+"\x00", codeInt8, []int32{4}, 4, []byte("a: \x07")), []string{"U+0007"}},
		"config latin1": {bin(1, ConfigName+"\x00", codeInt8, []int32{4}, 4, []byte("a: \xe4")), []string{"not UTF-8"}},
		"config prose":  {bin(1, ConfigName+"\x00", codeInt8, []int32{4}, 4, []byte("abc\x00")), []string{"no line of it"}},
		"config long": {bin(1, ConfigName+"\x00", codeInt8, []int32{MaxConfig + 1}, MaxConfig+1, bytes.Repeat([]byte("a"), MaxConfig+1)),
			[]string{"at most 1048576"}},
		"npz twice":       {twice, []string{`tensor "w"`, "twice"}},
		"npz of text":     {zipped(t, zip.Store, map[string][]byte{"a.txt": four}, "a.txt"), []string{`"a.txt"`, "not a NumPy array"}},
		"npz of nothing":  {zipped(t, zip.Store, nil), []string{"no tensors"}},
		"not an array":    {npzOf(four), []string{`tensor "w"`, "NumPy magic"}},
		"pickled":         {npzOf(plainNPY("|O", "(1,)", four...)), []string{"pickled"}},
		"Fortran order":   {npzOf(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", four...)), []string{"Fortran order", "ascontiguousarray"}},
		"big-endian":      {npzOf(plainNPY(">f4", "(1,)", four...)), []string{"high byte first"}},
		"records":         {npzOf(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", four...)), []string{"records"}},
		"complex":         {npzOf(plainNPY("<c8", "(1,)", four...)), []string{"complex"}},
		"bool":            {npzOf(plainNPY("|b1", "(4,)", four...)), []string{"truth values"}},
		"strings":         {npzOf(plainNPY("<U1", "(1,)", four...)), []string{`"<U1"`}},
		"no order":        {npzOf(plainNPY("", "(1,)", four...)), []string{`type ""`}},
		"npy too short":   {npzOf(plainNPY("<f4", "(2,)", four...)), []string{"has 4 bytes", "float32 of shape [2]"}},
		"npy overflow":    {npzOf(plainNPY("<f4", "(2147483647, 2147483647, 4)", four...)), []string{"not float32"}},
		"npy dimension":   {npzOf(plainNPY("<f4", "(99999999999,)", four...)), []string{"dimension"}},
		"npy negative":    {npzOf(plainNPY("<f4", "(-1,)", four...)), []string{"dimension"}},
		"npy key missing": {npzOf(npy("{'descr': '<f4', 'fortran_order': False}", four...)), []string{"does not say shape"}},
		"npy key twice":   {npzOf(npy("{'descr': '<f4', 'descr': '<f4'}", four...)), []string{"descr twice"}},
		"npy unknown key": {npzOf(npy("{'order': 1}", four...)), []string{`unknown key "order"`}},
		"npy garbage":     {npzOf(npy("[1]", four...)), []string{"not a dictionary"}},
		"npy version":     {npzOf(append([]byte(npyMagic), 9, 0, 0, 0)), []string{"version 9.0"}},
	}
	for name, c := range cases {
		f, err := parse(c.data)
		var located *Error
		if !errors.As(err, &located) {
			t.Errorf("%s: got %v, %v", name, f, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
		if located.Remedy == "" {
			t.Errorf("%s: %q does not say what to do", name, err)
		}
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.bin")
	if err := os.WriteFile(path, bin(1, "w\x00", 0x999, nil, 4, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	want := path + `: tensor "w": byte 0x18: has the unknown type 0x999; ` + remedyDamaged
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := Open(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Open(path + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestWhatOtherWritersDo(t *testing.T) {
	cases := map[string]struct {
		data  []byte
		typ   Type
		shape string
	}{
		"without padding":   {bin(1, "w\x00", codeFloat32, []int32{1, 1}, 4, []byte{0, 0, 0x80, 0x3f}), Float32, "[1 1]"},
		"prefixed":          {bin(1, "F0::w\x00", codeInt8, []int32{1}, 1, []byte{1}), Int8, "[1]"},
		"padded at the end": {bin(1, "w\x00", codeInt8, []int32{1}, 1, append([]byte{1}, make([]byte, 200)...)), Int8, "[1]"},
		"no dimensions":     {bin(1, "w\x00", codeFloat64, nil, 8, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}), Float64, "[]"},
		"numpy scalar":      {zipped(t, zip.Store, map[string][]byte{"w.npy": plainNPY("<i8", "()", 1, 0, 0, 0, 0, 0, 0, 0)}, "w.npy"), Uint64, "[]"},
		"Python 2":          {zipped(t, zip.Store, map[string][]byte{"w.npy": plainNPY("<i2", "(1L,)", 1, 0)}, "w.npy"), Int16, "[1]"},
		"keys in any order": {zipped(t, zip.Deflate, map[string][]byte{"w.npy": npy(`{"shape":(1,1),"descr":"|i1","fortran_order":False}`, 1)}, "w.npy"), Int8, "[1 1]"},
	}
	for name, c := range cases {
		f, err := parse(c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w := f.Tensor("w")
		if w == nil || w.Type != c.typ || fmt.Sprint(w.Shape) != c.shape {
			t.Errorf("%s: %v", name, f.Tensors)
			continue
		}
		if v, err := w.Scalar(); v != 1 || err != nil {
			t.Errorf("%s: value %v, %v", name, v, err)
		}
	}
}

// Two members of an archive may not point at the same bytes.
func TestOverlappingMembersAreRefused(t *testing.T) {
	data := zipped(t, zip.Store, map[string][]byte{
		"a.npy": plainNPY("<f4", "(1,)", 0, 0, 0, 0), "b.npy": plainNPY("<f4", "(1,)", 0, 0, 0, 0)}, "a.npy", "b.npy")
	second := bytes.LastIndex(data, []byte("PK\x01\x02"))
	if second < 0 {
		t.Fatal("no directory")
	}
	binary.LittleEndian.PutUint32(data[second+42:], 0) // where the member begins
	if _, err := parse(data); err == nil || !strings.Contains(err.Error(), "shares its bytes") {
		t.Errorf("got %v", err)
	}
}

func TestChecksumsAreVerified(t *testing.T) {
	data := npzOf(t, small())
	for _, c := range []struct {
		change []byte
		want   string
	}{
		{[]byte{0, 0, 0xd0, 0x40}, "Wemb"}, // 6.5, the last element
		{[]byte("dim-emb: 2"), ConfigName},
	} {
		changed := bytes.Clone(data)
		at := bytes.Index(changed, c.change)
		if at < 0 {
			t.Fatal(c.want, "not found")
		}
		changed[at+len(c.change)-1] ^= 1
		f, err := parse(changed)
		if err != nil {
			t.Fatal(err)
		}
		checks, ok := f.Verify()
		found := false
		for _, check := range checks {
			if check.Problem != "" {
				found = check.Name == c.want && strings.Contains(check.Problem, "checksum")
			}
		}
		if ok || !found {
			t.Errorf("%s: %v, %v", c.want, checks, ok)
		}
	}
	if checks, ok := openBytes(t, data).Verify(); !ok {
		t.Errorf("undamaged: %v", checks)
	}
}

func openBytes(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestVerifyFindsWhatCannotBeComputedWith(t *testing.T) {
	nan := alphaTensor("x", float32(math.NaN()))
	nan.Name = "nan"
	negative := alphaTensor("encoder_l1_ffn_W1", -1)
	quantized, err := small().Quantize(Intgemm8, Mainline, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &File{Tensors: append(quantized.Tensors, nan, negative)}
	checks, ok := f.Verify()
	if ok {
		t.Error("all well")
	}
	for _, c := range checks {
		switch c.Name {
		case "nan":
			if c.NotFinite != 1 || c.Problem == "" {
				t.Errorf("%+v", c)
			}
		case negative.Name:
			if c.Problem == "" {
				t.Errorf("%+v", c)
			}
		case "encoder_l1_ffn_W1": // 0.5, 0.25, -1, 0.125, 1, 0
			if c.Saturated != 2 || c.MaxAbs != 1 || c.Problem != "" {
				t.Errorf("%+v", c)
			}
		default:
			if c.Problem != "" || c.Saturated != 0 {
				t.Errorf("%+v", c)
			}
		}
	}
}

// What inflates a thousandfold is refused before it takes the memory.
func TestBombsAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("unpacks some 200 MB")
	}
	zeros := make([]byte, 1<<20)
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for range 66 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	unpacked := make([]byte, 66<<20)
	array := plainNPY("|u1", "(69206016,)", unpacked...)
	bombs := map[string][]byte{
		"gzip": b.Bytes(),
		"zstd": encoder.EncodeAll(unpacked, nil),
		"npz":  zipped(t, zip.Deflate, map[string][]byte{"a.npy": array}, "a.npy"),
	}
	unpacked, array = nil, nil
	for name, bomb := range bombs {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := parse(bomb)
		runtime.ReadMemStats(&after)
		var located *Error
		if !errors.As(err, &located) {
			t.Errorf("%s of %d bytes: %v", name, len(bomb), err)
			continue
		}
		t.Logf("%s of %d bytes: %v; %d MB allocated", name, len(bomb), err, (after.TotalAlloc-before.TotalAlloc)>>20)
		if used := after.TotalAlloc - before.TotalAlloc; used > 5*smallDecompressed/2 {
			t.Errorf("%s: took %d MB", name, used>>20)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, data := range samples(f) {
		gz, zst := compressed(f, data)
		f.Add(data)
		f.Add(gz)
		f.Add(zst)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		model, err := parse(data)
		if err != nil {
			return
		}
		use(t, model)
	})
}

func FuzzBin(f *testing.F) {
	for name, data := range samples(f) {
		if strings.HasSuffix(name, ".bin") {
			f.Add(data[8:])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		model, err := parse(append(binary.LittleEndian.AppendUint64(nil, binVersion), data...))
		if err != nil {
			return
		}
		use(t, model)
		again, err := binAgain(t, model)
		if err != nil {
			return // not every model that can be read is one that Marian would write
		}
		if got := openBytes(t, again).Fingerprint(); got != model.Fingerprint() {
			t.Errorf("written and read again: %s, was %s", got, model.Fingerprint())
		}
	})
}

func binAgain(t testing.TB, f *File) ([]byte, error) {
	tensors, err := f.sorted()
	if err != nil {
		return nil, err
	}
	config, err := f.describedFor(Browsermt)
	if err != nil {
		return nil, err
	}
	if config != nil {
		tensors = append(tensors, config)
	}
	var b bytes.Buffer
	if err := writeBinTo(&b, tensors, Browsermt); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), nil
}

func FuzzNPY(f *testing.F) {
	f.Add(plainNPY("<f4", "(1, 2)", 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40))
	f.Add(plainNPY("|i1", "(3,)", 1, 2, 3))
	f.Add(plainNPY("<f2", "()", 1, 2))
	f.Add(npy(`{"shape":(0L,),"descr":"<u8","fortran_order":True}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tensor, err := parseNPY("w", data, 0)
		if err != nil {
			return
		}
		use(t, &File{Tensors: []*Tensor{tensor}})
	})
}

// endless is a stream that counts what is taken of it.
type endless struct {
	head string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.head)
	e.head = e.head[n:]
	clear(p[n:])
	e.read += len(p)
	return len(p), nil
}

// TestAnEndlessStreamIsRefusedByItsBeginning reads what is no model from a pipe or a device.
func TestAnEndlessStreamIsRefusedByItsBeginning(t *testing.T) {
	for _, head := range []string{"", "a text, and more of it", "\x93NUMPY", "BZh9"} {
		stream := &endless{head: head}
		data, err := readStream(stream)
		if err == nil {
			_, err = parse(data)
		}
		var problem *Error
		if !errors.As(err, &problem) || stream.read > 4<<10 {
			t.Errorf("%q: %v, after %d bytes", head, err, stream.read)
		}
	}
}
