package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var root = filepath.Join("..", "..")

// files returns what a site consists of, by path.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(at string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(at)
		name, _ := filepath.Rel(folder, at)
		all[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	reference = regexp.MustCompile(` (href|src)="([^"]*)"`)
	anchor    = regexp.MustCompile(` id="([^"]*)"`)
)

// Every link of every page leads to a file of the site, and to an anchor that is there; nothing is loaded from elsewhere.
func TestSite(t *testing.T) {
	folder := t.TempDir()
	pages, err := build(root, folder)
	if err != nil {
		t.Fatal(err)
	}
	all := files(t, folder)
	if pages < 40 || all["index.html"] == "" || all["docs/index.html"] == "" || all["docs/tutorials/kafka-pipeline.html"] == "" {
		t.Fatalf("%d pages, %d files", pages, len(all))
	}
	for name, page := range all {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		for _, match := range reference.FindAllStringSubmatch(page, -1) {
			kind, link := match[1], match[2]
			if strings.Contains(link, ":") {
				if kind == "src" || !strings.HasPrefix(link, "http") {
					t.Errorf("%s loads %s", name, link)
				}
				continue
			}
			address, fragment, _ := strings.Cut(link, "#")
			to := path.Join(path.Dir(name), address)
			if address == "" {
				to = name
			}
			found, ok := all[to]
			if !ok {
				t.Errorf("%s: %s leads nowhere", name, link)
			} else if fragment != "" && !strings.Contains(found, fmt.Sprintf(" id=%q", fragment)) {
				t.Errorf("%s: %s has no such anchor", name, link)
			}
		}
		seen := map[string]bool{}
		for _, match := range anchor.FindAllStringSubmatch(page, -1) {
			if seen[match[1]] {
				t.Errorf("%s has two anchors %s", name, match[1])
			}
			seen[match[1]] = true
		}
		for _, word := range []string{"<html lang=\"en\">", "<main id=\"content\">", "<h1", "<nav aria-label"} {
			if strings.Count(page, word) != 1 {
				t.Errorf("%s has %s %d times", name, word, strings.Count(page, word))
			}
		}
		if strings.Contains(page, "<script") || strings.Contains(page, "<!-- raw HTML") {
			t.Errorf("%s has a script, or HTML that was left out", name)
		}
	}
	if css := all["style.css"]; !strings.Contains(css, "prefers-color-scheme: dark") || strings.Contains(css, "url(") || strings.Contains(css, "@import") {
		t.Error("the style is for one scheme, or loads something")
	}
}

// Every document of docs is in the table of contents.
func TestContentsAreComplete(t *testing.T) {
	s := &site{root: root, seen: map[string]bool{}}
	list, err := s.parse(contents)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{contents: true}
	for _, c := range list.chapters() {
		for _, e := range c.entries {
			listed[e.name] = true
		}
	}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range found {
			name, _ := filepath.Rel(root, at)
			if !listed[filepath.ToSlash(name)] {
				t.Errorf("%s is not in %s", name, contents)
			}
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no such file": "# A\n\n## B\n\n[x](nothing.md)\n", "outside": "# A\n\n[x](../../../etc/passwd)\n", "no title": "text\n",
	} {
		folder := t.TempDir()
		if err := os.MkdirAll(filepath.Join(folder, "docs"), 0o777); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"README.md", "docs/README.md"} {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := build(folder, t.TempDir()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// violations is what axe-core has to say about a page.
const violations = `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) =>
	v.id + ': ' + v.nodes.map((n) => n.html).slice(0, 3).join(' | ')))`

func openBrowser(t *testing.T) context.Context {
	t.Helper()
	deadline, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU)
	allocator, cancelAllocator := chromedp.NewExecAllocator(deadline, options...)
	ctx, cancelTab := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil { // waits for the process
			t.Log(err)
		}
		cancelTab()
		cancelAllocator()
		cancel()
	})
	return ctx
}

// axe-core finds nothing that keeps people from using a page, light and dark, wide and narrow.
func TestAccessibility(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	found, _ := filepath.Glob(filepath.Join(root, ".cache", "axe", "axe-*.min.js"))
	if _, err := exec.LookPath("chromium"); err != nil || len(found) == 0 {
		if os.Getenv("SLUICE_REQUIRE_TOOLS") != "" {
			t.Fatal("needs chromium, and axe-core, which scripts/axe.sh fetches")
		}
		t.Skip("needs chromium and axe-core")
	}
	script, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if _, err := build(root, folder); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer server.Close()
	ctx := openBrowser(t)
	for _, page := range []string{"index.html", "docs/index.html", "docs/coming-from.html", "docs/explanations/top-up-batching.html", "docs/reference/job-file.html"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 400} {
				features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
				_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
				if err == nil {
					err = chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate(server.URL+"/"+page))
				}
				if err == nil {
					_, err = chromedp.Run(ctx, chromedp.Evaluate[chromedp.Void](string(script), chromedp.EvalAwaitPromise))
				}
				if err != nil {
					t.Fatal(err)
				}
				list, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise))
				if err != nil || len(list) > 0 {
					t.Errorf("%s, %s, %d wide: %q %v", page, scheme, width, list, err)
				}
			}
		}
	}
}
