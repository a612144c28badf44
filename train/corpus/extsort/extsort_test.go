package extsort

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sorted runs records through a Sorter that spills after every so many of them.
func sorted(t *rapid.T, folder string, records [][]byte, every int) [][]byte {
	s := New(folder, 0)
	for i, record := range records {
		if every > 0 && i%every == 0 && i > 0 {
			if err := s.spill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Add(record); err != nil {
			t.Fatal(err)
		}
	}
	var got [][]byte
	if err := s.Each(func(record []byte) error {
		got = append(got, bytes.Clone(record))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestOrder compares with sorting in memory: whatever the records, whatever the number of runs.
func TestOrder(t *testing.T) {
	folder := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 12), 0, 300).Draw(t, "records")
		got := sorted(t, folder, records, rapid.IntRange(0, 20).Draw(t, "every"))
		slices.SortFunc(records, bytes.Compare)
		if !slices.EqualFunc(got, records, bytes.Equal) {
			t.Errorf("got %q, want %q", got, records)
		}
	})
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, %v", left, err)
	}
}

// TestManyRuns merges more runs than can be merged at once, from records that make the Sorter spill by itself.
func TestManyRuns(t *testing.T) {
	folder := t.TempDir()
	s := New(folder, 0)
	random := rand.New(rand.NewPCG(1, 2))
	const records = 80_000
	large := 0
	for i := range records {
		record := binary.BigEndian.AppendUint64(nil, random.Uint64()>>40)
		record = binary.BigEndian.AppendUint32(record, uint32(i))
		record = append(record, make([]byte, 800+random.IntN(100))...)
		if i%20_000 == 0 {
			record = append(record, make([]byte, chunkSize)...)
			large++
		}
		if err := s.Add(record); err != nil {
			t.Fatal(err)
		}
		if s.bytes > MinMemory+chunkSize+1000 {
			t.Fatalf("%d bytes in memory", s.bytes)
		}
	}
	if len(s.runs) <= fanIn {
		t.Fatalf("only %d runs", len(s.runs))
	}
	var previous []byte
	seen := make([]bool, records)
	if err := s.Each(func(record []byte) error {
		if bytes.Compare(previous, record) >= 0 {
			t.Fatalf("%x before %x", previous, record)
		}
		seen[binary.BigEndian.Uint32(record[8:])] = true
		if len(record) > chunkSize {
			large--
		}
		previous = append(previous[:0], record...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(seen, false) || large != 0 {
		t.Error("records were lost")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, %v", left, err)
	}
}

// TestErrors: what f returns ends Each, and a folder that cannot be written is told.
func TestErrors(t *testing.T) {
	enough := errors.New("enough")
	for _, spill := range []bool{false, true} {
		s := New(t.TempDir(), 0)
		for _, record := range []string{"b", "a", "c"} {
			if err := s.Add([]byte(record)); err != nil {
				t.Fatal(err)
			}
			if spill {
				if err := s.spill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		calls := 0
		if err := s.Each(func([]byte) error { calls++; return enough }); !errors.Is(err, enough) || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s := New(t.TempDir()+"/missing", 0)
	record := make([]byte, MinMemory)
	if err := errors.Join(s.Add(record), s.Add(record)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
