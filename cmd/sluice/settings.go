package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
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

// pathOptions are the options whose values are paths, which relative-paths makes relative to the configuration file.
var pathOptions = map[string]bool{"models": true, "vocabs": true, "shortlist": true, "input": true, "output": true}

// applyConfigFile sets the flags that are still open from a configuration file in the form of Marian's decoder.yml:
// option names without dashes, lists as YAML lists. Unknown keys are returned with their lines, as warnings.
func applyConfigFile(flags *pflag.FlagSet, path string) (warnings []string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, inputError{fmt.Errorf("configuration: %w", err)}
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, usageErrorf("configuration %s: %v", path, err)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, usageErrorf("configuration %s, line %d: expected options as \"name: value\"", path, root.Line)
	}
	relative, err := relativePaths(root, path)
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		flag := flags.Lookup(key.Value)
		switch {
		case key.Value == "relative-paths" || key.Value == "version":
		case flag == nil || key.Value == "config" || key.Value == "help":
			warnings = append(warnings, fmt.Sprintf("%s, line %d: unknown option %q is ignored", path, key.Line, key.Value))
		case flag.Changed:
		default:
			if err := setFromYAML(flags, flag, value, relative); err != nil {
				return warnings, usageErrorf("configuration %s, line %d: %s: %v", path, value.Line, key.Value, err)
			}
		}
	}
	return warnings, nil
}

// relativePaths returns the folder that paths in the configuration start from, "" for the current one.
func relativePaths(root *yaml.Node, path string) (string, error) {
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

func setFromYAML(flags *pflag.FlagSet, flag *pflag.Flag, value *yaml.Node, folder string) error {
	values, err := scalars(value)
	if err != nil {
		return err
	}
	isList := flag.Value.Type() == "stringArray"
	if !isList && len(values) != 1 {
		return fmt.Errorf("expected one value, found %d", len(values))
	}
	for i, v := range values {
		if pathOptions[flag.Name] && (flag.Name != "shortlist" || i == 0) {
			v = resolvePath(folder, v)
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

func resolvePath(folder, path string) string {
	if folder == "" || path == "-" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
