package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// parse reads one file of Go.
func parse(root, name string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments|parser.SkipObjectResolution)
}

// comment returns what stands behind or above something, in one line.
func comment(behind, above *ast.CommentGroup) string {
	text := strings.Join(strings.Fields(behind.Text()), " ")
	if text == "" {
		text = strings.Join(strings.Fields(above.Text()), " ")
	}
	return text
}

func exitCodesPage(root string) (string, error) {
	file, err := parse(root, "cmd/sluice/exit.go")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Exit codes\n\nOf every command. [streaming.md](../streaming.md#stopping) says what they mean for a job that is started again by a scheduler.\n\n| code | meaning |\n|---|---|\n")
	rows := 0
	ast.Inspect(file, func(node ast.Node) bool {
		value, ok := node.(*ast.ValueSpec)
		if !ok || len(value.Values) != 1 || !strings.HasPrefix(value.Names[0].Name, "exit") {
			return true
		}
		if number, ok := value.Values[0].(*ast.BasicLit); ok {
			fmt.Fprintf(&b, "| %s | %s |\n", number.Value, cell(comment(value.Comment, value.Doc)))
			rows++
		}
		return true
	})
	if rows < 8 {
		return "", fmt.Errorf("only %d exit codes were found", rows)
	}
	b.WriteString("\nA process that was killed has the code of its shell: 128 and the number of the signal.\n")
	return b.String(), nil
}

// metricsPage lists the descriptions that the collector is made of.
func metricsPage(root string) (string, error) {
	file, err := parse(root, "pipeline/monitor/collector.go")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nWhat `/metrics` of a job serves for Prometheus, beside those of Go (`go_…`) and of the process (`process_…`). [streaming.md](../streaming.md#watching) says " +
		"what to look at, [the dashboard](../../infra/dashboards/sluice.json) draws them.\n\n| metric | labels | meaning |\n|---|---|---|\n")
	rows := 0
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != "description" || len(call.Args) < 2 {
			return true
		}
		words := make([]string, len(call.Args))
		for i, argument := range call.Args {
			if text, ok := argument.(*ast.BasicLit); ok {
				words[i], _ = strconv.Unquote(text.Value)
			}
		}
		labels := ""
		if len(words) > 2 {
			labels = "`" + strings.Join(words[2:], "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `sluice_%s` | %s | %s |\n", words[0], labels, cell(words[1]))
		rows++
		return true
	})
	if rows < 20 {
		return "", fmt.Errorf("only %d metrics were found", rows)
	}
	return b.String(), nil
}

// A structure is a struct of Go that is written as YAML or JSON.
type structure struct {
	about  string
	fields []field
}

type field struct{ name, kind, about string }

// readStructure finds a struct in a file. The tag's first part is the name of a field.
func readStructure(root, name, typeName, tag string) (*structure, error) {
	file, err := parse(root, name)
	if err != nil {
		return nil, err
	}
	for _, declaration := range file.Decls {
		types, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range types.Specs {
			declared, ok := spec.(*ast.TypeSpec)
			if !ok || declared.Name.Name != typeName {
				continue
			}
			body, ok := declared.Type.(*ast.StructType)
			if !ok {
				return nil, fmt.Errorf("%s: %s is no struct", name, typeName)
			}
			return &structure{comment(types.Doc, declared.Doc), fieldsOf(body, tag)}, nil
		}
	}
	return nil, fmt.Errorf("%s has no type %s", name, typeName)
}

func fieldsOf(body *ast.StructType, tag string) (fields []field) {
	for _, f := range body.Fields.List {
		if f.Tag == nil {
			continue
		}
		text, _ := strconv.Unquote(f.Tag.Value)
		name, _, _ := strings.Cut(reflect.StructTag(text).Get(tag), ",")
		if name == "" || name == "-" {
			continue
		}
		about := comment(f.Comment, nil)
		if about == "" && tag == "json" {
			about = strings.ReplaceAll(name, "_", " ")
		}
		fields = append(fields, field{name, kindOf(f.Type), about})
	}
	return fields
}

// kindOf names a type of Go by what JSON and YAML have for it.
func kindOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return kindOf(e.X)
	case *ast.ArrayType:
		if name, ok := e.Elt.(*ast.Ident); ok && name.Name == "byte" {
			return "base64"
		}
		return "list"
	case *ast.MapType:
		return "object"
	case *ast.SelectorExpr:
		if e.Sel.Name == "Time" {
			return "time"
		}
		return "object"
	case *ast.Ident:
		switch {
		case e.Name == "string":
			return "text"
		case e.Name == "bool":
			return "true, false"
		case strings.HasPrefix(e.Name, "int"), strings.HasPrefix(e.Name, "uint"):
			return "whole number"
		case strings.HasPrefix(e.Name, "float"):
			return "number"
		}
	}
	return "object"
}

// fuzzTargetsPage lists all fuzz targets, with what their corpora are made of.
func fuzzTargetsPage(root string) (string, error) {
	var b strings.Builder
	b.WriteString("# Fuzz targets\n\n`scripts/fuzz.sh TIME` runs all of them, CI for a second each. The corpus of a target are the seeds that its test adds, valid inputs " +
		"and such as once failed (some are made in loops), and the files in `testdata/fuzz` beside the test, if there are any; what the engine finds in addition is kept in Go's build cache.\n\n" +
		"| package | target | seeds added in | files | what must hold |\n|---|---|---|---|---|\n")
	rows := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if relative != "." && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		n, err := fuzzTargets(&b, root, filepath.ToSlash(relative))
		rows += n
		return err
	})
	if err == nil && rows < 50 {
		err = fmt.Errorf("only %d fuzz targets were found", rows)
	}
	return b.String(), err
}

func fuzzTargets(b *strings.Builder, root, name string) (rows int, err error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil || !strings.Contains(string(content), "\nfunc Fuzz") {
		return 0, err
	}
	file, err := parse(root, name)
	if err != nil {
		return 0, err
	}
	folder := name[:strings.LastIndex(name, "/")]
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(function.Name.Name, "Fuzz") {
			continue
		}
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "testdata", "fuzz", function.Name.Name, "*"))
		if err != nil {
			return rows, err
		}
		files := ""
		if len(found) > 0 {
			files = strconv.Itoa(len(found))
		}
		about := strings.TrimSpace(strings.TrimPrefix(comment(function.Doc, nil), function.Name.Name))
		fmt.Fprintf(b, "| `%s` | `%s` | %s | %s | %s |\n", folder, function.Name.Name, seeds(function), files, cell(about))
		rows++
	}
	return rows, nil
}

// seeds says in how many places of its body a target adds seeds.
func seeds(function *ast.FuncDecl) string {
	places := 0
	ast.Inspect(function.Body, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Add" && len(call.Args) > 0 {
				places++
			}
		}
		return true
	})
	if places == 0 {
		return "a function"
	}
	return strconv.Itoa(places) + map[bool]string{true: " place", false: " places"}[places == 1]
}
