package shortlist_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/binread"
	"github.com/sluice-mt/sluice/translator/shortlist"
)

func smallOptions() shortlist.Options {
	return shortlist.Options{
		Parameters: shortlist.Parameters{First: 3, Best: 2},
		Source:     numbered("s", 5), Target: numbered("t", 100),
	}
}

func smallBinary(t testing.TB) []byte {
	t.Helper()
	var data bytes.Buffer
	if _, err := smallList(t).WriteTo(&data); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

func read(data []byte, options shortlist.Options) (*shortlist.Shortlist, error) {
	return shortlist.Read(bytes.NewReader(data), options)
}

func TestBinaryCutShort(t *testing.T) {
	data := smallBinary(t)
	for _, skip := range []bool{false, true} {
		options := smallOptions()
		options.SkipChecksum = skip
		for n := range data {
			if _, err := read(data[:n], options); err == nil {
				t.Errorf("the first %d of %d bytes were accepted", n, len(data))
			}
		}
		if _, err := read(append(slices.Clone(data), 0), options); err == nil {
			t.Error("a byte too many was accepted")
		}
	}
}

// Every flipped bit is noticed, but for those in the last id of an odd number, which Marian's checksum does not cover.
func TestBinaryBitsFlipped(t *testing.T) {
	data := smallBinary(t)
	covered := 16 + (len(data)-16)/8*8
	for i := range covered {
		for bit := range 8 {
			damaged := slices.Clone(data)
			damaged[i] ^= 1 << bit
			if _, err := read(damaged, smallOptions()); err == nil {
				t.Errorf("byte %d, bit %d: accepted", i, bit)
			}
		}
	}
}

func TestBinaryFieldsOutOfBounds(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    int
		value uint64
		want  string
	}{
		{"first", 16, 1 << 40, "first"},
		{"best", 24, 1 << 31, "best"},
		{"no offsets", 32, 0, "number of offsets"},
		{"another vocabulary", 32, 5, "end"},
		{"overflow of offsets", 32, 1 << 61, "sizes"},
		{"overflow of ids", 40, 1 << 62, "sizes"},
		{"offsets begin late", 48, 1, "offset 0"},
		{"offsets go back", 48 + 16, 4, "offset 3"},
		{"offset beyond the ids", 48 + 16, 1 << 63, "offset 2"},
		{"id beyond the vocabulary", 48 + 6*8, 100, "id 0"},
	} {
		data := smallBinary(t)
		if c.name == "id beyond the vocabulary" {
			binary.LittleEndian.PutUint32(data[c.at:], uint32(c.value))
		} else {
			binary.LittleEndian.PutUint64(data[c.at:], c.value)
		}
		options := smallOptions()
		options.SkipChecksum = true
		_, err := read(data, options)
		var located *binread.Error
		if !errors.As(err, &located) || !strings.Contains(located.What, c.want) {
			t.Errorf("%s: got %v, want an error about %q", c.name, err, c.want)
		}
	}
}

// The bytes are assembled here once more, so that reader and writer cannot err together.
func TestBinaryLayout(t *testing.T) {
	var want []byte
	for _, v := range []uint64{
		0xF11A48D5013417F5, 0x346af6974c81ca8, 3, 2, 6, 4, // magic, checksum, first, best, offsets, ids
		0, 0, 2, 3, 3, 4, // offsets
		90 | 91<<32, 50 | 0<<32, // ids: two of s1, one of s2, and id 0 for s4, the last
	} {
		want = binary.LittleEndian.AppendUint64(want, v)
	}
	if got := smallBinary(t); !bytes.Equal(got, want) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
}

func TestBinaryOfAnotherVocabulary(t *testing.T) {
	options := smallOptions()
	options.Source = numbered("s", 6)
	if _, err := read(smallBinary(t), options); err == nil || !strings.Contains(err.Error(), "source vocabulary of 5 pieces, but this one has 6") {
		t.Errorf("got %v", err)
	}
}

