package train

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// families are the reference models that Marian trained, one of each kind.
var families = []string{
	"s2s-gru", "s2s-deep", "nematus", "multi-transformer", "transformer-sru", "lm-transformer", "right-left", "transformer-aan-plain", "transformer-aan",
	"transformer-ssru-tied", "transformer-prenorm", "transformer-selfatt", "transformer-untied",
}

// familyNoise is by how much the mean loss of a hundred updates may be above that of Marian's one run. Seven seeds of s2s-gru have a mean
// 0.015 above it, and a standard deviation of 0.063.
const familyNoise = 0.15

// TestFamilies trains the reference models anew, with the options and the texts with which Marian trained them, and compares the loss
// of the last updates with that in Marian's log. It runs only if the variable SLUICE_FAMILIES is set, to "all" or to some names, separated
// by commas: it takes minutes for each of them. SLUICE_FAMILIES_SEEDS are seeds, separated by commas. If SLUICE_MARIAN is the path of
// Marian's program for training, Marian trains with them, too.
func TestFamilies(t *testing.T) {
	chosen := strings.Split(os.Getenv("SLUICE_FAMILIES"), ",")
	if chosen[0] == "" {
		t.Skip("takes minutes for each family: set SLUICE_FAMILIES to all, or to some names")
	}
	for _, family := range families {
		if chosen[0] != "all" && !slices.Contains(chosen, family) {
			continue
		}
		t.Run(family, func(t *testing.T) { compareFamily(t, family) })
	}
}

func compareFamily(t *testing.T, family string) {
	t.Helper()
	options, updates, logged := readMarianLog(t, family)
	var ours, theirs []float64
	for _, seed := range familySeeds(t) {
		folder := t.TempDir()
		options["seed"] = []string{strconv.FormatUint(seed, 10)}
		c := familyConfig(t, folder, options, familyText)
		c.AfterBatches = updates
		losses := trainFamily(t, &c)
		ours = append(ours, losses[updates])
		t.Logf("%s, seed %d, every hundred updates: %.4f; Marian's log ends with %.4f", family, seed, everyHundred(losses, updates), logged)
		if program := os.Getenv("SLUICE_MARIAN"); program != "" {
			costs := marianCosts(t, program, folder, options)
			theirs = append(theirs, costs[updates])
			t.Logf("%s, seed %d, Marian: %.4f", family, seed, everyHundred(costs, updates))
		}
	}
	mean, deviation := meanAndDeviation(ours)
	want, noise := logged, familyNoise
	if n := float64(len(theirs)); n > 1 {
		var others float64
		want, others = meanAndDeviation(theirs)
		noise = 3 * math.Sqrt((deviation*deviation+others*others)/n)
		t.Logf("| %s | %d | %.3f ± %.3f of %.0f | %.3f ± %.3f |", family, updates, want, others, n, mean, deviation)
	}
	if !(mean < want+noise) {
		t.Errorf("the loss is %.4f, Marian's was %.4f", mean, want)
	}
}

// familySeeds are those that the environment asks for, or the one of Marian's runs.
func familySeeds(t *testing.T) []uint64 {
	t.Helper()
	var seeds []uint64
	for text := range strings.SplitSeq(cmp.Or(os.Getenv("SLUICE_FAMILIES_SEEDS"), "11"), ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

// trainFamily returns the mean losses of a hundred updates, by the last of them.
func trainFamily(t *testing.T, c *Config) map[int]float64 {
	t.Helper()
	start := time.Now()
	result, err := Run(t.Context(), *c, silence())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("epoch %d, %.0f target pieces an update, %.0f words/s", result.Epochs, float64(result.Words)/float64(result.Updates),
		float64(result.Words)/time.Since(start).Seconds())
	return displayedLosses(t, c.Model+".metrics.jsonl")
}

// everyHundred returns the losses in the order of the updates.
func everyHundred(losses map[int]float64, updates int) []float64 {
	var all []float64
	for update := 100; update <= updates; update += 100 {
		all = append(all, losses[update])
	}
	return all
}

// meanAndDeviation returns the standard deviation of a sample beside its mean; 0 of one number.
func meanAndDeviation(numbers []float64) (mean, deviation float64) {
	for _, v := range numbers {
		mean += v / float64(len(numbers))
	}
	for _, v := range numbers {
		deviation += (v - mean) * (v - mean) / max(1, float64(len(numbers)-1))
	}
	return mean, math.Sqrt(deviation)
}

// marianCommand returns options as words of a command line.
func marianCommand(options map[string][]string) []string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		dashes := "--"
		if len(key) == 1 {
			dashes = "-"
		}
		words = append(append(words, dashes+key), options[key]...)
	}
	return words
}

// marianCosts runs Marian in a folder that holds the texts, to which it brings the vocabularies, and returns the cost per word of every
// display, by its update.
func marianCosts(t *testing.T, program, folder string, options map[string][]string) map[int]float64 {
	t.Helper()
	vocabularies := sharedtest.Path(t, "models/reference/vocab")
	if err := os.CopyFS(folder, os.DirFS(vocabularies)); err != nil {
		t.Fatal(err)
	}
	options = maps.Clone(options)
	options["m"] = []string{"marian.npz"} // a new one: Marian would go on with one that is there
	command := exec.CommandContext(t.Context(), program, marianCommand(options)...)
	command.Dir = folder
	command.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
	log, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v in\n%s", err, log)
	}
	costs := map[int]float64{}
	for _, match := range regexp.MustCompile(`Up\. (\d+) : .* Cost ([\d.]+)`).FindAllStringSubmatch(string(log), -1) {
		update, err := strconv.Atoi(match[1])
		cost, err2 := strconv.ParseFloat(match[2], 64)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		costs[update] = cost
	}
	return costs
}

