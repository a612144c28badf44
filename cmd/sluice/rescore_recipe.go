package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/internal/nbest"
)

// A recipe is a configuration file of "sluice rescore": which models score, and how much each feature counts. "sluice rescore
// tune" writes one without models. Paths in it are relative to its folder.
type recipe struct {
	Models    []recipeModel           `yaml:"models"`
	Normalize *float64                `yaml:"normalize"`
	Weights   map[string]recipeWeight `yaml:"weights"`
}

// A recipeModel is a model of a recipe.
type recipeModel struct {
	Model     string   `yaml:"model"`
	Vocabs    []string `yaml:"vocabs"`    // of each source and the target; one is for all
	Feature   string   `yaml:"feature"`   // name of its feature
	Precision string   `yaml:"precision"` // auto, float32, bfloat16, int16 or int8
}

// A recipeWeight is the weight of a feature, or the weights of one that has several values.
type recipeWeight []float64

// UnmarshalYAML reads a number or a list of numbers.
func (w *recipeWeight) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.SequenceNode {
		var list []float64
		err := node.Decode(&list)
		*w = list
		return err
	}
	var one float64
	err := node.Decode(&one)
	*w = recipeWeight{one}
	return err
}

// readRecipes reads configuration files. What a later one says takes the place of what an earlier one does.
func readRecipes(paths []string) (recipe, error) {
	var all recipe
	for _, path := range paths {
		r, err := readRecipe(path)
		if err != nil {
			return recipe{}, err
		}
		if r.Models != nil {
			all.Models = r.Models
		}
		if r.Normalize != nil {
			all.Normalize = r.Normalize
		}
		if r.Weights != nil {
			all.Weights = r.Weights
		}
	}
	return all, nil
}

func readRecipe(path string) (recipe, error) {
	var r recipe
	content, err := readSettings(path)
	if err != nil {
		return r, inputError{fmt.Errorf("configuration: %w", err)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&r); err != nil && !errors.Is(err, io.EOF) {
		return r, usageErrorf("configuration %s: %s", path, yamlProblem(err))
	}
	for i := range r.Models {
		m := &r.Models[i]
		if m.Model == "" {
			return r, usageErrorf("configuration %s: model %d has no file: name it with \"model:\"", path, i+1)
		}
		m.Model = resolvePath(filepath.Dir(path), m.Model)
		for j, name := range m.Vocabs {
			m.Vocabs[j] = resolvePath(filepath.Dir(path), name)
		}
	}
	for name, values := range r.Weights {
		if len(values) == 0 {
			return r, usageErrorf("configuration %s: the weight of %s is missing", path, name)
		}
		if slices.ContainsFunc(values, func(x float64) bool { return !isFinite(x) }) {
			return r, usageErrorf("configuration %s: the weight of %s is not a finite number", path, name)
		}
	}
	return r, nil
}

// yamlProblem says in a user's words what is wrong with a file.
func yamlProblem(err error) string {
	var mistakes *yaml.TypeError
	if !errors.As(err, &mistakes) {
		return err.Error()
	}
	text := strings.Join(mistakes.Errors, "; ")
	return regexp.MustCompile(`field (\S+) not found in type \S+`).ReplaceAllString(text, "there is no key $1")
}

// weights are those of the recipe in the order of their names, nil if it has none.
func (r *recipe) weights() nbest.Weights {
	var weights nbest.Weights
	for _, name := range slices.Sorted(maps.Keys(r.Weights)) {
		weights = append(weights, nbest.Feature{Name: name, Values: r.Weights[name]})
	}
	return weights
}

// formatRecipe is the text of a recipe without models.
func formatRecipe(weights nbest.Weights, normalize float64) string {
	var b strings.Builder
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	fmt.Fprintf(&b, "normalize: %s\nweights:\n", number(normalize))
	for _, weight := range weights {
		values := make([]string, len(weight.Values))
		for i, value := range weight.Values {
			values[i] = number(value)
		}
		text := values[0]
		if len(values) > 1 {
			text = "[" + strings.Join(values, ", ") + "]"
		}
		fmt.Fprintf(&b, "  %q: %s\n", weight.Name, text)
	}
	return b.String()
}
