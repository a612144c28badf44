package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/internal/binread"
	"github.com/sluice-mt/sluice/internal/jobfile"
)

// Settings come from four places. The command line wins over the environment, the environment over the configuration
// file, and the file over the defaults.

// environmentName is the variable that stands for a flag: SLUICE_BEAM_SIZE for --beam-size.
func environmentName(flag string) string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// applyEnvironment sets the flags that the command line left open from the environment. Lists are separated by spaces.
func applyEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(flag *pflag.Flag) {
		value, ok := lookup(environmentName(flag.Name))
		if !ok || flag.Changed {
			return
		}
		values := []string{value}
		if flag.Value.Type() == "stringArray" {
			values = strings.Fields(value)
		}
		for _, v := range values {
			if err := flags.Set(flag.Name, v); err != nil {
				errs = append(errs, usageErrorf("environment variable %s: %v", environmentName(flag.Name), err))
			}
		}
	})
	return errors.Join(errs...)
}

// gpuSettings are the options that say what GPUs do. Each command that has one of them, or carries out what does, reads it from the environment.
var gpuSettings = []string{"devices", "streams", "gpu-products"}

// applyGPUEnvironment is applyEnvironment for the settings of GPUs, and for no others.
func applyGPUEnvironment(flags *pflag.FlagSet) error {
	return applyEnvironment(flags, only(gpuSettings...))
}

// only looks up the variables of some flags, and finds no others.
func only(names ...string) func(variable string) (string, bool) {
	return func(variable string) (string, bool) {
		if !slices.ContainsFunc(names, func(name string) bool { return environmentName(name) == variable }) {
			return "", false
		}
		return os.LookupEnv(variable)
	}
}

// pathOptions are the options whose values are paths: relative-paths makes them relative to the configuration file, and
// interpolate-env-vars replaces variables in them.
var pathOptions = []string{"models", "vocabs", "shortlist", "input", "output", "output-dir", "log", "report"}

// files sets flags from configuration files in the form of Marian's decoder.yml: option names without dashes, lists as YAML
// lists. A flag that is set already keeps its value. Unknown keys become warnings with their lines.
type files struct {
	flags    *pflag.FlagSet
	lookup   func(string) (string, bool) // of an environment variable
	warnings []string
}

// readSettings reads a file of settings, which may be a pipe, but none that is far larger than people write them.
func readSettings(path string) ([]byte, error) { return binread.ReadFile(path, jobfile.MaxSize) }

// apply sets the flags that are still open from a file.
func (f *files) apply(path string) error {
	if interpolated, _ := f.flags.GetBool("interpolate-env-vars"); interpolated {
		var err error
		if path, err = interpolate(path, f.lookup); err != nil {
			return err
		}
	}
	content, err := readSettings(path)
	if err != nil {
		return inputError{fmt.Errorf("configuration: %w", err)}
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return usageErrorf("configuration %s: %v", path, err)
	}
	if len(document.Content) == 0 {
		return nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return usageErrorf("configuration %s, line %d: expected options as \"name: value\"", path, root.Line)
	}
	folder, err := pathsFolder(root, path)
	if err != nil {
		return err
	}
	return f.applyKeys(root, path, folder)
}

// applyKeys sets the flags from the keys of a file, whose paths start from folder.
func (f *files) applyKeys(root *yaml.Node, path, folder string) error {
	resolve := func(value string) (string, error) { return resolvePath(folder, value), nil }
	if wanted, _ := f.flags.GetBool("interpolate-env-vars"); wanted || boolKey(root, "interpolate-env-vars") {
		resolve = func(value string) (string, error) {
			value, err := interpolate(value, f.lookup)
			return resolvePath(folder, value), err
		}
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		flag := f.flags.Lookup(key.Value)
		switch {
		case key.Value == "relative-paths" || key.Value == "version":
		case flag == nil || key.Value == "config" || key.Value == "help" || key.Value == "dump-config":
			f.warnings = append(f.warnings, fmt.Sprintf("%s, line %d: unknown option %q is ignored", path, key.Line, key.Value))
		case flag.Changed:
		default:
			if err := setFromYAML(f.flags, flag, value, resolve); err != nil {
				return usageErrorf("configuration %s, line %d: %s: %v", path, value.Line, key.Value, err)
			}
		}
	}
	return nil
}

