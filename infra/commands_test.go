package infra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// The commands of every document are run, block after block, in a copy of the checkout, by one shell for each document. What a block
// is stands behind its fence:
//
//	sh        commands, which are run
//	console   commands behind "$ ", which are run, with what they print, which is for readers
//	yaml      YAML, which has to be some
//	json      JSON, likewise
//	text, hcl anything else
//
// and what is to be known of it in a comment on the line before:
//
//	<!-- file: NAME -->       the block is written to that file, before anything is run
//	<!-- runs on -->          the one command of the block goes on while the following blocks run, and is then told to end
//	<!-- ends with: CODE -->  the block ends with that exit code
//	<!-- not run: REASON -->  it cannot be run here; the reason is one of reasons
//
// What a document takes for granted, such as a corpus of the reader's own, is made by infra/testdata/commands/DOCUMENT.sh.

// reasons are why a block may not be run. Its commands and their options have to exist all the same.
var reasons = []string{
	"needs Docker", "needs a cluster", "needs a GPU", "needs an account at AWS", "takes minutes", "runs the tests", "fetches a release",
}

// A codeBlock is what stands between two fences of a document.
type codeBlock struct {
	line             int // of the first line inside
	info, note, text string
}

func (b *codeBlock) commands() bool { return b.info == "sh" || b.info == "console" }

// script returns the commands of a block.
func (b *codeBlock) script() string {
	if b.info != "console" {
		return b.text
	}
	var commands strings.Builder
	continued := false
	for line := range strings.Lines(b.text) {
		command, prompted := strings.CutPrefix(line, "$ ")
		if prompted || continued {
			commands.WriteString(command)
			continued = strings.HasSuffix(strings.TrimRight(line, "\n"), `\`)
		}
	}
	return commands.String()
}

// about returns what a note says of the block, if it is the kind of note that is asked for.
func (b *codeBlock) about(kind string) (string, bool) {
	rest, ok := strings.CutPrefix(b.note, kind)
	return strings.TrimSpace(strings.TrimPrefix(rest, ":")), ok
}

var note = regexp.MustCompile(`^\s*<!-- (.*) -->$`)

// codeBlocks takes a document apart.
func codeBlocks(text string) (blocks []codeBlock) {
	var inside *codeBlock
	before := ""
	for i, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && inside == nil:
			inside = &codeBlock{line: i + 2, info: fence}
			if match := note.FindStringSubmatch(before); match != nil {
				inside.note = match[1]
			}
		case isFence:
			blocks = append(blocks, *inside)
			inside = nil
		case inside != nil:
			inside.text += line + "\n"
		}
		before = line
	}
	return blocks
}

// documents lists the Markdown files of the repository, by their paths with slashes.
func documents(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(sharedtest.Root(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		relative, err := filepath.Rel(sharedtest.Root(), path)
		if err != nil {
			return err
		}
		if entry.IsDir() && relative != "." && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata") {
			return fs.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(name, ".md") {
			names = append(names, filepath.ToSlash(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 20 {
		t.Fatalf("only %d documents", len(names))
	}
	return names
}

// What every block is has to be said, and what is said has to be true.
func TestBlocksOfDocuments(t *testing.T) {
	for _, name := range documents(t) {
		for _, b := range codeBlocks(read(t, name)) {
			if err := checkBlock(t, &b); err != nil {
				t.Errorf("%s:%d: %v", name, b.line, err)
			}
		}
	}
}

var looksLikeCommand = regexp.MustCompile(`(?m)^(\$ |sluice |bin/|make |go |scripts/|docker |helm |kubectl )`)

func checkBlock(t *testing.T, b *codeBlock) error {
	t.Helper()
	var value any
	switch b.info {
	case "sh", "console":
		reason, left := b.about("not run")
		if !left {
			return nil
		}
		if !slices.Contains(reasons, reason) {
			return fmt.Errorf("%q is no reason not to run a block: %q", reason, reasons)
		}
		return checkUnrun(t, b.script())
	case "yaml":
		return yaml.Unmarshal([]byte(b.text), &value)
	case "json":
		return json.Unmarshal([]byte(b.text), &value)
	case "text", "hcl":
		if found := looksLikeCommand.FindString(b.text); found != "" {
			return fmt.Errorf("it is said to be %s, and %q looks like a command", b.info, found)
		}
		return nil
	}
	return fmt.Errorf("the fence says %q: it is to say sh, console, yaml, json, hcl or text", b.info)
}

var (
	ofSluice  = regexp.MustCompile(`(?:^|[\s/|(])sluice((?: [a-z]+)+)([^|;&\n]*)`)
	option    = regexp.MustCompile(`\s(--[a-z][a-zA-Z-]+)`)
	ofScript  = regexp.MustCompile(`(?m)(?:^|\s)((?:scripts|infra)/[a-z/-]+\.sh)`)
	ofTesting = regexp.MustCompile(`go test (?:-C \S+ )?\./(\S+).* -(?:run|bench) '?([A-Za-z]+)`)
)

// checkUnrun looks at commands that are not run: the shell must understand them, and programs, options, scripts and tests must be there.
func checkUnrun(t *testing.T, script string) error {
	t.Helper()
	shell := exec.Command("bash", "-n")
	shell.Stdin = strings.NewReader(script)
	if output, err := shell.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	script = strings.ReplaceAll(script, "\\\n", " ")
	for _, match := range ofSluice.FindAllStringSubmatch(script, -1) {
		words := append(strings.Fields(match[1]), "--help")
		help, err := exec.Command(sluice.build(t), words...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("sluice %s: %w", strings.Join(words, " "), err)
		}
		for _, found := range option.FindAllStringSubmatch(match[2], -1) {
			if strings.HasPrefix(match[2], " $") {
				break // the command has a further word, in a variable
			}
			if !strings.Contains(string(help), found[1]) {
				return fmt.Errorf("sluice%s has no option %s", match[1], found[1])
			}
		}
	}
	for _, match := range ofScript.FindAllStringSubmatch(script, -1) {
		if info, err := os.Stat(path(match[1])); err != nil || info.Mode()&0o100 == 0 {
			return fmt.Errorf("%s is not there, or cannot be run", match[1])
		}
	}
	for _, match := range ofTesting.FindAllStringSubmatch(script, -1) {
		if !hasTest(path(match[1]), match[2]) {
			return fmt.Errorf("%s has no test or benchmark %s", match[1], match[2])
		}
	}
	return nil
}

// hasTest says whether a package has a test or benchmark whose name holds a word.
func hasTest(folder, word string) bool {
	declared := regexp.MustCompile(`(?m)^func (Test|Benchmark)\w*` + strings.TrimPrefix(strings.TrimPrefix(word, "Test"), "Benchmark"))
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		return err == nil && declared.Match(content)
	})
}

// All documented commands do what they are documented to do, at least as far as their exit codes tell.
func TestDocumentedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every command of the documentation")
	}
	checkout := copyCheckout(t)
	for _, name := range documents(t) {
		if only := os.Getenv("SLUICE_DOCUMENT"); only != "" && only != name {
			continue
		}
		blocks := slices.DeleteFunc(codeBlocks(read(t, name)), func(b codeBlock) bool {
			_, file := b.about("file")
			_, left := b.about("not run")
			return left || !file && !b.commands()
		})
		if slices.ContainsFunc(blocks, func(b codeBlock) bool { return b.commands() }) {
			t.Run(name, func(t *testing.T) { runDocument(t, checkout, name, blocks) })
		}
	}
}

