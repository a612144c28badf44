// Command notices prints the licences of all modules that are built into sluice. It fails if one of them is not among
// those that may be shipped.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// licences are recognised by words that only their text holds.
var licences = []struct{ name, words string }{
	{"Apache-2.0", "Apache License"},
	{"MPL-2.0", "Mozilla Public License"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"ISC", "Permission to use, copy, modify, and/or distribute"},
	{"BSD", "Redistribution and use in source and binary forms"},
}

type module struct {
	Path, Version, Dir string
	Main               bool
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	modules, err := builtIn()
	if err != nil {
		return err
	}
	fmt.Fprint(w, "sluice contains the following modules.\n")
	for _, m := range modules {
		text, name, err := licence(m)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s\n%s %s (%s)\n\n%s\n", strings.Repeat("=", 80), m.Path, m.Version, name, strings.TrimSpace(text))
	}
	return nil
}

// builtIn lists the modules whose packages the command imports, for any of the systems that it is built for.
func builtIn() ([]module, error) {
	found := map[string]module{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		command := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/sluice")
		command.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		output, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		decoder := json.NewDecoder(bytes.NewReader(output))
		for {
			var p struct{ Module *module }
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list: %w", err)
			}
			if p.Module != nil && !p.Module.Main {
				found[p.Module.Path] = *p.Module
			}
		}
	}
	var modules []module
	for _, m := range found {
		modules = append(modules, m)
	}
	sort.Slice(modules, func(i, j int) bool { return modules[i].Path < modules[j].Path })
	return modules, nil
}

// licence returns the text of a module's licence files, and what it is called.
func licence(m module) (text, name string, err error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return "", "", err
	}
	for _, entry := range entries {
		upper := strings.ToUpper(entry.Name())
		if entry.IsDir() || !strings.HasPrefix(upper, "LICENSE") && !strings.HasPrefix(upper, "LICENCE") &&
			!strings.HasPrefix(upper, "COPYING") && !strings.HasPrefix(upper, "NOTICE") && !strings.HasPrefix(upper, "UNLICENSE") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(m.Dir, entry.Name()))
		if err != nil {
			return "", "", err
		}
		text += strings.TrimSpace(string(content)) + "\n\n"
	}
	for _, l := range licences {
		if strings.Contains(strings.Join(strings.Fields(text), " "), l.words) {
			return text, l.name, nil
		}
	}
	return "", "", fmt.Errorf("%s %s: no licence that may be shipped was found", m.Path, m.Version)
}
