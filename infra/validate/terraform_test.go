package validate

import (
	"encoding/json"
	"fmt"
	"os"
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

// An awsBlock is what the provider knows of a resource, or of a block inside one. Arguments are mapped to whether they are required.
type awsBlock struct {
	Required   bool
	Arguments  map[string]bool
	Blocks     map[string]awsBlock
	Attributes []string
}

// awsSchema reads what testdata/aws_schema.py has taken out of the bindings that are generated from the provider's schema. The provider
// itself comes from a registry, and cannot be asked here.
func awsSchema(t *testing.T) map[string]awsBlock {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "aws.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct{ Resources map[string]awsBlock }
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Resources
}

// ofEveryResource are arguments and blocks that every resource may have.
var ofEveryResource = []string{"count", "for_each", "depends_on", "provider", "lifecycle"}

// awsProblems compares a body with the schema: names that the provider does not know, and required ones that are missing.
func awsProblems(body *hclsyntax.Body, known awsBlock) (problems []string) {
	given := map[string]bool{}
	for name, attribute := range body.Attributes {
		given[name] = true
		if _, ok := known.Arguments[name]; !ok && !slices.Contains(ofEveryResource, name) {
			problems = append(problems, fmt.Sprintf("%v: there is no argument %s", attribute.SrcRange, name))
		}
	}
	for _, block := range body.Blocks {
		name, inner := block.Type, block.Body
		if name == "dynamic" {
			name, inner = block.Labels[0], block.Body.Blocks[0].Body
		}
		given[name] = true
		if below, ok := known.Blocks[name]; ok {
			problems = append(problems, awsProblems(inner, below)...)
		} else if !slices.Contains(ofEveryResource, name) {
			problems = append(problems, fmt.Sprintf("%v: there is no block %s", block.TypeRange, name))
		}
	}
	for name, required := range known.Arguments {
		if required && !given[name] {
			problems = append(problems, fmt.Sprintf("%v: the argument %s is missing", body.SrcRange, name))
		}
	}
	for name, block := range known.Blocks {
		if block.Required && !given[name] {
			problems = append(problems, fmt.Sprintf("%v: the block %s is missing", body.SrcRange, name))
		}
	}
	return problems
}

// resourceName is how the schema calls what a block declares.
func resourceName(block *hclsyntax.Block) string {
	if block.Type == "data" {
		return "data." + block.Labels[0]
	}
	return block.Labels[0]
}

func TestTerraformHasTheProvidersNames(t *testing.T) {
	schema := awsSchema(t)
	checked := 0
	for _, block := range loadModule(t).blocks {
		if block.Type != "resource" && block.Type != "data" {
			continue
		}
		known, ok := schema[resourceName(block)]
		if !ok {
			t.Errorf("%v: the schema lacks %s: run testdata/aws_schema.py", block.TypeRange, resourceName(block))
			continue
		}
		for _, problem := range awsProblems(block.Body, known) {
			t.Error(problem)
		}
		checked++
	}
	if checked < 15 {
		t.Errorf("only %d resources", checked)
	}
}

// Whatever is referred to as an attribute of a resource is one.
func TestTerraformRefersToAttributes(t *testing.T) {
	schema := awsSchema(t)
	checked := 0
	for _, block := range loadModule(t).blocks {
		_ = hclsyntax.VisitAll(block.Body, func(node hclsyntax.Node) hcl.Diagnostics {
			expression, ok := node.(*hclsyntax.ScopeTraversalExpr)
			if !ok {
				return nil
			}
			var names []string
			for _, step := range expression.Traversal {
				switch s := step.(type) {
				case hcl.TraverseRoot:
					names = append(names, s.Name)
				case hcl.TraverseAttr:
					names = append(names, s.Name)
				}
			}
			if names[0] == "data" {
				names = append([]string{"data." + names[1]}, names[2:]...)
			}
			if known, ok := schema[names[0]]; ok && len(names) > 2 {
				checked++
				if !slices.Contains(known.Attributes, names[2]) {
					t.Errorf("%v: %s has no attribute %s", expression.SrcRange, names[0], names[2])
				}
			}
			return nil
		})
	}
	if checked < 10 {
		t.Errorf("only %d references", checked)
	}
}

func TestAWSProblems(t *testing.T) {
	known := awsSchema(t)["aws_s3_bucket_notification"]
	for text, want := range map[string]string{
		`bucket = "b"`: "", `buckets = "b"`: "no argument buckets", ``: "bucket is missing", "bucket = \"b\"\nqueue {\n events = []\n}": "queue_arn is missing",
		"bucket = \"b\"\nqueues {\n}": "no block queues", "bucket = \"b\"\nqueue {\n events = []\n queue_arn = \"a\"\n prefix = \"\"\n}": "no argument prefix",
	} {
		parsed, problems := hclsyntax.ParseConfig([]byte(text), "", hcl.InitialPos)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		if found := strings.Join(awsProblems(parsed.Body.(*hclsyntax.Body), known), "; "); (want == "") != (found == "") || !strings.Contains(found, want) {
			t.Errorf("%s: %q, want %q", text, found, want)
		}
	}
}
