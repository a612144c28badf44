//go:build linux && (amd64 || arm64) && !nogpu

package cuda

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

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

	"uint64_t": {"uint64"}, "int64_t": {"int64"}, "const float *": {"*float32"}, "cudaStream_t": {"streamHandle"},
	"cublasStatus_t": {"blasStatus"}, "cublasLtHandle_t": {"blasHandle"}, "cublasLtMatmulDesc_t": {"descriptionHandle"},
	"cublasLtMatrixLayout_t": {"layoutHandle"}, "cublasLtMatmulPreference_t": {"preferenceHandle"},
	"const cublasLtMatmulAlgo_t *": {"*algorithmBits"}, "cublasLtMatmulHeuristicResult_t *": {"*heuristicResult"},
	"cublasComputeType_t": {"int32"}, "cudaDataType": {"int32"}, "cudaDataType_t": {"int32"}, "cublasLtMatmulDescAttributes_t": {"int32"},
	"cublasLtMatrixLayoutAttribute_t": {"int32"}, "cublasLtMatmulPreferenceAttributes_t": {"int32"}, "cublasLtMatmulAlgoConfigAttributes_t": {"int32"},
}

// operands are how the operands of a product are passed in Go, which cuBLASLt declares as const void * or void *: factors of float32 in memory of
// this machine, and matrices in the device's.
var operands = map[string]string{"alpha": "*float32", "beta": "*float32", "A": "Pointer", "B": "Pointer", "C": "Pointer", "D": "Pointer", "workspace": "Pointer"}

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

var prototype = regexp.MustCompile(`^(?:CUresult|cublasStatus_t|size_t|const char) \*?(cu\w+)\((.*)\)$`)

// A parameterOfC is one of a C prototype.
type parameterOfC struct{ of, name string }

// parameters reads a C parameter list.
func parameters(list string) []parameterOfC {
	var all []parameterOfC
	for p := range strings.SplitSeq(list, ",") {
		p = strings.TrimSpace(p)
		if p == "void" {
			continue
		}
		end := strings.LastIndexAny(p, " *") + 1
		of, name := strings.TrimSpace(p[:end]), p[end:]
		if array, ok := strings.CutSuffix(name, "[]"); ok {
			of, name = of+" *", array
		}
		all = append(all, parameterOfC{of, name})
	}
	return all
}

// A binding is a structure whose fields are functions of a library.
type binding struct {
	file, name, prefix string
	of                 reflect.Type
	header             func(t *testing.T) string
}

func bindings() []binding {
	return []binding{
		{"functions.go", "functions", driverPrefix, reflect.TypeFor[functions](), header},
		{"blas_functions.go", "blasFunctions", blasPrefix, reflect.TypeFor[blasFunctions](), blasHeader},
	}
}

// each visits the prototype and the Go type of each field, and the name that it is found by.
func (b binding) each(t *testing.T, visit func(name, comment string, function *ast.FuncType)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), b.file, nil, parser.ParseComments)
	must(t, err)
	structure := file.Scope.Lookup(b.name).Decl.(*ast.TypeSpec).Type.(*ast.StructType)
	for _, field := range structure.Fields.List {
		reflected, _ := b.of.FieldByName(field.Names[0].Name)
		visit(symbol(b.prefix, reflected), strings.TrimSpace(field.Doc.Text()), field.Type.(*ast.FuncType))
	}
}

// The Go type of each function is that of the prototype above it.
func TestBindingsMatchPrototypes(t *testing.T) {
	for _, b := range bindings() {
		b.each(t, func(name, comment string, function *ast.FuncType) {
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
				allowed := goType(c.of)
				if as, ok := operands[c.name]; ok && b.prefix == blasPrefix {
					allowed = []string{as}
				}
				if !slices.Contains(allowed, have[i]) {
					t.Errorf("%s: parameter %d is %s, and %q in C, which is %v", name, i, have[i], c.of, allowed)
				}
			}
		})
	}
}

// neverFailing are the calls that tests need not let fail, with the reason.
var neverFailing = map[string]string{
	"cuInit": "before all work: TestUnusable", "cuDriverGetVersion": "before all work: TestUnusable", "cublasLtGetVersion": "tells no error",
	"cuGetErrorName": "names another's error", "cuGetErrorString": "explains another's error", "cublasLtGetStatusName": "names another's error",

	"cuDevicePrimaryCtxRelease": "gives back", "cuModuleUnload": "gives back", "cuMemFree": "gives back", "cuMemFreeHost": "gives back",
	"cuStreamDestroy": "gives back", "cuEventDestroy": "gives back", "cuGraphDestroy": "gives back", "cuGraphExecDestroy": "gives back",
	"cublasLtDestroy": "gives back", "cublasLtMatmulDescDestroy": "gives back", "cublasLtMatrixLayoutDestroy": "gives back",
	"cublasLtMatmulPreferenceDestroy": "gives back",
}

