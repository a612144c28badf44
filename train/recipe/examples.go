package recipe

import (
	"bytes"
	"embed"
	"path"
	"strings"
)

//go:embed examples/*.yml
var exampleFiles embed.FS

// An Example is a recipe that comes with the program.
type Example struct {
	Name  string
	Title string // its first line, which is a comment
	Text  []byte
}

// Examples returns the recipes that come with the program, by name.
func Examples() []Example {
	entries, err := exampleFiles.ReadDir("examples")
	if err != nil {
		panic(err) // it is part of the program
	}
	var list []Example
	for _, entry := range entries {
		text, err := exampleFiles.ReadFile(path.Join("examples", entry.Name()))
		if err != nil {
			panic(err)
		}
		title, _, _ := bytes.Cut(text, []byte("\n"))
		list = append(list, Example{strings.TrimSuffix(entry.Name(), ".yml"), strings.TrimPrefix(string(title), "# "), text})
	}
	return list
}
