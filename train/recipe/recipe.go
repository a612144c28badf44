package recipe

import (
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-mt/sluice/internal/jobfile"
)

// A Recipe is the content of a recipe's file.
type Recipe struct {
	Name         string   `yaml:"name" desc:"Names the recipe in messages."`
	Folder       string   `yaml:"folder" desc:"Where everything is written, seen from the recipe's file. Default: the recipe's name."`
	Vocabularies []string `yaml:"vocabularies" desc:"Vocabulary of all models: one for both languages, or the source's and the target's. A step may make it."`
	Steps        []Step   `yaml:"steps" desc:"What is done. The order in which steps are written does not matter: what they read and write decides."`

	path string // of the file; its folder is where inputs are looked for that no step writes
}

// A Step is one of the kinds below, under a name.
type Step struct {
	Name          string         `yaml:"name" desc:"Names the step: letters, digits, dots, dashes and underscores."`
	Clean         *Clean         `yaml:"clean" desc:"Makes one corpus of sentence pairs out of texts, without what would harm, shuffled, and holds back pairs for validation and tests."`
	Noise         *Noise         `yaml:"noise" desc:"Makes sentence pairs as careless as people write: case, punctuation, typing errors."`
	PlantErrors   *PlantErrors   `yaml:"plant-errors" desc:"Makes sentence pairs to learn corrections from out of correct text: words that writers confuse, typing errors."`
	Edits         *Edits         `yaml:"edits" desc:"Finds what corrections change: gold edits to score with, weights to train with."`
	Vocabulary    *Vocabulary    `yaml:"vocabulary" desc:"Trains a SentencePiece vocabulary."`
	Train         *Train         `yaml:"train" desc:"Trains a model, several for an ensemble, or one for each setting of a grid."`
	Translate     *Translate     `yaml:"translate" desc:"Translates a text."`
	Rescore       *Rescore       `yaml:"rescore" desc:"Ranks n-best lists anew: further models score each translation, and weights are tuned."`
	Distil        *Distil        `yaml:"distil" desc:"Interpolated sequence-level distillation: of the teachers' best translations of each source the one that is closest to the original target."`
	BackTranslate *BackTranslate `yaml:"back-translate" desc:"Noisy back-translation: sources sampled by inverse teachers, with the teachers' translation of them that is closest to the original target."`
	Dual          *Dual          `yaml:"dual" desc:"Data for dual learning: each pair as it is, with its target translated by the teachers, and with its source translated by the inverse teachers."`
	Align         *Align         `yaml:"align" desc:"Aligns the pieces of sentence pairs, for guided alignment and shortlists."`
	Shortlist     *Shortlist     `yaml:"shortlist" desc:"Learns a lexical shortlist from sentence pairs."`
	Quantise      *Quantise      `yaml:"quantise" desc:"Stores a model in 8 or 4 bits."`
	Evaluate      *Evaluate      `yaml:"evaluate" desc:"Measures the quality and the speed of models on test sets."`
	Report        *Report        `yaml:"report" desc:"Makes a page of HTML about trainings and evaluations."`
}

// A kind is what a step does. Its exported fields are its settings, of which a fingerprint is made.
type kind interface {
	// inputs and outputs are names as the recipe has them. An input may be a pattern for models that other steps write.
	inputs() []string
	outputs() []string
	// check reports what is missing or makes no sense.
	check(c *checking)
	// run does the work, or goes on with it.
	run(w *work) error
}

// checking is what a kind needs to check its settings.
type checking struct {
	engine Engine
	path   string // of the kind's settings
	report jobfile.Report
}

// at reports a problem with a setting of the kind; "" is the kind as a whole.
func (c *checking) at(setting, format string, args ...any) {
	place := c.path
	if setting != "" {
		place += "." + setting
	}
	c.report(place, format, args...)
}

// need reports settings that are empty.
func (c *checking) need(settings map[string]bool) {
	for _, name := range sortedKeys(settings) {
		if !settings[name] {
			c.at(name, "missing")
		}
	}
}

// options checks options of sluice translate.
func (c *checking) options(setting string, options []jobfile.Option) {
	for _, option := range options {
		if err := c.engine.Check(option); err != nil {
			c.at(setting+"."+option.Name, "%v", err)
		}
	}
}

