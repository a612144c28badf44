package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A program is sluice, built for its help.
type program struct{ path string }

// commandsPage shows what every command says of itself.
func commandsPage(root string) (string, error) {
	folder, err := os.MkdirTemp("", "reference")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	p := program{filepath.Join(folder, "sluice")}
	command := exec.Command("go", "build", "-o", p.path, "./cmd/sluice")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, output)
	}
	var b strings.Builder
	b.WriteString("# Commands\n\nWhat `sluice COMMAND --help` prints, of every command. `sluice man FOLDER` writes the same as manual pages.\n")
	err = p.describe(&b, nil)
	return b.String(), err
}

var subcommand = regexp.MustCompile(`(?m)^  ([a-z-]+) {2,}`)

// describe writes the help of a command and of those below it.
func (p program) describe(b *strings.Builder, name []string) error {
	output, err := exec.Command(p.path, append(name, "--help")...).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(name, " "), err)
	}
	help := string(output)
	about, usage, found := strings.Cut(help, "\nUsage:\n")
	if !found {
		return fmt.Errorf("%s: the help shows no usage", strings.Join(name, " "))
	}
	if len(name) > 0 {
		fmt.Fprintf(b, "\n%s sluice %s\n\n%s\n\n```text\nUsage:\n%s\n```\n",
			strings.Repeat("#", len(name)+1), strings.Join(name, " "), prose(about), strings.TrimSpace("\x00" + usage)[1:])
	}
	_, list, found := strings.Cut(usage, "Available Commands:\n")
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for _, match := range subcommand.FindAllStringSubmatch(list, -1) {
		if match[1] == "help" || match[1] == "completion" && len(name) == 0 {
			continue
		}
		if err := p.describe(b, append(name[:len(name):len(name)], match[1])); err != nil {
			return err
		}
	}
	return nil
}

// prose makes paragraphs of help into Markdown: what has a special meaning there is kept as it is.
func prose(text string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "|", `\|`).Replace(strings.TrimSpace(text))
}
