package validate

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// A terraformModule is what a folder of .tf files declares, and what it refers to.
type terraformModule struct {
	declared map[string]bool // var.x, local.x, data.type.name, type.name
	blocks   []*hclsyntax.Block
}

func loadModule(t *testing.T) *terraformModule {
	t.Helper()
	files, err := filepath.Glob(file("infra", "terraform", "*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no files", err)
	}
	m := &terraformModule{declared: map[string]bool{}}
	parser := hclparse.NewParser()
	for _, name := range files {
		parsed, problems := parser.ParseHCLFile(name)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		m.blocks = append(m.blocks, parsed.Body.(*hclsyntax.Body).Blocks...)
	}
	for _, block := range m.blocks {
		m.declare(block)
	}
	return m
}

func (m *terraformModule) declare(block *hclsyntax.Block) {
	switch block.Type {
	case "variable":
		m.declared["var."+block.Labels[0]] = true
	case "locals":
		for name := range block.Body.Attributes {
			m.declared["local."+name] = true
		}
	case "resource":
		m.declared[strings.Join(block.Labels, ".")] = true
	case "data":
		m.declared["data."+strings.Join(block.Labels, ".")] = true
	}
}

// reference returns what a traversal refers to, "" for what every module has.
func reference(traversal hcl.Traversal) string {
	var names []string
	for _, step := range traversal {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, s.Name)
		case hcl.TraverseAttr:
			names = append(names, s.Name)
		}
	}
	depth := 2
	switch names[0] {
	case "path", "each", "count", "self", "statement":
		return ""
	case "data":
		depth = 3
	}
	if len(names) < depth {
		return ""
	}
	return strings.Join(names[:depth], ".")
}

func TestTerraformReferencesLeadSomewhere(t *testing.T) {
	m := loadModule(t)
	used := map[string]bool{}
	for _, block := range m.blocks {
		problems := hclsyntax.VisitAll(block.Body, func(node hclsyntax.Node) hcl.Diagnostics {
			expression, ok := node.(*hclsyntax.ScopeTraversalExpr)
			if !ok {
				return nil
			}
			name := reference(expression.Traversal)
			used[name] = true
			// Types of variables look like references.
			if name != "" && !m.declared[name] && block.Type != "terraform" {
				t.Errorf("%v: %s is not declared", expression.SrcRange, name)
			}
			return nil
		})
		if problems.HasErrors() {
			t.Fatal(problems)
		}
	}
	for name := range m.declared {
		if strings.HasPrefix(name, "var.") && !used[name] {
			t.Errorf("%s is used by nothing", name)
		}
	}
	for _, block := range m.blocks {
		if (block.Type == "variable" || block.Type == "output") && block.Body.Attributes["description"] == nil {
			t.Errorf("%s %s has no description", block.Type, block.Labels[0])
		}
	}
}

// The policies that the module reads have the words that it replaces, and no others.
func TestTerraformFillsThePoliciesIn(t *testing.T) {
	roles := string(readFile(t, "infra", "terraform", "roles.tf"))
	word := regexp.MustCompile(`[:/]([A-Z]{3,})\b`)
	for _, name := range []string{"file-drop.json", "corpus.json"} {
		if !strings.Contains(roles, "/../iam/"+name) {
			t.Errorf("%s is not used", name)
		}
		for _, match := range word.FindAllStringSubmatch(string(readFile(t, "infra", "iam", name)), -1) {
			if !strings.Contains(roles, fmt.Sprintf("%q", match[1])) {
				t.Errorf("%s has the word %s, which nothing replaces", name, match[1])
			}
		}
	}
}

func TestTerraformNotifiesOfWhatTheJobReads(t *testing.T) {
	job := string(readFile(t, "docs", "examples", "file-drop-s3.yml"))
	for _, block := range loadModule(t).blocks {
		if block.Type != "resource" || block.Labels[0] != "aws_s3_bucket_notification" {
			continue
		}
		value, problems := block.Body.Blocks[0].Body.Attributes["filter_prefix"].Expr.Value(nil)
		if problems.HasErrors() || !strings.Contains(job, "${BUCKET}/"+value.AsString()) {
			t.Errorf("the bucket tells of %v, which the job does not read: %v", value, problems)
		}
		return
	}
	t.Error("the bucket tells nobody")
}

func TestTerraformIsFormatted(t *testing.T) {
	for _, name := range []string{"tofu", "terraform"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if output, err := exec.Command(program, "fmt", "-check", "-diff", file("infra", "terraform")).Output(); err != nil {
			t.Errorf("%s fmt: %v\n%s", name, err, output)
		}
		return
	}
	t.Skip("neither tofu nor terraform is here")
}

func TestReference(t *testing.T) {
	var found []string
	for _, text := range []string{"var.name", "data.aws_region.current.name", "aws_sqs_queue.drops.arn", "each.value", "path.module"} {
		expression, problems := hclsyntax.ParseExpression([]byte(text), "", hcl.InitialPos)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		found = append(found, reference(expression.Variables()[0]))
	}
	if want := []string{"var.name", "data.aws_region.current", "aws_sqs_queue.drops", "", ""}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