// readMarianLog returns the options with which Marian trained a model, and the last line of its log: the number of updates, and the mean
// loss per word of the last hundred.
func readMarianLog(t *testing.T, family string) (options map[string][]string, updates int, loss float64) {
	t.Helper()
	text, err := os.ReadFile(sharedtest.Path(t, "models/reference/"+family+"/training.txt"))
	if err != nil {
		t.Fatal(err)
	}
	command, last, _ := strings.Cut(string(text), "\n")
	match := regexp.MustCompile(`Up\. (\d+) : .* Cost ([\d.]+)`).FindStringSubmatch(last)
	if match == nil {
		t.Fatalf("no result in %q", last)
	}
	updates, err = strconv.Atoi(match[1])
	if err == nil {
		loss, err = strconv.ParseFloat(match[2], 64)
	}
	if err != nil {
		t.Fatal(err)
	}
	options = map[string][]string{}
	key := ""
	for _, word := range strings.Fields(command)[1:] {
		if strings.HasPrefix(word, "-") {
			key = strings.TrimLeft(word, "-")
			options[key] = []string{}
			continue
		}
		options[key] = append(options[key], word)
	}
	return options, updates, loss
}

// familyConfig makes a configuration of Marian's options, and the texts that they name.
func familyConfig(t *testing.T, folder string, options map[string][]string, text func(t *testing.T, folder, name string) string) Config {
	t.Helper()
	settings := map[string]any{"model": filepath.Join(folder, "model.npz"), "cost-type": "ce-sum", "save-freq": 0}
	for _, name := range options["v"] {
		settings["vocabs"] = append(toList(settings["vocabs"]), sharedtest.Path(t, "models/reference/vocab/"+name))
	}
	for _, name := range options["t"] {
		settings["train-sets"] = append(toList(settings["train-sets"]), text(t, folder, name))
	}
	for key, values := range options {
		switch key {
		case "m", "v", "t", "w", "no-restore-corpus", "overwrite", "quiet-translation", "save-freq":
			continue // names above, and what changes no result
		}
		settings[key] = familyValue(key, values)
	}
	yml, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseConfig(yml)
	if err != nil {
		t.Fatalf("%v in\n%s", err, yml)
	}
	if c.MiniBatchWords > 0 {
		c.MiniBatchWords = targetWords(t, &c)
	}
	return c
}

func toList(v any) []string {
	list, _ := v.([]string)
	return list
}

// familyValue is what an option's words mean.
func familyValue(key string, words []string) any {
	var values []any
	for _, word := range words {
		var value any
		if err := yaml.Unmarshal([]byte(word), &value); err != nil {
			value = word
		}
		if number, err := strconv.ParseFloat(word, 64); err == nil && strings.Contains(word, "e") {
			value = number
		}
		values = append(values, value)
	}
	switch {
	case len(values) == 0:
		return true
	case len(values) == 1 && key != "transformer-tied-layers":
		return values[0]
	}
	return values
}

// targetWords returns the limit in target pieces that is like mini-batch-words in Marian, which counts those of the first source. There a
// mini-batch ends with the sentence that exceeds the limit, here with the one before, so that it has one in a hundred words less.
func targetWords(t *testing.T, c *Config) int {
	t.Helper()
	if c.languageModel() {
		return c.MiniBatchWords
	}
	source, err := vocab.Open(c.Vocabs[0])
	if err != nil {
		t.Fatal(err)
	}
	target, err := vocab.Open(c.Vocabs[len(c.Vocabs)-1])
	if err != nil {
		t.Fatal(err)
	}
	corpus, err := data.Read(data.Config{Source: source, Target: target, Files: c.files(c.TrainSets), MaxLength: c.MaxLength, Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	return int(float64(c.MiniBatchWords) * float64(corpus.Stats.TargetTokens) / float64(corpus.Stats.SourceTokens))
}

// familyText writes a side of the corpus: train.en, lower-cased words as in train.word.en, or train.mt, German without one of its words.
func familyText(t *testing.T, folder, name string) string {
	t.Helper()
	file, err := os.Open(sharedtest.Path(t, "data/tatoeba.en-de.tsv.xz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := compress.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, name)
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	buffer, lines := bufio.NewWriter(out), bufio.NewScanner(reader)
	token := regexp.MustCompile(`[\pL\pN_]+|[^\pL\pN_\s]`)
	for lines.Scan() {
		english, german, _ := strings.Cut(lines.Text(), "\t")
		text := german
		if strings.HasSuffix(name, ".en") {
			text = english
		}
		if strings.HasSuffix(name, ".mt") {
			text = withoutWord(german, len(english))
		}
		if strings.Contains(name, ".word.") {
			text = strings.Join(token.FindAllString(strings.ToLower(text), -1), " ")
		}
		fmt.Fprintln(buffer, text)
	}
	if err := errors.Join(lines.Err(), buffer.Flush(), out.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// withoutWord drops a word of a text, unless there is only one.
func withoutWord(text string, number int) string {
	words := strings.Fields(text)
	if len(words) < 2 {
		return text
	}
	at := number % len(words)
	return strings.Join(slices.Delete(words, at, at+1), " ")
}

// displayedLosses returns the mean losses that were displayed, by their updates.
func displayedLosses(t *testing.T, path string) map[int]float64 {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	losses := map[int]float64{}
	for line := range strings.Lines(string(text)) {
		var m Measurement
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.Kind == "train" {
			losses[m.Update] = m.Loss
		}
	}
	return losses
}
