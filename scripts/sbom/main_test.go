package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// The test's own program is one of Go, with modules in it.
func TestBillOfMaterials(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	one, two := filepath.Join(folder, "one.json"), filepath.Join(folder, "two.json")
	for _, file := range []string{one, two} {
		if err := run([]string{program, file}); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(two); err != nil || !slices.Equal(content, again) {
		t.Error("two documents about one program differ", err)
	}
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	if d.Version != "SPDX-2.3" || len(d.Packages) < 2 || len(d.Relationships) != len(d.Packages) || len(d.Packages[0].Checksums) != 1 {
		t.Errorf("%+v", d)
	}
}

func TestDescribe(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/main", Version: "v1.2.3"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v0.1.0", Sum: "h1:abc="},
			{Path: "example.com/b", Version: "v0.2.0", Replace: &debug.Module{Path: "example.com/c", Version: "v0.3.0"}},
		},
		Settings: []debug.BuildSetting{{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}},
	}
	d := describe("main", "1234", info)
	var names []string
	for _, p := range d.Packages {
		names = append(names, p.Outside[0].Locator)
	}
	want := "pkg:golang/example.com/main@v1.2.3 pkg:golang/std@1.26.8 pkg:golang/example.com/a@v0.1.0 pkg:golang/example.com/c@v0.3.0"
	if got := strings.Join(names, " "); got != want || d.Creation.Created != "2026-01-02T03:04:05Z" || d.Packages[2].Comment != "h1:abc=" {
		t.Errorf("%s, %+v", got, d)
	}
	ids := map[string]bool{}
	for _, p := range d.Packages {
		if ids[p.ID] {
			t.Errorf("%s is there twice", p.ID)
		}
		ids[p.ID] = true
	}
}

func TestRunRefuses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{nil, {none, none + ".json"}, {none + "2", none + ".json"}} {
		if run(arguments) == nil {
			t.Errorf("%q: no error", arguments)
		}
	}
}
