package marian

import (
	"encoding/binary"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mixedModel has tables with some, all and hardly any of their rows in 8 bits.
func mixedModel(t testing.TB) *File {
	t.Helper()
	f := small()
	f.Tensors = append(f.Tensors, floats("decoder_Wemb", []int{7, 13}, gaussian(91, 1)), floats("whole_W", []int{3, 5}, gaussian(15, 1)),
		floats("zeros_W", []int{2, 5}, append(make([]float32, 5), gaussian(5, 1)...)))
	stored, err := f.Log4(3, map[string]int{"decoder_Wemb": 3, "whole_W": 9, "zeros_W": 1})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// TestRoundRow8 wants numbers that are at most half a scale away, and that stay when they are rounded again.
func TestRoundRow8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(rapid.Float32Range(-1, 1), 1, 20).Draw(t, "row")
		size := math.Pow(10, rapid.Float64Range(-46, 38).Draw(t, "magnitude"))
		for i := range row {
			row[i] = float32(float64(row[i]) * size)
		}
		once, again := make([]float32, len(row)), make([]float32, len(row))
		RoundRow8(once, row)
		RoundRow8(again, once)
		if !slices.Equal(once, again) {
			t.Fatalf("%v becomes %v when it is rounded again", once, again)
		}
		if largest(row) < limit8*0x1p-127 && slices.ContainsFunc(once, func(v float32) bool { return v != 0 }) {
			t.Fatalf("%v is too small for a scale, and becomes %v", row, once)
		}
		step := float64(largest(row)) / limit8 * (1 + 1e-4)
		for i, v := range row {
			if off := math.Abs(float64(v) - float64(once[i])); off > step/2+0x1p-126*limit8 {
				t.Fatalf("%v of %v becomes %v", v, row, once[i])
			}
		}
	})
}

// TestMixedFilesKeepTheValues wants a file to hold what rounding gives, and to stay as it is when it is converted again.
func TestMixedFilesKeepTheValues(t *testing.T) {
	f := mixedModel(t)
	eight := map[string]int{"decoder_Wemb": 3, "whole_W": 3, "zeros_W": 1}
	path := filepath.Join(t.TempDir(), "model.bin")
	if err := WriteBin(path, f, Browsermt); err != nil {
		t.Fatal(err)
	}
	read := open(t, path)
	if read.Fingerprint() != f.Fingerprint() {
		t.Error("another model comes back")
	}
	for _, row := range read.Rows() {
		if row.Eight != eight[row.Name] || (row.Type == "log4mixed") != (eight[row.Name] > 0) {
			t.Errorf("%s is stored as %s with %d rows in 8 bits, want %d", row.Name, row.Type, row.Eight, eight[row.Name])
		}
	}
	want := gaussian(91, 1)
	for row := range slices.Chunk(want[:3*13], 13) {
		RoundRow8(row, row)
	}
	RoundLogBlocks(want[3*13:], want[3*13:], 4, 3)
	if got, err := read.Tensor("decoder_Wemb").Float32(); err != nil || !slices.Equal(got, want) {
		t.Errorf("the numbers are %v, want %v (%v)", got, want, err)
	}
	float, err := read.Float(Float32)
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []*File{read, float} {
		again, err := source.Log4(7, eight)
		if err != nil {
			t.Fatal(err)
		}
		if again.Fingerprint() != f.Fingerprint() {
			t.Errorf("converting %s again changes it", source.Tensor("decoder_Wemb"))
		}
	}
	if err := WriteNPZ(path, f); err == nil || !strings.Contains(err.Error(), "cannot hold") {
		t.Errorf("an .npz takes rows in 8 bits: %v", err)
	}
}

// TestMixedStaysIn4Bits wants matrices that were trained to lie on grids of 4 bits to be stored in these.
func TestMixedStaysIn4Bits(t *testing.T) {
	values := gaussian(256, 1)
	FitLogGrid(values, 4, 3).Round(values, values)
	f := &File{Tensors: []*Tensor{floats("Wemb", []int{4, 64}, values)}}
	stored, err := f.Log4(3, map[string]int{"Wemb": 2})
	if err != nil || stored.Tensors[0].Type != Log4 {
		t.Errorf("stored as %v (%v)", stored.Tensors[0].Type, err)
	}
}

func TestMixedRefusals(t *testing.T) {
	count := func(rows uint32, data ...byte) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, rows), data...)
	}
	infinite := append(count(1, 0, 0, 0x80, 0x7f, 1, 2), make([]byte, logBlockBytes)...)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"too many rows": {count(3, make([]byte, 40)...), "has 3 rows in 8 bits"},
		"too short":     {count(1, make([]byte, 8)...), "takes 44"},
		"no count":      {[]byte{1, 0}, "only 2 are left"},
	} {
		if _, err := parse(bin(1, "w\x00", codeLog4Mixed, []int32{2, 2}, uint64(len(c.data)), c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", name, err, c.want)
		}
	}
	f, err := parse(bin(1, "w\x00", codeLog4Mixed, []int32{2, 2}, uint64(len(infinite)), infinite))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Tensors[0].Float32(); err == nil || !strings.Contains(err.Error(), "scale") {
		t.Errorf("an infinite scale: %v", err)
	}
}

func TestRowsIn8Bits(t *testing.T) {
	tensors := []*Tensor{{Name: "Wemb", Shape: []int{100, 64}}, {Name: "decoder_l1_W1", Shape: []int{8, 16}},
		{Name: "decoder_l1_b1", Shape: []int{1, 16}}, {Name: "decoder_l2_W1", Shape: []int{8, 16}}}
	for choice, want := range map[string]map[string]int{
		"none": nil, "": nil,
		"Wemb":                         {"Wemb": 100},
		"Wemb:30, decoder_l1*":         {"Wemb": 30, "decoder_l1_W1": 8},
		"decoder_*:99,decoder_l2_W1:2": {"decoder_l1_W1": 8, "decoder_l2_W1": 2},
		"Wemb:0":                       {"Wemb": 0},
	} {
		if got, err := RowsIn8Bits(choice, tensors); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", choice, got, err, want)
		}
	}
	for choice, want := range map[string]string{
		"W":       `"W": the model has no matrix of that name`,
		"*_b1":    "no matrix",
		"Wemb:":   "want NAME:ROWS",
		"Wemb:x":  "want NAME:ROWS",
		"Wemb:-1": "want NAME:ROWS",
		"Wemb[":   "syntax error",
		"Wemb,,":  "no matrix",
		"some":    "no matrix",
	} {
		if _, err := RowsIn8Bits(choice, tensors); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v does not say %q", choice, err, want)
		}
	}
}

func TestAutomaticRowsOfLittleModels(t *testing.T) {
	if few := AutomaticRows([]*Tensor{{Name: "Wemb", Shape: []int{4, 4}}, {Name: "b", Shape: []int{1, 4000}}}); len(few) != 0 {
		t.Errorf("where biases alone take too much: %v", few)
	}
	tables := AutomaticRows([]*Tensor{{Name: "encoder_Wemb", Shape: []int{300, 64}}, {Name: "decoder_Wemb", Shape: []int{2000, 64}}, {Name: "b_W1", Shape: []int{1000, 1000}}})
	if n := tables["decoder_Wemb"]; tables["encoder_Wemb"] != 300 || n <= 300 || n >= 2000 {
		t.Errorf("%v: want all of the small table and some of the large one", tables)
	}
}