func TestBinaryWithoutVocabularies(t *testing.T) {
	list, err := read(smallBinary(t), shortlist.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if list.Sources() != 5 || list.Targets() != 92 || list.Parameters().Best != 2 {
		t.Errorf("%d sources, %d targets, %+v", list.Sources(), list.Targets(), list.Parameters())
	}
}

func TestRefusedFormats(t *testing.T) {
	quicksand := binary.LittleEndian.AppendUint32(nil, 1234567890)
	swapped := smallBinary(t)[:8]
	slices.Reverse(swapped)
	for name, data := range map[string][]byte{
		"Quicksand": append(quicksand, 1, 2, 3), "big-endian": swapped, "zip": []byte("PK\x03\x04abc"), "neither": {1, 0, 2},
	} {
		if _, err := read(data, smallOptions()); !errors.Is(err, shortlist.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	shared := smallOptions()
	shared.Shared = true
	if _, err := read(smallBinary(t), shared); err == nil {
		t.Error("a shared vocabulary of two sizes was accepted")
	}
	if _, err := read(nil, smallOptions()); err == nil {
		t.Error("an empty file was accepted")
	}
}

func TestTextErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"t1 s1 0.5\n\nt1 s1\n": "line 3: has 2 fields",
		"t1 s1 0.5 x":          "line 1: has 4 fields",
		"t1 s1 half":           `line 1: "half" is not a probability`,
		"t1 s1 NaN":            `line 1: "NaN"`,
		"t1 s1 1e999":          `line 1: "1e999"`,
		"t1 s1 -1":             `line 1: "-1"`,
		"t1 s1 1\n" + strings.Repeat("x", 100_000): "line 2: has more than",
	} {
		_, err := read([]byte(text), smallOptions())
		var line *shortlist.LineError
		if !errors.As(err, &line) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
	if _, err := read([]byte("t1 s1 1"), shortlist.Options{Source: numbered("s", 3)}); err == nil || !strings.Contains(err.Error(), "target vocabulary") {
		t.Errorf("without target vocabulary: %v", err)
	}
}

func TestCompressedFormsCutShort(t *testing.T) {
	for name, plain := range map[string][]byte{"text": []byte("t90 s1 .5\nt91 s1 .4\n"), "binary": smallBinary(t)} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		w.Write(plain)
		w.Close()
		if list, err := read(packed.Bytes(), smallOptions()); err != nil || list.Entries() < 2 {
			t.Errorf("%s: %v", name, err)
		}
		for n := 3; n < packed.Len(); n++ {
			if _, err := read(packed.Bytes()[:n], smallOptions()); err == nil {
				t.Errorf("%s: the first %d of %d bytes were accepted", name, n, packed.Len())
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(smallBinary(f), true, true)
	f.Add(smallBinary(f), false, false)
	f.Add([]byte("t90 s1 .5\nt91 s1 .4\nt3 s4 1e-9\nNULL s1 1\n"), false, true)
	f.Fuzz(func(t *testing.T, data []byte, skip, vocabularies bool) {
		options := smallOptions()
		options.SkipChecksum = skip
		if !vocabularies {
			options.Source, options.Target = nil, nil
			options.Shared = len(data)%2 == 0
		}
		list, err := read(data, options)
		if err != nil {
			return
		}
		if list.Targets() > 1<<20 {
			return // a single large id is allowed where no vocabulary bounds it, but not worth the memory here
		}
		got := list.Candidates([]int32{0, 1, 2, 3, 4, 5}, nil)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("candidates %v are not ascending", got)
		}
		if len(got) > 0 && int(got[len(got)-1]) >= list.Targets() {
			t.Errorf("candidate %d of %d targets", got[len(got)-1], list.Targets())
		}
	})
}

// A text that is cut at any byte, or has one changed, is refused with its line, or is a shortlist that works: a list of lines may end
// after any of them.
func TestDamagedText(t *testing.T) {
	data := []byte("t90 s1 .5\nt91 s1 .4\nt3 s4 1e-9\nNULL s1 1\nt1 NULL 0.25\n")
	try := func(damaged []byte) {
		list, err := read(damaged, smallOptions())
		if err != nil {
			var line *shortlist.LineError
			if !errors.As(err, &line) && len(damaged) > 0 && !errors.Is(err, shortlist.ErrUnsupported) {
				t.Errorf("%q: %v does not name the line", damaged, err)
			}
			return
		}
		got := list.Candidates([]int32{0, 1, 2, 3, 4}, nil)
		if !slices.IsSorted(got) || len(got) > 0 && int(got[len(got)-1]) >= list.Targets() {
			t.Errorf("%q: candidates %v", damaged, got)
		}
	}
	for n := range data {
		try(data[:n:n])
		for _, flip := range []byte{0x01, 0x10, 0x80, 0xff} {
			changed := slices.Clone(data)
			changed[n] ^= flip
			try(changed)
		}
	}
}
