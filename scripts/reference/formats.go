package main

import (
	"fmt"
	"go/ast"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/train"
)

// A format is a file that the program writes, as lines of JSON or one document of it.
type format struct {
	title, about, file, typeName string
}

// formats are those that somebody may want to read. Other tables follow the first one where fields hold structures.
var formats = []format{
	{"Dead letters", "A line of JSON for each record that could not be translated: a message of the topic, a line of an object or file. " +
		"What does not apply is missing. `sluice dlq` reads them.", "internal/deadletter/deadletter.go", "wire"},
	{"Position of a record", "`position` in letters and checkpoints: where the lane continues behind the record.", "internal/job/job.go", "Position"},
	{"Message of a dead letter", "`message` of a letter: what came with the record from a topic.", "internal/deadletter/deadletter.go", "message"},
	{"Report of a run", "`sluice translate --report FILE`: one document of JSON, written when the run ends.", "cmd/sluice/summary.go", "summary"},
	{"Checkpoint of a file", "Beside an output that is not complete. The output's data lie in a partial file; both are removed when it has its name.",
		"producer/file/checkpoint.go", "checkpoint"},
	{"Ledger of a folder", "`.sluice.jsonl` in an output folder: a line for each output that is complete. Of several lines for an output the last counts.",
		"producer/file/ledger.go", "finished"},
	{"Entry of a chain", "Beside each file that is made of a topic.", "producer/file/chain.go", "chainEntry"},
	{"Course of a training", "`NAME.metrics.jsonl` beside the model NAME: a line of JSON for each measurement.", "train/metrics.go", "Measurement"},
	{"Findings of doctor", "`sluice doctor --json`.", "cmd/sluice/doctor.go", "examination"},
	{"A check of doctor", "One of `checks`.", "cmd/sluice/doctor.go", "check"},
}

const otherFormats = `# File formats

What the program reads and writes. The tables are generated from the code; fields are added, those that are there stay.

## Texts and records

| format | read as | written as |
|---|---|---|
| text | a line is a record; CR LF is a line's end, too | a line |
| TSV | columns; one is translated | the row, with the translation in its place or in a column of its own |
| JSONL | a JSON value a line; one member is translated | the line with all its bytes, and the translation in a member |
| Parquet | columns; one is translated | all columns, and the translation in one of them |

Compression is told by content when it is read, and chosen by the name when it is written: gz, zst, bz2, xz.

## Models, vocabularies, shortlists

| format | read | written |
|---|---|---|
| ` + "`.npz`" + ` of Marian, plain or gz, zst | yes | ` + "`sluice train`, `model convert`" + ` |
| ` + "`.bin`" + ` of Marian, mainline's and browsermt's (Firefox) | yes | ` + "`model convert`" + ` |
| SentencePiece ` + "`.spm`" + `, unigram and BPE | yes | ` + "`vocab train`" + ` |
| Marian's ` + "`.yml`, `.json`" + ` and text vocabularies | yes | |
| lexical shortlists, text and Marian's binary form | yes | ` + "`shortlist build`, `shortlist convert`, `align --shortlist`" + ` |
| n-best lists of Marian and Moses | ` + "`rescore`, `mbr`" + ` | ` + "`translate --n-best`, `rescore`" + ` |
| word alignments, pairs of positions (Pharaoh) | ` + "`sluice train`" + ` | ` + "`align`, `translate --alignment hard`" + ` |

`

func fileFormatsPage(root string) (string, error) {
	var b strings.Builder
	b.WriteString(otherFormats)
	for _, f := range formats {
		s, err := readStructure(root, f.file, f.typeName, "json")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n| field | values | meaning |\n|---|---|---|\n", f.title, f.about)
		for _, field := range s.fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field.name, field.kind, cell(field.about))
		}
		b.WriteString("\n")
	}
	flags, err := flagsTable(root)
	return b.String() + flags, err
}

// flagsTable lists what results can be flagged with.
func flagsTable(root string) (string, error) {
	file, err := parse(root, "internal/job/job.go")
	if err != nil {
		return "", err
	}
	var names, meanings []string
	ast.Inspect(file, func(node ast.Node) bool {
		declaration, ok := node.(*ast.GenDecl)
		if !ok {
			return true
		}
		for _, spec := range declaration.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if declaration.Tok.String() == "const" {
				meanings = append(meanings, comment(value.Comment, value.Doc))
			} else if value.Names[0].Name == "flagNames" {
				for _, element := range value.Values[0].(*ast.CompositeLit).Elts {
					name, _ := strconv.Unquote(element.(*ast.BasicLit).Value)
					names = append(names, name)
				}
			}
		}
		return true
	})
	if len(names) == 0 || len(names) != len(meanings) {
		return "", fmt.Errorf("%d flags with %d meanings", len(names), len(meanings))
	}
	var b strings.Builder
	b.WriteString("## Flags\n\nIn reports, letters, `--jsonl` and the header `sluice-flags` of messages. None of them means that a record is missing.\n\n| flag | meaning |\n|---|---|\n")
	for i, name := range names {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, cell(meanings[i]))
	}
	return b.String(), nil
}

// trainingPage lists the settings of a training with their defaults.
func trainingPage(root string) (string, error) {
	config := train.DefaultConfig()
	content, err := yaml.Marshal(&config)
	if err != nil {
		return "", err
	}
	var defaults map[string]yaml.Node
	if err := yaml.Unmarshal(content, &defaults); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Settings of a training\n\nThe keys of the file that `sluice train --config FILE` reads. They are those of Marian's training, and mean the same; the comments say what is " +
		"particular. [training.md](../training.md) is about whole recipes.\n")
	for _, part := range []struct{ title, file, typeName string }{
		{"Data, course, validation", "train/config.go", "Config"}, {"The network", "translator/model/config.go", "Description"},
		{"Recurrent models", "translator/model/recurrent.go", "RecurrentKeys"}, {"Devlin's decoder", "translator/model/devlin.go", "DevlinKeys"},
	} {
		s, err := readStructure(root, part.file, part.typeName, "yaml")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## %s\n\n| key | default | |\n|---|---|---|\n", part.title)
		for _, field := range s.fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field.name, defaultOf(field.name, defaults), cell(field.about))
		}
	}
	return b.String(), nil
}

func defaultOf(name string, defaults map[string]yaml.Node) string {
	if name == "cpu-threads" {
		return "one for each core"
	}
	node := defaults[name]
	if node.Kind == yaml.SequenceNode {
		var values []string
		for _, value := range node.Content {
			values = append(values, value.Value)
		}
		return code(strings.Join(values, " "))
	}
	return code(node.Value)
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