// copyCheckout copies the files of the repository to where documents can be run without changing it.
func copyCheckout(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "checkout")
	files := mustRun(t, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		content, err := os.ReadFile(path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path(name))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// begin is what every script begins with. Go works in the checkout itself, where everything has been built already.
const begin = `set -eo pipefail
shopt -s expand_aliases
background=()
end() {
	status=$?
	set +e
	for pid in "${background[@]}"; do kill -TERM "$pid" 2>/dev/null; done
	for pid in "${background[@]}"; do
		wait "$pid"
		code=$?
		[ "$code" = 0 ] || { echo "what runs on ended with $code" >&2; [ "$status" != 0 ] || status=$code; }
	done
	if declare -F cleanup >/dev/null; then cleanup; fi
	exit "$status"
}
trap end EXIT
go() {
	local where=$ROOT
	if [ "$2" = -C ]; then
		where=$ROOT/$3
		set -- "$1" "${@:4}"
	fi
	command go "$1" -C "$where" "${@:2}"
}
# ready: until the job that runs on is.
ready() {
	for _ in $(seq 300); do
		if curl -fsS "http://127.0.0.1:$PAGE/readyz" >/dev/null 2>&1; then return; fi
		sleep 0.2
	done
	echo "what runs on is not ready" >&2
	return 1
}
`

// documentScript puts the blocks of a document one behind the other.
func documentScript(t *testing.T, setup string, blocks []codeBlock) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(begin)
	written := map[string]bool{}
	for i, block := range blocks { // a document may show a file behind the command that reads it
		if name, ok := block.about("file"); ok && !written[name] {
			written[name] = true
			fmt.Fprintf(&b, "mkdir -p \"$(dirname %s)\"\ncat >%[1]s <<'END_%d'\n%sEND_%[2]d\n", name, i, block.text)
		}
	}
	b.WriteString(setup)
	for i, block := range blocks {
		if _, ok := block.about("file"); ok {
			continue
		}
		fmt.Fprintf(&b, "\n: '== line %d'\n", block.line)
		if _, ok := block.about("runs on"); ok {
			fmt.Fprintf(&b, "( exec %s ) >runs-on-%d.log 2>&1 &\nbackground+=($!)\nready || { cat runs-on-%[2]d.log; exit 1; }\n", strings.TrimSpace(block.script()), i)
			continue
		}
		if code, ok := block.about("ends with"); ok {
			fmt.Fprintf(&b, "set +e\n(\nset -e\n%s)\ncode=$?\nset -e\n[ \"$code\" = %s ]\n", block.script(), code)
			continue
		}
		b.WriteString(block.script())
	}
	return b.String()
}

