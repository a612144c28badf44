//go:build linux && (amd64 || arm64) && !nogpu

package cuda

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// goTypes are what the C types of prototypes become in Go.
var goTypes = map[string][]string{
	"int": {"int32"}, "unsigned int": {"uint32"}, "unsigned char": {"uint8"}, "size_t": {"uint64"}, "unsigned long long": {"uint64"},
	"char *": {"*byte"}, "const char *": {"*byte"}, "const char **": {"**byte"}, "void *": {"unsafe.Pointer"},
	"const void *": {"unsafe.Pointer"}, "void **": {"*unsafe.Pointer", "*uintptr"}, "float *": {"*float32"},
	"int *": {"*int32"}, "size_t *": {"*uint64"},
	"CUresult": {"status"}, "CUdevice": {"deviceHandle"}, "CUcontext": {"contextHandle"}, "CUmodule": {"moduleHandle"},
	"CUfunction": {"functionHandle"}, "CUstream": {"streamHandle"}, "CUevent": {"eventHandle"}, "CUgraph": {"graphHandle"},
	"CUgraphExec": {"programHandle"}, "CUdeviceptr": {"Pointer"},
	"CUdevice_attribute": {"int32"}, "CUfunction_attribute": {"int32"}, "CUjit_option": {"int32"}, "CUstreamCaptureMode": {"int32"},
}

// goType returns what a C type may be in Go.
func goType(c string) []string {
	if known, ok := goTypes[c]; ok {
		return known
	}
	target, pointer := strings.CutSuffix(c, " *")
	var all []string
	if pointer {
		for _, t := range goTypes[target] {
			all = append(all, "*"+t)
		}
	}
	return all
}

var prototype = regexp.MustCompile(`^CUresult (cu\w+)\((.*)\)$`)

// parameters returns the types of a C parameter list, without names.
func parameters(list string) []string {
	var all []string
	for p := range strings.SplitSeq(list, ",") {
		p = strings.TrimSpace(p)
		end := strings.LastIndexAny(p, " *") + 1
		all = append(all, strings.TrimSpace(p[:end]))
	}
	return all
}

// boundFunctions returns the prototype and the Go type of each field of functions, and the name that it is found by.
func boundFunctions(t *testing.T, visit func(name, comment string, function *ast.FuncType)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "functions.go", nil, parser.ParseComments)
	must(t, err)
	structure := file.Scope.Lookup("functions").Decl.(*ast.TypeSpec).Type.(*ast.StructType)
	for _, field := range structure.Fields.List {
		name := field.Names[0].Name
		reflected, _ := reflect.TypeFor[functions]().FieldByName(name)
		visit(symbol(reflected), strings.TrimSpace(field.Doc.Text()), field.Type.(*ast.FuncType))
	}
}

// The Go type of each function is that of the prototype above it.
func TestBindingsMatchPrototypes(t *testing.T) {
	boundFunctions(t, func(name, comment string, function *ast.FuncType) {
		found := prototype.FindStringSubmatch(comment)
		if found == nil || found[1] != name {
			t.Errorf("%s: %q is not its prototype", name, comment)
			return
		}
		var have []string
		for _, field := range function.Params.List {
			for range field.Names {
				have = append(have, types.ExprString(field.Type))
			}
		}
		want := parameters(found[2])
		if len(have) != len(want) {
			t.Errorf("%s has %d parameters, and %d in C", name, len(have), len(want))
			return
		}
		for i, c := range want {
			if !slices.Contains(goType(c), have[i]) {
				t.Errorf("%s: parameter %d is %s, and %q in C, which is %v", name, i, have[i], c, goType(c))
			}
		}
	})
}

// header returns cuda.h as a compiler sees it: without comments, and functions by the names that the library exports.
func header(t *testing.T) string {
	t.Helper()
	path := emulated.Toolkit(t, "cuda_runtime", "include", "cuda.h")
	text, err := exec.Command(sharedtest.Program(t, "g++"), "-E", "-P", path).Output()
	must(t, err)
	return strings.Join(strings.Fields(string(text)), " ")
}

func TestPrototypesMatchHeader(t *testing.T) {
	text := header(t)
	boundFunctions(t, func(name, comment string, _ *ast.FuncType) {
		declared := regexp.MustCompile(`CUresult ` + name + `\([^)]*\);`).FindString(text)
		if squeeze(declared) != squeeze(comment+";") {
			t.Errorf("%s: the prototype is %q, and in cuda.h %q", name, comment, declared)
		}
	})
}

func squeeze(s string) string { return strings.ReplaceAll(s, " ", "") }

// Numbers of enumerations have the name of cuda.h behind them.
func TestNumbersMatchHeader(t *testing.T) {
	text := header(t)
	compared := 0
	for _, name := range []string{"errors.go", "driver.go", "module.go", "stream.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(v.Comment.Text(), "CU") {
				return true
			}
			compared++
			inHeader := strings.TrimSpace(v.Comment.Text())
			want := regexp.MustCompile(`\b` + inHeader + ` = (0x[0-9a-f]+|\d+)`).FindStringSubmatch(text)
			have := v.Values[0].(*ast.BasicLit).Value
			if want == nil || strings.TrimPrefix(want[1], "0x") != have {
				t.Errorf("%s is %s, and %s in cuda.h %v", v.Names[0], have, inHeader, want)
			}
			return true
		})
	}
	if compared < 30 {
		t.Errorf("only %d numbers were compared", compared)
	}
}
