package train

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func unmarshal(t testing.TB, line []byte) Measurement {
	t.Helper()
	var m Measurement
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	return m
}

func openAndCut(t *testing.T, path string, update, validated int) *metricsFile {
	t.Helper()
	m, err := openMetrics(path)
	if err == nil {
		err = m.cut(update, validated)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMetricsAreCut: what an interrupted run wrote about updates after its checkpoint goes.
func TestMetricsAreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	m := openAndCut(t, path, 0, 0)
	for update := range 5 {
		if err := m.add(Measurement{Kind: "train", Update: update}); err != nil {
			t.Fatal(err)
		}
		if update == 2 { // the checkpoint was written while this was under way
			if err := m.add(Measurement{Kind: "valid", Update: update}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := m.file.WriteString(`{"kind":"tr`); err != nil {
		t.Fatal(err)
	}
	if err := m.file.Close(); err != nil {
		t.Fatal(err)
	}
	m = openAndCut(t, path, 2, 1)
	defer m.file.Close()
	if err := m.add(Measurement{Kind: "valid", Update: 3}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"train","update":0,"epoch":0}
{"kind":"train","update":1,"epoch":0}
{"kind":"train","update":2,"epoch":0}
{"kind":"valid","update":3,"epoch":0}
`
	if string(data) != want {
		t.Errorf("the file holds\n%s\nwant\n%s", data, want)
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add([]byte("{\"kind\":\"train\",\"update\":1}\n{\"update\":2}\n{"), 1)
	f.Fuzz(func(t *testing.T, data []byte, update int) {
		kept := data[:valid(data, update, update)]
		for line := range bytes.Lines(kept) {
			if m := unmarshal(t, line); m.Update > update {
				t.Errorf("line %q is kept, after update %d", line, update)
			}
		}
		if valid(kept, update, update) != len(kept) {
			t.Error("what is kept is not kept again")
		}
	})
}
