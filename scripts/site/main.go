// Command site renders the documentation as a static web site: plain pages without scripts and outside resources, light or dark as the
// system is, with the table of contents of docs/README.md beside each. It takes every document that can be reached from there by links,
// and copies the files that they link to.
//
//	site ROOT FOLDER     of a checkout, into a folder
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// contents is the document that lists the others.
const contents = "docs/README.md"

//go:embed style.css
var style []byte

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "site: expected the root of a checkout and a folder to write to")
		os.Exit(2)
	}
	pages, err := build(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", pages, os.Args[2])
}

// A site is what is being made.
type site struct {
	root, folder string
	contents     []chapter
	pending      []string // documents and folders that are linked to
	seen         map[string]bool
}

// build makes the site and returns how many pages it has.
func build(root, folder string) (pages int, err error) {
	s := &site{root: root, folder: folder, seen: map[string]bool{}}
	list, err := s.parse(contents)
	if err != nil {
		return 0, err
	}
	s.contents = list.chapters()
	if err := s.write("style.css", style); err != nil {
		return 0, err
	}
	s.need("README.md")
	s.need(contents)
	for len(s.pending) > 0 {
		name := s.pending[0]
		s.pending = s.pending[1:]
		if strings.HasSuffix(name, ".md") {
			err = s.document(name)
			pages++
		} else {
			err = s.other(name)
		}
		if err != nil {
			return pages, fmt.Errorf("%s: %w", name, err)
		}
	}
	return pages, nil
}

// need puts a file or folder on the list of what has to be made, once.
func (s *site) need(name string) {
	if !s.seen[name] {
		s.seen[name] = true
		s.pending = append(s.pending, name)
	}
}

// output is where a file or folder of the repository lies in the site.
func output(name string, isFolder bool) string {
	switch {
	case isFolder:
		return path.Join(name, "index.html")
	case path.Base(name) == "README.md":
		return path.Join(path.Dir(name), "index.html")
	case strings.HasSuffix(name, ".md"):
		return strings.TrimSuffix(name, ".md") + ".html"
	}
	return name
}

// target finds what a link leads to, as a path in the repository, and sees to it that it is made. It returns the link's address in the
// site, seen from the page with the link.
func (s *site) target(from, link string) (string, error) {
	address, fragment, _ := strings.Cut(link, "#")
	name := path.Join(path.Dir(from), address)
	if address == "" {
		name = from
	}
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", fmt.Errorf("%q leads out of the repository", link)
	}
	info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(name)))
	if err != nil {
		return "", fmt.Errorf("%q leads nowhere", link)
	}
	isFolder := info.IsDir()
	if isFolder {
		if _, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(name), "README.md")); err == nil {
			name, isFolder = path.Join(name, "README.md"), false
		}
	}
	s.need(name)
	relative, err := filepath.Rel(path.Dir(output(from, false)), output(name, isFolder))
	if err != nil {
		return "", err
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	return filepath.ToSlash(relative) + fragment, nil
}

// document makes the page of a document.
func (s *site) document(name string) error {
	d, err := s.parse(name)
	if err != nil {
		return err
	}
	if err := d.rewriteLinks(func(link string) (string, error) { return s.target(name, link) }); err != nil {
		return err
	}
	body, err := d.render()
	if err != nil {
		return err
	}
	return s.page(name, output(name, false), d.title(), body)
}

// other copies a file, or lists a folder.
func (s *site) other(name string) error {
	at := filepath.Join(s.root, filepath.FromSlash(name))
	info, err := os.Stat(at)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		content, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		return s.write(name, content)
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	var body strings.Builder
	fmt.Fprintf(&body, "<h1>%s</h1>\n<ul>\n", escape(name))
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		// The link is seen from a page inside the folder.
		link, err := s.target(path.Join(name, "README.md"), entry.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&body, "<li><a href=\"%s\">%s</a></li>\n", escape(link), escape(entry.Name()))
	}
	body.WriteString("</ul>\n")
	return s.page(path.Join(name, "README.md"), output(name, true), name, body.String())
}

// page writes a page around its body.
func (s *site) page(name, to, title, body string) error {
	up := strings.Repeat("../", strings.Count(to, "/"))
	var b strings.Builder
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s – sluice</title>
<link rel="stylesheet" href="%sstyle.css">
</head>
<body>
<a class="skip" href="#content">To the content</a>
<header><a href="%[2]sindex.html">sluice</a></header>
<div class="columns">
<nav aria-label="Documentation">
`, escape(title), up)
	for _, c := range s.contents {
		fmt.Fprintf(&b, "<details%s><summary>%s</summary>\n<ul>\n", open(slices.ContainsFunc(c.entries, func(e entry) bool { return e.name == name })), escape(c.title))
		for _, e := range c.entries {
			link, err := s.target(name, relativeTo(name, e.name))
			if err != nil {
				return err
			}
			current := ""
			if e.name == name {
				current = ` aria-current="page"`
			}
			fmt.Fprintf(&b, "<li><a href=\"%s\"%s>%s</a></li>\n", escape(link), current, escape(e.title))
		}
		b.WriteString("</ul>\n</details>\n")
	}
	fmt.Fprintf(&b, "</nav>\n<main id=\"content\">\n%s</main>\n</div>\n</body>\n</html>\n", body)
	return s.write(to, []byte(b.String()))
}

func open(is bool) string {
	if is {
		return " open"
	}
	return ""
}

// relativeTo is a link from a document to another one.
func relativeTo(from, to string) string {
	relative, err := filepath.Rel(path.Dir(from), to)
	if err != nil {
		panic(err) // both are paths in the repository
	}
	return filepath.ToSlash(relative)
}

func (s *site) write(name string, content []byte) error {
	at := filepath.Join(s.folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	return os.WriteFile(at, content, 0o666)
}

var errNoTitle = errors.New("it begins with no heading of the first level")