// runDocument runs the blocks of a document in a copy of the checkout of its own.
func runDocument(t *testing.T, checkout, name string, blocks []codeBlock) {
	folder := t.TempDir()
	work := filepath.Join(folder, "checkout")
	if output, err := exec.Command("cp", "-al", checkout, work).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for link, to := range map[string]string{"checkout/.cache": path(".cache"), "shared": path("..", "shared"), "checkout/bin/sluice": sluice.build(t)} {
		at := filepath.Join(folder, link)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(to); err != nil {
			continue
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	setup, err := os.ReadFile(path("infra", "testdata", "commands", strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "/", "-")+".sh"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(setup)) {
		programs, ok := strings.CutPrefix(line, "# needs:")
		for program := range strings.FieldsSeq(programs) {
			if ok {
				tool(t, program)
			}
		}
	}
	port := sharedtest.FreePorts(t, 10, 20, 50, 60)
	script := strings.NewReplacer(
		"kafka:9092", fmt.Sprint("127.0.0.1:", port), "9092", fmt.Sprint(port), "7070", fmt.Sprint(port+50), "9090", fmt.Sprint(port+60),
		"/tmp/", filepath.ToSlash(folder)+"/tmp/",
	).Replace(documentScript(t, string(setup), blocks))
	output, err := runScript(t, work, script, fmt.Sprint("ROOT=", sharedtest.Root()), fmt.Sprint("PAGE=", port+60))
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// runScript runs a script with bash, which shows every command, and ends whatever it has started.
func runScript(t *testing.T, folder, script string, environment ...string) (string, error) {
	t.Helper()
	for _, name := range []string{"script.sh", "home/.keep", "../tmp/.keep"} {
		at := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(script), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-x", "script.sh")
	command.Dir = folder
	command.Env = append(command.Environ(), environment...)
	command.Env = append(command.Env, fmt.Sprintf("PATH=%s%c%s", filepath.Join(folder, "bin"), os.PathListSeparator, os.Getenv("PATH")))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 10 * time.Second
	output, err := command.CombinedOutput()
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // whatever is left
	return string(output), err
}

func TestCodeBlocks(t *testing.T) {
	blocks := codeBlocks("a\n<!-- not run: takes minutes -->\n```sh\nx\n```\n\n```console\n$ a \\\n  b\nprinted\n$ c\n```\n")
	if len(blocks) != 2 || blocks[0].line != 4 || blocks[0].script() != "x\n" || blocks[1].script() != "a \\\n  b\nc\n" {
		t.Fatalf("%+v", blocks)
	}
	if reason, ok := blocks[0].about("not run"); !ok || reason != "takes minutes" {
		t.Errorf("%q", reason)
	}
	if _, ok := blocks[1].about("not run"); ok {
		t.Error("the second block has a note")
	}
	for _, wrong := range []codeBlock{
		{info: "", text: "sluice"}, {info: "text", text: "sluice run job.yml\n"}, {info: "yaml", text: "a: [\n"}, {info: "json", text: "{\n"},
		{info: "sh", note: "not run: no time", text: "true\n"}, {info: "sh", note: "not run: takes minutes", text: "sluice translate --no-such-option\n"},
		{info: "sh", note: "not run: takes minutes", text: "scripts/nothing.sh\n"}, {info: "sh", note: "not run: takes minutes", text: "if\n"},
		{info: "sh", note: "not run: takes minutes", text: "go test ./kernels -run '^$' -bench NoSuchBenchmark\n"},
	} {
		if checkBlock(t, &wrong) == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

// A command that fails, also in the background, makes its document fail.
func TestScriptsOfDocumentsFail(t *testing.T) {
	for name, blocks := range map[string][]codeBlock{
		"a command":                 {{info: "sh", text: "false\ntrue\n"}},
		"in a pipe":                 {{info: "sh", text: "false | true\n"}},
		"in the background":         {{info: "sh", text: "bash -c 'exit 3' & background+=($!)\nready() { :; }\n"}},
		"another exit code":         {{info: "sh", note: "ends with: 6", text: "true\n"}},
		"before the exit":           {{info: "sh", note: "ends with: 6", text: "false\nexit 6\n"}},
		"a command that is missing": {{info: "sh", text: "no-such-command\n"}},
	} {
		if output, err := runScript(t, t.TempDir(), documentScript(t, "", blocks)); err == nil {
			t.Errorf("%s: no error\n%s", name, output)
		}
	}
	good := []codeBlock{{info: "yaml", note: "file: a/b.txt", text: "x\n"}, {info: "sh", text: "grep x a/b.txt\n"}, {info: "sh", note: "ends with: 6", text: "exit 6\n"}}
	if output, err := runScript(t, t.TempDir(), documentScript(t, "", good)); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