// kindSetting returns what the step does, and the name of the setting that says so. A step with none or several has the number
// of them.
func (s *Step) kindSetting() (k kind, name string, count int) {
	value := reflect.ValueOf(s).Elem()
	for i := range value.NumField() {
		if value.Field(i).Kind() != reflect.Pointer || value.Field(i).IsNil() {
			continue
		}
		count++
		k, name = value.Field(i).Interface().(kind), value.Type().Field(i).Tag.Get("yaml")
	}
	return k, name, count
}

// Parse reads a recipe. path is where the file lies or would lie: inputs that no step writes are looked for from its folder.
// What is wrong with it is jobfile.Problems.
func Parse(content []byte, path string, lookup func(string) (string, bool), engine Engine) (*Recipe, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	r := &Recipe{path: absolute}
	if err := jobfile.Decode(content, lookup, r, func(report jobfile.Report) { r.check(report, engine) }); err != nil {
		return nil, err
	}
	if r.Folder == "" {
		r.Folder = r.Name
	}
	return r, nil
}

// Schema returns the JSON Schema of recipes.
func Schema() ([]byte, error) {
	return jobfile.SchemaOf(reflect.TypeFor[Recipe](), "sluice recipe", "name", "steps")
}

// folder is where everything is written.
func (r *Recipe) folder() string {
	if filepath.IsAbs(r.Folder) {
		return r.Folder
	}
	return filepath.Join(filepath.Dir(r.path), r.Folder)
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (r *Recipe) check(report jobfile.Report, engine Engine) {
	if !validName.MatchString(r.Name) {
		report("name", "%q: letters, digits, dots, dashes and underscores only, at most 100", r.Name)
	}
	if len(r.Vocabularies) > 2 {
		report("vocabularies", "at most two: the source's and the target's")
	}
	if len(r.Steps) == 0 {
		report("steps", "missing: there is nothing to do")
	}
	names, writers, sound := map[string]bool{}, map[string]string{}, true
	for i := range r.Steps {
		s, at := &r.Steps[i], fmt.Sprintf("steps[%d]", i)
		switch {
		case !validName.MatchString(s.Name):
			report(at+".name", "%q: letters, digits, dots, dashes and underscores only, at most 100", s.Name)
		case names[s.Name]:
			report(at+".name", "another step is called %q, too", s.Name)
		}
		names[s.Name] = true
		k, name, count := s.kindSetting()
		if count != 1 {
			report(at, "expected exactly one of %s, found %d", strings.Join(kindNames(), ", "), count)
			sound = false
			continue
		}
		k.check(&checking{engine, at + "." + name, report})
		checkOutputs(k, s.Name, writers, func(format string, args ...any) { report(at+"."+name, format, args...) })
	}
	if len(r.Vocabularies) == 0 && r.needsVocabularies() {
		report("vocabularies", "missing: the models need one")
	}
	if _, err := r.order(); err != nil && sound {
		report("steps", "%v", err)
	}
}

// usesVocabularies says whether a step reads the recipe's vocabularies.
func usesVocabularies(k kind) bool {
	switch k.(type) {
	case *Clean, *Noise, *PlantErrors, *Vocabulary, *Quantise, *Report:
		return false
	}
	return true
}

func (r *Recipe) needsVocabularies() bool {
	for i := range r.Steps {
		if k, _, count := r.Steps[i].kindSetting(); count == 1 && usesVocabularies(k) {
			return true
		}
	}
	return false
}

func kindNames() []string {
	var names []string
	for t, i := reflect.TypeFor[Step](), 0; i < t.NumField(); i++ {
		if t.Field(i).Type.Kind() == reflect.Pointer {
			names = append(names, t.Field(i).Tag.Get("yaml"))
		}
	}
	return names
}

// checkOutputs reports outputs that would lie outside of the folder, or that two steps write, or that would be a folder of others.
func checkOutputs(k kind, step string, writers map[string]string, report func(format string, args ...any)) {
	for _, output := range k.outputs() {
		inside := slices.IndexFunc(sortedKeys(writers), func(other string) bool {
			return strings.HasPrefix(other, output+"/") || strings.HasPrefix(output, other+"/")
		})
		switch other, taken := writers[output]; {
		case output == "":
		case strings.ContainsFunc(output, unicode.IsControl):
			report("%q: an output's name has no control characters", output)
		case inside >= 0:
			other := sortedKeys(writers)[inside]
			report("%s and %s, which the step %q writes, cannot both be files", output, other, writers[other])
		case !filepath.IsLocal(output) || path.Clean(output) != output || strings.HasPrefix(output, "."):
			report("%q: an output is a path within the folder of the recipe", output)
		case taken:
			report("the step %q writes %s, too", other, output)
		}
		writers[output] = step
	}
}
