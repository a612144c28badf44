package infra

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	dropped = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchors are the places in a document that links may name, as GitHub makes them of headings.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		names[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return names
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range documents(t) {
		file := path(name)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(content), -1) {
			target, err := url.Parse(match[1])
			if err != nil || target.Scheme != "" {
				continue // elsewhere in the network
			}
			to := file
			if target.Path != "" {
				to = filepath.Join(filepath.Dir(file), filepath.FromSlash(target.Path))
			}
			linked, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr == nil && info.IsDir() && target.Fragment == "" {
				continue
			}
			if err != nil {
				t.Errorf("%s: %s leads nowhere", name, match[1])
			} else if target.Fragment != "" && !anchors(string(linked))[target.Fragment] {
				t.Errorf("%s: %s has no such heading", name, match[1])
			}
		}
	}
}
