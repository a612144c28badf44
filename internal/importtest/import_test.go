// Package importtest holds the table of who may import whom. Imports only point down: a reader of one package need not
// know what is built on top of it.
package importtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

const modulePath = "github.com/sluice-mt/sluice/"

// table lists for each package the packages of ours that it may import. A new package needs a line, and a new arrow a
// reason to be here. Do not add arrows just to make the test pass.
const table = `
	internal/binread:
	internal/compress:
	internal/cpu:
	internal/crew: internal/cpu
	internal/cputime:
	internal/cpu/cputest: internal/cpu
	internal/hugepage:
	internal/importtest:
	internal/job:
	internal/jobfile:
	internal/deadletter: internal/job
	internal/kafkaclient: internal/job
	internal/m2:
	internal/mert:
	internal/modelcheck:
	internal/nbest: internal/job
	internal/obs:
	internal/plantedtest:
	internal/readahead: internal/job
	internal/recordio: internal/job
	internal/score:
	internal/faultproxy:
	internal/s3client:
	internal/shard:
	internal/scratch:
	internal/wholefile:
	internal/sharedtest:
	internal/kafkatest: internal/kafkaclient internal/sharedtest
	internal/s3test: internal/s3client internal/sharedtest

	kernels: internal/cpu internal/hugepage

	gpukernels/cuda:
	gpukernels/emulated: internal/cputime internal/sharedtest
	gpukernels: gpukernels/cuda
	gpukernels/occupancy:
	gpukernels/tools/ptxas: gpukernels gpukernels/occupancy

	translator/batch:
	translator/bundle:
	translator/marian: internal/binread internal/wholefile
	translator/model: translator/marian
	translator/paritytest:
	translator/search:
	translator/shortlist: internal/binread internal/compress
	translator/split:
	translator/vocab:
	translator/cpumodel: internal/cpu internal/crew internal/hugepage kernels translator/marian translator/model translator/search
	translator/rescore: translator/batch translator/search translator/vocab
	translator/gpumodel: gpukernels gpukernels/cuda kernels translator/marian translator/model translator/search
	translator: internal/cpu internal/job translator/batch translator/search translator/shortlist translator/split translator/vocab

	consumer: internal/job
	consumer/contract: consumer internal/job
	consumer/file: consumer internal/compress internal/job internal/readahead internal/recordio
	consumer/s3: consumer internal/compress internal/job internal/readahead internal/recordio internal/s3client internal/shard
	consumer/kafka: consumer internal/job internal/kafkaclient
	producer: internal/job
	internal/chain: internal/compress internal/deadletter internal/job producer
	producer/contract: producer internal/job
	producer/file: producer internal/chain internal/compress internal/deadletter internal/job
	producer/s3: internal/chain internal/compress internal/deadletter internal/job internal/s3client internal/scratch producer
	producer/kafka: producer internal/deadletter internal/job internal/kafkaclient

	train/autodiff: internal/hugepage kernels
	train/network: train/autodiff translator/marian translator/model
	train/optimiser: internal/hugepage
	train/gpunetwork: gpukernels gpukernels/cuda train/autodiff train/network train/optimiser translator translator/gpumodel translator/marian translator/model translator/search
	train/checkpoint:
	train/quantise: translator/marian
	train/corpus/extsort: internal/scratch
	train/corpus: internal/scratch train/corpus/extsort
	train/align: internal/scratch train/corpus/extsort
	train/pieces: translator/vocab
	train/data: internal/compress internal/scratch train/autodiff train/corpus train/network translator/vocab
	train: train/autodiff train/network train/optimiser train/checkpoint train/corpus train/data train/quantise internal/compress internal/job internal/score translator translator/marian translator/model translator/search translator/vocab translator/cpumodel
	train/chart:
	train/report: train train/chart
	train/recipe: internal/compress internal/jobfile internal/m2 internal/score internal/wholefile train train/align train/corpus train/corpus/extsort train/pieces train/report translator/marian translator/model translator/shortlist translator/vocab

	train/handover: internal/s3client train/recipe

	pipeline: consumer producer internal/job
	pipeline/monitor: pipeline translator internal/job
	pipeline/page: pipeline translator internal/deadletter internal/job internal/jobfile
	pipeline/tracing: pipeline

	cmd/sluice: *
	scripts/notices:

	infra:
	infra/healthcheck:
	scripts/image:
	scripts/streams:
	scripts/sbom:
	scripts/reference: train
`

// vague are package names that say nothing about what is inside.
var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared"}

