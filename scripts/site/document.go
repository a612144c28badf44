package main

import (
	"bytes"
	"errors"
	"html"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A document is a file of Markdown, taken apart.
type document struct {
	name     string
	source   []byte
	tree     ast.Node
	markdown goldmark.Markdown
}

// A chapter of the table of contents.
type chapter struct {
	title   string
	entries []entry
}

type entry struct{ title, name string }

func (s *site) parse(name string) (*document, error) {
	source, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	d := &document{name: name, source: source}
	d.markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	d.tree = d.markdown.Parser().Parse(text.NewReader(source))
	if d.title() == "" {
		return nil, errNoTitle
	}
	return d, nil
}

// title is the text of the first heading.
func (d *document) title() string {
	for node := d.tree.FirstChild(); node != nil; node = node.NextSibling() {
		if h, ok := node.(*ast.Heading); ok && h.Level == 1 {
			return d.text(h)
		}
	}
	return ""
}

// text is what stands in a node, without mark-up.
func (d *document) text(node ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(d.source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// chapters reads a document as a table of contents: the links below each heading of the second level.
func (d *document) chapters() (list []chapter) {
	_ = ast.Walk(d.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := node.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				list = append(list, chapter{title: d.text(n)})
			}
		case *ast.Link:
			if len(list) > 0 {
				last := &list[len(list)-1]
				last.entries = append(last.entries, entry{d.text(n), path.Join(path.Dir(d.name), string(n.Destination))})
			}
		}
		return ast.WalkContinue, nil
	})
	return list
}

// rewriteLinks replaces the destinations of links and images that lead to files.
func (d *document) rewriteLinks(to func(link string) (string, error)) error {
	var problems []error
	_ = ast.Walk(d.tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var destination *[]byte
		switch n := node.(type) {
		case *ast.Link:
			destination = &n.Destination
		case *ast.Image:
			destination = &n.Destination
		default:
			return ast.WalkContinue, nil
		}
		if link := string(*destination); !strings.Contains(link, ":") && !strings.HasPrefix(link, "#") {
			address, err := to(link)
			problems = append(problems, err)
			*destination = []byte(address)
		}
		return ast.WalkContinue, nil
	})
	return errors.Join(problems...)
}

// render makes HTML. What may be wider than the page can be moved by the keyboard, too.
func (d *document) render() (string, error) {
	var b bytes.Buffer
	if err := d.markdown.Renderer().Render(&b, d.source, d.tree); err != nil {
		return "", err
	}
	return strings.NewReplacer(
		"<table>", `<div class="table" tabindex="0" role="group" aria-label="Table"><table>`, "</table>", "</table></div>",
		"<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>", "<!-- raw HTML omitted -->\n", "",
	).Replace(b.String()), nil
}

func escape(s string) string { return html.EscapeString(s) }
