package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func example() *Checkpoint {
	return &Checkpoint{State: []byte(`{"update":7}`), Vectors: []Vector{
		{"values", []float32{1, -2.5, float32(math.Inf(1))}}, {"empty", []float32{}}, {"mean", make([]float32, floatChunk+3)},
	}}
}

func encoded(t testing.TB, c *Checkpoint) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	data := encoded(t, example())
	c, err := decode(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, example()) {
		t.Errorf("%+v", c)
	}
	if v := c.Vector("values"); len(v) != 3 || v[1] != -2.5 || c.Vector("other") != nil {
		t.Errorf("vectors %v", v)
	}
}

// TestDamage cuts a file at every length and flips a bit of every byte.
func TestDamage(t *testing.T) {
	data := encoded(t, &Checkpoint{State: []byte(`{"update":7}`), Vectors: []Vector{{"values", []float32{1, 2, 3}}, {"mean", []float32{4}}}})
	for n := range data {
		if _, err := decode(bytes.NewReader(data[:n]), int64(n)); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
		flipped := bytes.Clone(data)
		flipped[n] ^= 1 << (n % 8)
		if _, err := decode(bytes.NewReader(flipped), int64(len(data))); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d flipped: %v", n, err)
		}
	}
}

// TestLengths claims what is not there, with a valid checksum: nothing of that size may be made.
func TestLengths(t *testing.T) {
	data := encoded(t, &Checkpoint{State: []byte(`{}`), Vectors: []Vector{{"v", []float32{1}}}})
	at := bytes.Index(data, []byte("v")) + 1
	for _, length := range []uint64{2, 1 << 40, math.MaxUint64, math.MaxUint64/4 + 2} {
		changed := bytes.Clone(data)
		binary.LittleEndian.PutUint64(changed[at:], length)
		binary.LittleEndian.PutUint32(changed[len(changed)-4:], crc32.Checksum(changed[:len(changed)-4], castagnoli))
		if _, err := decode(bytes.NewReader(changed), int64(len(changed))); !errors.Is(err, ErrDamaged) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

func TestFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "model.npz.checkpoints")
	if _, _, err := Latest(folder); !errors.Is(err, ErrNone) {
		t.Fatalf("an empty folder: %v", err)
	}
	write := func(update int) {
		c := &Checkpoint{State: []byte(`{}`), Vectors: []Vector{{"v", []float32{float32(update)}}}}
		if err := Write(folder, update, c, 2); err != nil {
			t.Fatal(err)
		}
	}
	write(9)
	write(10)
	left := filepath.Join(folder, name(11)+".00000000.tmp")
	if err := os.WriteFile(left, []byte("half"), 0o666); err != nil {
		t.Fatal(err)
	}
	write(1000)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := name(10) + " " + name(1000); strings.Join(names, " ") != want {
		t.Errorf("the folder holds %v, want %s", names, want)
	}
	c, skipped, err := Latest(folder)
	if err != nil || skipped != nil || c.Vector("v")[0] != 1000 {
		t.Errorf("latest: %+v, %v, %v", c, skipped, err)
	}
	if err := os.Truncate(filepath.Join(folder, name(1000)), 20); err != nil {
		t.Fatal(err)
	}
	if c, skipped, err = Latest(folder); err != nil || !errors.Is(skipped, ErrDamaged) || c.Vector("v")[0] != 10 {
		t.Errorf("after damage: %+v, %v, %v", c, skipped, err)
	}
	if err := os.Remove(filepath.Join(folder, name(10))); err != nil {
		t.Fatal(err)
	}
	if _, _, err = Latest(folder); !errors.Is(err, ErrDamaged) {
		t.Errorf("with nothing whole: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	if err := example().encode(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
			return
		}
		if !bytes.Equal(encoded(t, c), data) {
			t.Error("what was read is not written again")
		}
	})
}