type goPackage struct {
	ImportPath, Dir, Name string
	GoFiles, Imports      []string
	TestImports           []string
	XTestImports          []string
}

// packages lists the packages of the module, on Linux and on Windows.
func packages(t *testing.T) []goPackage {
	t.Helper()
	var all []goPackage
	for _, system := range []string{"linux", "windows"} {
		command := exec.Command("go", "list", "-json=ImportPath,Dir,Name,GoFiles,Imports,TestImports,XTestImports", "./...")
		command.Dir = sharedtest.Root()
		command.Env = append(command.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		output, err := command.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		decoder := json.NewDecoder(strings.NewReader(string(output)))
		for {
			var p goPackage
			err := decoder.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
	}
	return all
}

func parseTable(t *testing.T) map[string][]string {
	t.Helper()
	allowed := map[string][]string{}
	for line := range strings.Lines(table) {
		name, imports, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		for _, target := range strings.Fields(imports) {
			if _, above := allowed[target]; !above && target != "*" {
				t.Errorf("the table lets %s import %s, which does not stand above it: imports point down", name, target)
			}
		}
		allowed[name] = strings.Fields(imports)
	}
	return allowed
}

func TestImportsPointDown(t *testing.T) {
	allowed := parseTable(t)
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, modulePath)
		targets, known := allowed[name]
		if !known {
			t.Errorf("package %s is not in the table", name)
			continue
		}
		for _, imported := range p.Imports {
			target, ours := strings.CutPrefix(imported, modulePath)
			if ours && !slices.Contains(targets, target) && !slices.Contains(targets, "*") {
				t.Errorf("%s imports %s, which the table does not allow", name, target)
			}
		}
		for _, imported := range p.TestImports {
			if strings.HasPrefix(imported, modulePath+"cmd/") {
				t.Errorf("the tests of %s import a command", name)
			}
		}
	}
}

func TestNamesSaySomething(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(vague, path.Base(p.ImportPath)) {
			t.Errorf("package %s: the name does not say what it is for", p.ImportPath)
		}
	}
}

// Registration by init hides what a program consists of.
func TestNoInit(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, declaration := range file.Decls {
				if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s/%s has a func init", p.ImportPath, name)
				}
			}
		}
	}
}

// direct returns the modules that go.mod names as imported by ours, and those that it names as imported by others only.
func direct(t *testing.T) (direct, indirect []string) {
	t.Helper()
	command := exec.Command("go", "mod", "edit", "-json")
	command.Dir = sharedtest.Root()
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(output, &file); err != nil {
		t.Fatal(err)
	}
	for _, module := range file.Require {
		if module.Indirect {
			indirect = append(indirect, module.Path)
		} else {
			direct = append(direct, module.Path)
		}
	}
	return direct, indirect
}

// moduleOf returns the one of modules that a package belongs to, or "".
func moduleOf(imported string, modules []string) string {
	longest := ""
	for _, module := range modules {
		if (imported == module || strings.HasPrefix(imported, module+"/")) && len(module) > len(longest) {
			longest = module
		}
	}
	return longest
}

// A module that is said to be indirect is one that nobody explains.
func TestDirectModulesAreCalledDirect(t *testing.T) {
	direct, indirect := direct(t)
	imported := map[string]bool{}
	for _, p := range packages(t) {
		for _, target := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			module := moduleOf(target, slices.Concat(direct, indirect))
			if slices.Contains(indirect, module) && !imported[module] {
				t.Errorf("%s imports %s, and go.mod calls %s indirect: go mod tidy", p.ImportPath, target, module)
			}
			imported[module] = true
		}
	}
	for _, module := range direct {
		if !imported[module] {
			t.Errorf("nothing imports %s, which go.mod calls direct: go mod tidy", module)
		}
	}
}

// go.mod explains nothing: ARCHITECTURE.md says why each module is there that is imported.
func TestDependenciesAreExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(sharedtest.Root(), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Dependencies\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("ARCHITECTURE.md has no section on dependencies")
	}
	var named []string
	for row := range strings.Lines(section) {
		if module, _, ok := strings.Cut(strings.TrimPrefix(row, "| "), " | "); ok {
			named = append(named, strings.FieldsFunc(module, func(r rune) bool { return strings.ContainsRune(" ,:()", r) })...)
		}
	}
	direct, _ := direct(t)
	for _, module := range direct {
		_, withoutHost, _ := strings.Cut(module, "/")
		if moduleOf(module, named) == "" && moduleOf(withoutHost, named) == "" {
			t.Errorf("ARCHITECTURE.md does not say why %s is there", module)
		}
	}
}
