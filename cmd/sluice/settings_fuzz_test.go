package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// FuzzConfiguration: whatever a configuration file holds, reading it ends in an error of usage that names the file, or in settings
// that come back as they are when they are written and read again.
func FuzzConfiguration(f *testing.F) {
	f.Add("relative-paths: true\nmodels: [model.npz]\nvocabs:\n  - a.spm\n  - b.spm\nshortlist: [lex.gz, 100, 100]\nbeam-size: 4\nnormalize: 0.6\n")
	f.Add("beam-size: many\nn-best: maybe\n")
	f.Add("alignment: [hard, soft]\nunknown: {a: 1}\nweights:\n  [0.5, .inf]\n? [a]\n: b\n")
	f.Add("a: &x [1]\nweights: *x\ninput: ${HOME\ninterpolate-env-vars: true\n<<: {seed: 1}\n")
	f.Fuzz(func(t *testing.T, content string) {
		folder := t.TempDir()
		read := func(content []byte) (*pflag.FlagSet, error) {
			path := filepath.Join(folder, "decoder.yml")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			flags := newTranslateCommand(beginEngine).Flags()
			settings := files{flags: flags, lookup: func(string) (string, bool) { return "x", true }}
			return flags, settings.apply(path)
		}
		first, err := read([]byte(content))
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Errorf("%q: exit code %d: %v", content, exitCode(err), err)
			}
			return
		}
		written, err := yaml.Marshal(dumped(first))
		if err != nil {
			t.Fatal(err)
		}
		second, err := read(written)
		if err != nil {
			t.Fatalf("%q became\n%s: %v", content, written, err)
		}
		if again, err := yaml.Marshal(dumped(second)); err != nil || string(again) != string(written) {
			t.Errorf("%q became\n%s, and that\n%s, %v", content, written, again, err)
		}
	})
}

// dumped are all settings that differ from the defaults.
func dumped(flags *pflag.FlagSet) *yaml.Node {
	root := &yaml.Node{Kind: yaml.MappingNode}
	dumpFlags(root, "", flags, false)
	return root
}