// boolKey says whether a key has the value true.
func boolKey(root *yaml.Node, name string) bool {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == name {
			var value bool
			return root.Content[i+1].Decode(&value) == nil && value
		}
	}
	return false
}

// pathsFolder returns the folder that paths in the configuration start from, "" for the current one.
func pathsFolder(root *yaml.Node, path string) (string, error) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "relative-paths" {
			continue
		}
		var relative bool
		if err := root.Content[i+1].Decode(&relative); err != nil {
			return "", usageErrorf("configuration %s, line %d: relative-paths: %v", path, root.Content[i+1].Line, err)
		}
		if relative {
			return filepath.Dir(path), nil
		}
	}
	return "", nil
}

func setFromYAML(flags *pflag.FlagSet, flag *pflag.Flag, value *yaml.Node, resolve func(string) (string, error)) error {
	values, err := scalars(value)
	if err != nil {
		return err
	}
	isList := flag.Value.Type() == "stringArray"
	if !isList && len(values) != 1 {
		return fmt.Errorf("expected one value, found %d", len(values))
	}
	for i, v := range values {
		if isPath(flag.Name, i) {
			if v, err = resolve(v); err != nil {
				return err
			}
		}
		if err := flags.Set(flag.Name, v); err != nil {
			return err
		}
	}
	return nil
}

// scalars returns the values of a scalar or of a flat list.
func scalars(node *yaml.Node) ([]string, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		return []string{node.Value}, nil
	case yaml.SequenceNode:
		var out []string
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("expected a flat list")
			}
			out = append(out, item.Value)
		}
		return out, nil
	}
	return nil, errors.New("expected a value or a list of values")
}

// isPath says whether the i-th value of an option is a path. Of a shortlist only the first is.
func isPath(option string, i int) bool {
	return slices.Contains(pathOptions, option) && (option != "shortlist" || i == 0)
}

// isStream says whether a path stands for a standard stream, by our name or by Marian's.
func isStream(path string) bool { return path == "-" || path == "stdin" || path == "stdout" }

func resolvePath(folder, path string) string {
	if folder == "" || path == "" || isStream(path) || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// interpolatePaths replaces variables in the paths that the flags hold.
func interpolatePaths(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	for _, name := range pathOptions {
		flag := flags.Lookup(name)
		if flag == nil || !strings.Contains(flag.Value.String(), "${") {
			continue
		}
		list, isList := flag.Value.(pflag.SliceValue)
		if !isList {
			value, err := interpolate(flag.Value.String(), lookup)
			if err != nil {
				return usageErrorf("--%s: %v", name, err)
			}
			if err := flags.Set(name, value); err != nil {
				return usageErrorf("--%s: %v", name, err)
			}
			continue
		}
		values := list.GetSlice()
		for i := range values {
			var err error
			if !isPath(name, i) {
				continue
			}
			if values[i], err = interpolate(values[i], lookup); err != nil {
				return usageErrorf("--%s: %v", name, err)
			}
		}
		if err := list.Replace(values); err != nil {
			return usageErrorf("--%s: %v", name, err)
		}
	}
	return nil
}

// maxReplacements bounds variables whose values name variables.
const maxReplacements = 100

// interpolate replaces every ${NAME} by the environment variable, as Marian does: in what a variable holds as well, and one
// that is not set is an error.
func interpolate(text string, lookup func(string) (string, bool)) (string, error) {
	if isStream(text) {
		return text, nil
	}
	for range maxReplacements {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			return text, nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", usageErrorf("interpolate-env-vars: ${ without } in %q", text)
		}
		value, set := lookup(name)
		if !set {
			return "", usageErrorf("interpolate-env-vars: the environment variable %q in %q is not set", name, text)
		}
		text = before + value + after
	}
	return "", usageErrorf("interpolate-env-vars: variables that name each other without end: %q", text)
}