// Each call is one that tests let fail, or has a reason why not.
func TestFailingCallsAreComplete(t *testing.T) {
	failing, there := emulated.FailingCalls(), map[string]bool{}
	for _, b := range bindings() {
		b.each(t, func(name, _ string, _ *ast.FuncType) {
			name, _, _ = strings.Cut(name, "_") // a version
			there[name] = true
			if _, fails := failing[name]; fails == (neverFailing[name] != "") {
				t.Errorf("%s: fails in tests: %v; the reason why not: %q", name, fails, neverFailing[name])
			}
		})
	}
	for name := range failing {
		if !there[name] {
			t.Errorf("%s fails in tests, and nobody calls it", name)
		}
	}
	for name := range neverFailing {
		if !there[name] {
			t.Errorf("%s has a reason not to fail in tests, and nobody calls it", name)
		}
	}
}

// header returns cuda.h as a compiler sees it: without comments, and functions by the names that the library exports.
func header(t *testing.T) string {
	t.Helper()
	return preprocessed(t, "-E", "-P", emulated.Toolkit(t, "cuda_runtime", "include", "cuda.h"))
}

// blasHeader returns cublasLt.h in the same way.
func blasHeader(t *testing.T) string {
	t.Helper()
	return preprocessed(t, append([]string{"-E", "-P"}, includingBLAS(t)...)...)
}

// includingBLAS are the compiler's flags, and the file, to read cublasLt.h. The types of 16 bits are not needed.
func includingBLAS(t *testing.T) []string {
	t.Helper()
	path := emulated.Toolkit(t, "cublas", "include", "cublasLt.h")
	folders := []string{filepath.Dir(path), emulated.Toolkit(t, "cuda_runtime", "include"), emulated.Toolkit(t, "cuda_nvcc", "include")}
	return []string{"-D__CUDA_FP16_H__", "-D__CUDA_BF16_H__", "-I" + folders[0], "-I" + folders[1], "-I" + folders[2], "-w", path}
}

func preprocessed(t *testing.T, arguments ...string) string {
	t.Helper()
	text, err := exec.Command(sharedtest.Program(t, "g++"), arguments...).Output()
	must(t, err)
	return strings.Join(strings.Fields(string(text)), " ")
}

func TestPrototypesMatchHeader(t *testing.T) {
	for _, b := range bindings() {
		text := b.header(t)
		b.each(t, func(name, comment string, _ *ast.FuncType) {
			declared := regexp.MustCompile(`(CUresult|cublasStatus_t|size_t|const char ?\*) ?` + name + `\([^)]*\);`).FindString(text)
			if squeeze(declared) != squeeze(comment+";") {
				t.Errorf("%s: the prototype is %q, and in the header %q", name, comment, declared)
			}
		})
	}
}

func squeeze(s string) string { return strings.ReplaceAll(s, " ", "") }

// Numbers of enumerations have the name of cuda.h behind them.
func TestNumbersMatchHeader(t *testing.T) {
	text := header(t)
	compared := 0
	for _, name := range []string{"errors.go", "driver.go", "module.go", "stream.go"} {
		numbersOf(t, name, func(v *ast.ValueSpec, have, inHeader string) {
			compared++
			want := regexp.MustCompile(`\b` + inHeader + ` = (0x[0-9a-f]+|\d+)`).FindStringSubmatch(text)
			if want == nil || strings.TrimPrefix(want[1], "0x") != have {
				t.Errorf("%s is %s, and %s in cuda.h %v", v.Names[0], have, inHeader, want)
			}
		})
	}
	if compared < 30 {
		t.Errorf("only %d numbers were compared", compared)
	}
}

// numbersOf visits the constants of a file that have a name of a header behind them.
func numbersOf(t *testing.T, name string, visit func(v *ast.ValueSpec, have, inHeader string)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	must(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Comment.Text(), "CU") {
			visit(v, v.Values[0].(*ast.BasicLit).Value, strings.TrimSpace(v.Comment.Text()))
		}
		return true
	})
}

// The numbers of cuBLASLt, some of which the header computes, and the structures that are passed to it, are those that a compiler sees.
func TestBLASMatchesHeader(t *testing.T) {
	flags := includingBLAS(t)
	program, compared := new(strings.Builder), 0
	fmt.Fprintf(program, "#include %q\n#include <cstddef>\n", flags[len(flags)-1])
	numbersOf(t, "blas.go", func(v *ast.ValueSpec, have, inHeader string) {
		compared++
		fmt.Fprintf(program, "static_assert(%s == %s, \"%s\");\n", inHeader, have, v.Names[0])
	})
	if compared < 30 {
		t.Errorf("only %d numbers were compared", compared)
	}
	var r heuristicResult
	for member, offset := range map[string]uintptr{"algo": unsafe.Offsetof(r.algorithm), "workspaceSize": unsafe.Offsetof(r.workspace),
		"state": unsafe.Offsetof(r.state), "wavesCount": unsafe.Offsetof(r.waves)} {
		fmt.Fprintf(program, "static_assert(offsetof(cublasLtMatmulHeuristicResult_t, %s) == %d);\n", member, offset)
	}
	fmt.Fprintf(program, "static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == %d && sizeof(cublasLtMatmulAlgo_t) == %d);\n",
		unsafe.Sizeof(r), unsafe.Sizeof(r.algorithm))
	command := exec.Command(sharedtest.Program(t, "g++"), append(flags[:len(flags)-1:len(flags)-1], "-fsyntax-only", "-x", "c++", "-")...)
	command.Stdin = strings.NewReader("struct __half; struct __nv_bfloat16;\n" + program.String())
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
