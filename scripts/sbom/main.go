// Command sbom writes the bill of materials of a program of Go, as SPDX 2.3: every module that the linker has put in, as the program
// itself says. The same program gives the same document.
//
//	sbom PROGRAM DOCUMENT
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 2 {
		return errors.New("expected a program and the document to write")
	}
	content, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	bill := describe(filepath.Base(arguments[0]), fmt.Sprintf("%x", sha256.Sum256(content)), info)
	text, err := json.MarshalIndent(bill, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(arguments[1], append(text, '\n'), 0o666)
}

// A document is an SPDX document, as far as there is something to say. https://spdx.github.io/spdx-spec/v2.3/
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []part         `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type part struct {
	ID        string      `json:"SPDXID"`
	Name      string      `json:"name"`
	Version   string      `json:"versionInfo"`
	Download  string      `json:"downloadLocation"`
	Analyzed  bool        `json:"filesAnalyzed"`
	Concluded string      `json:"licenseConcluded"`
	Declared  string      `json:"licenseDeclared"`
	Copyright string      `json:"copyrightText"`
	Purpose   string      `json:"primaryPackagePurpose,omitempty"`
	Checksums []checksum  `json:"checksums,omitempty"`
	Comment   string      `json:"comment,omitempty"` // Go's own checksum, which SPDX has no name for
	Outside   []reference `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const nothingSaid = "NOASSERTION"

// describe lists the program, the modules in it, and the Go that it was built with.
func describe(name, sum string, info *debug.BuildInfo) *document {
	created := "1970-01-01T00:00:00Z"
	for _, setting := range info.Settings {
		if setting.Key == "vcs.time" {
			created = setting.Value // not the time of the build, which would differ each time
		}
	}
	d := &document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: "https://" + info.Main.Path + "/sbom/" + sum,
		Creation:  creation{created, []string{"Tool: " + info.Main.Path + "/scripts/sbom"}},
	}
	program := module("SPDXRef-program", &info.Main)
	program.Purpose, program.Declared = "APPLICATION", "Apache-2.0"
	program.Checksums = []checksum{{"SHA256", sum}}
	d.Packages = append(d.Packages, program)
	d.Relationships = append(d.Relationships, relationship{d.ID, "DESCRIBES", program.ID})
	golang := debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	for i, dependency := range append([]*debug.Module{&golang}, info.Deps...) {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		p := module(fmt.Sprintf("SPDXRef-module-%d", i), dependency)
		p.Purpose = "LIBRARY"
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{program.ID, "DEPENDS_ON", p.ID})
	}
	return d
}

func module(id string, m *debug.Module) part {
	return part{
		ID: id, Name: m.Path, Version: m.Version, Download: nothingSaid, Concluded: nothingSaid, Declared: nothingSaid, Copyright: nothingSaid,
		Comment: m.Sum, Outside: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
	}
}
