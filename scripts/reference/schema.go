package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A schema is as much of JSON Schema as ours use.
type schema struct {
	Description string
	Properties  map[string]*schema
	Required    []string
	Items       *schema
	Enum        []string
	Type        any // a name or several
	AnyOf       []*schema
	Pattern     string
	Minimum     *float64
	Maximum     *float64
}

func readSchema(root, name string) (*schema, error) {
	content, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		return nil, err
	}
	s := new(schema)
	return s, json.Unmarshal(content, s)
}

// values says what may stand there.
func (s *schema) values() string {
	if len(s.Enum) > 0 {
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	}
	types := s.types()
	has := func(name string) bool { return slices.Contains(types, name) }
	switch {
	case s.Properties != nil || has("object"):
		return "settings"
	case len(s.AnyOf) > 0:
		return "text, or several"
	case has("array") && s.Items != nil && s.Items.Properties != nil:
		return "list of settings"
	case has("array"):
		return "list"
	case has("boolean"):
		return "true, false"
	case strings.Contains(s.Pattern, "ns|us"):
		return "duration"
	case strings.Contains(s.Pattern, "kKMGT"):
		return "size"
	case s.Maximum != nil && s.Minimum != nil:
		return fmt.Sprintf("%v to %v", *s.Minimum, *s.Maximum)
	case has("integer"):
		return "whole number"
	case has("number"):
		return "number"
	}
	return "text"
}

func (s *schema) types() []string {
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		var names []string
		for _, name := range t {
			names = append(names, fmt.Sprint(name))
		}
		return names
	}
	return nil
}

// inner is the schema whose properties stand below a setting.
func (s *schema) inner() *schema {
	if s.Items != nil && s.Items.Properties != nil {
		return s.Items
	}
	return s
}

// A setting is a row of a table.
type setting struct {
	path string
	*schema
}

// settings lists what a schema has, each setting before those below it, without what leave names.
func (s *schema) settings(prefix string, leave func(path string) bool) (list []setting) {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		path := prefix + name
		if leave(path) {
			continue
		}
		property := s.Properties[name]
		list = append(list, setting{path, property})
		list = append(list, property.inner().settings(path+".", leave)...)
	}
	return list
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(strings.TrimSpace(text))
}

func table(b *strings.Builder, settings []setting) {
	b.WriteString("\n| setting | values | meaning |\n|---|---|---|\n")
	for _, s := range settings {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", s.path, s.values(), cell(s.Description))
	}
}

func jobFilePage(root string) (string, error) {
	s, err := readSchema(root, "job.schema.json")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Settings of a job file\n\n"+
		"What `sluice run`, `lint`, `doctor` and `dlq` read, as in [job.schema.json](../job.schema.json); [streaming.md](../streaming.md) explains them. "+
		"Required: `%s`. `source` and `sink` have one setting below them: `files`, `s3` or `kafka`. Durations are written as `90s` or `1m30s`, sizes as "+
		"`64MiB`, `1GB` or a number of bytes. Values may hold `${NAME}`, a variable of the environment.\n", strings.Join(s.Required, "`, `"))
	at := func(first string) func(string) bool {
		return func(path string) bool {
			return !strings.HasPrefix(path+".", first) && !strings.HasPrefix(first, path+".") || strings.HasPrefix(path, "source.s3.topic.")
		}
	}
	for _, part := range []struct{ title, path string }{
		{"From files", "source.files."}, {"From S3", "source.s3."}, {"From Kafka", "source.kafka."}, {"Records", "records."},
		{"To files", "sink.files."}, {"To S3", "sink.s3."}, {"To Kafka", "sink.kafka."}, {"Observing", "observe."},
	} {
		fmt.Fprintf(&b, "\n## %s\n", part.title)
		rows := s.settings("", at(part.path))
		table(&b, slices.DeleteFunc(rows, func(row setting) bool {
			return strings.HasPrefix(part.path, row.path+".") && row.path != strings.TrimSuffix(part.path, ".")
		}))
		if part.path == "source.s3." {
			b.WriteString("\nBelow `source.s3.topic` stand the settings of `source.kafka`.\n")
		}
	}
	b.WriteString("\n## The job itself\n")
	rows := s.settings("", func(path string) bool {
		return strings.Contains(path, ".") || slices.Contains([]string{"source", "sink", "records", "observe"}, path)
	})
	table(&b, rows)
	b.WriteString("\nBelow `translate` stand the options of [`sluice translate`](commands.md#sluice-translate), without dashes.\n")
	return b.String(), nil
}

func recipePage(root string) (string, error) {
	s, err := readSchema(root, "recipe.schema.json")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Settings of a recipe\n\nWhat `sluice train recipe` reads, as in [recipe.schema.json](../recipe.schema.json); [training.md](../training.md) explains it.\n")
	table(&b, s.settings("", func(path string) bool { return strings.Contains(path, ".") }))
	steps := s.Properties["steps"]
	if steps == nil || steps.Items == nil {
		return "", fmt.Errorf("the schema has no steps")
	}
	for _, step := range steps.Items.settings("", func(path string) bool { return strings.Contains(path, ".") }) {
		if len(step.Properties) == 0 {
			fmt.Fprintf(&b, "\nOf every step, `%s`: %s\n", step.path, cell(step.Description))
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", step.path, cell(step.Description))
		table(&b, step.schema.settings("", func(string) bool { return false }))
	}
	return b.String(), nil
}
