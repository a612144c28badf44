package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/bundle"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
	"github.com/sluice-mt/sluice/translator/shortlist"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// An ensemble is the models of a job, open and packed.
type ensemble struct {
	files     []*marian.File
	models    []*model.Model
	weights   []*cpumodel.Weights
	suppress  []search.Token
	scoring   bool // given translations: see cpumodel.Options
	int8      quantisation
	tuner     *tuner // nil: products are as rules say
	precision cpumodel.Precision
	onGPU     gpukernels.Arithmetic
	products  gpuProducts // there
	beam      int         // hypotheses of a sentence
	gpus      []*gpu      // where the models run; none for the processor

	making   sync.Mutex          // of steppers: workers that take over from a GPU are made while float32's is, too
	steppers []*cpumodel.Stepper // all that were made, for their counts

	looksAtAll bool // samples and noisy beams are searches among all tokens
	inUse      bool // by a worker that was not waited for: what the models take is there as long as the process
}

// A quantisation says how 8-bit arithmetic quantises, where the model leaves a choice.
type quantisation struct {
	saturation   float64 // see cpumodel.Options
	ignoreAlphas bool
}

// NewSteppers makes one Stepper for each model.
func (e *ensemble) NewSteppers(slots int) []search.Stepper {
	var out []search.Stepper
	for _, weights := range e.weights {
		stepper := weights.NewStepper(slots)
		e.making.Lock()
		e.steppers = append(e.steppers, stepper)
		e.making.Unlock()
		out = append(out, stepper)
	}
	return out
}

// openModels opens the model files and finds their parameters. A configuration describes models that do not say
// themselves what they are.
func openModels(paths []string, description []byte) (*ensemble, error) {
	e := new(ensemble)
	for _, path := range paths {
		file, err := marian.Open(path)
		if err != nil {
			return nil, modelError{err}
		}
		e.files = append(e.files, file)
		m, err := model.Load(file, description)
		if err != nil {
			return nil, modelError{err}
		}
		e.models = append(e.models, m)
	}
	if !slices.ContainsFunc(e.models, (*model.Model).HasEncoder) {
		return nil, modelError{fmt.Errorf("%s is a language model, which reads no source: name it beside a translation model", paths[0])}
	}
	return e, e.agree(paths)
}

// agree checks that the models of an ensemble can work together.
func (e *ensemble) agree(paths []string) error {
	for i, m := range e.models[1:] {
		if m.TargetVocabulary != e.models[0].TargetVocabulary {
			return modelError{fmt.Errorf("%s has %d target pieces, but %s has %d: an ensemble needs one vocabulary",
				paths[i+1], m.TargetVocabulary, paths[0], e.models[0].TargetVocabulary)}
		}
		if problem := e.sourcesDiffer(m); problem != "" {
			return modelError{fmt.Errorf("%s %s: an ensemble needs one vocabulary for each source", paths[i+1], problem)}
		}
		if m.RightLeft != e.models[0].RightLeft {
			return modelError{fmt.Errorf("%s and %s write in opposite directions and cannot be one ensemble", paths[0], paths[i+1])}
		}
	}
	return nil
}

// sourcesDiffer says how a model's sources differ from those of the models before it, "" if they do not.
func (e *ensemble) sourcesDiffer(m *model.Model) string {
	for _, other := range e.models {
		if other == m {
			return ""
		}
		ours := append([]int{m.SourceVocabulary}, m.FurtherVocabularies...)
		theirs := append([]int{other.SourceVocabulary}, other.FurtherVocabularies...)
		for i := range min(len(ours), len(theirs)) {
			if ours[i] != theirs[i] && m.HasEncoder() && other.HasEncoder() {
				return fmt.Sprintf("reads %d pieces in source %d, another model %d", ours[i], i+1, theirs[i])
			}
		}
	}
	return ""
}

// sources is the number of sources of the model that reads most of them, 1 if none reads any.
func (e *ensemble) sources() int {
	most := 1
	for _, m := range e.models {
		most = max(most, m.Sources())
	}
	return most
}

// sourceVocabulary is the number of pieces that the models read in a source, numbered from 0; 0 if none reads it.
func (e *ensemble) sourceVocabulary(source int) int {
	for _, m := range e.models {
		if source < m.Sources() {
			return append([]int{m.SourceVocabulary}, m.FurtherVocabularies...)[source]
		}
	}
	return 0
}

// pack readies the models for an arithmetic.
func (e *ensemble) pack(precision cpumodel.Precision) error {
	e.precision, e.weights = precision, nil
	for i, m := range e.models {
		weights, err := cpumodel.Load(m, precision, cpumodel.Options{
			Suppress: e.suppress, Saturation: e.int8.saturation, IgnoreAlphas: e.int8.ignoreAlphas, Beam: e.beam,
			Tune: e.tuner.tune,
		})
		if err != nil {
			return modelError{fmt.Errorf("%s: %w", e.files[i].Path, err)}
		}
		e.weights = append(e.weights, weights)
		e.files[i].Forget() // what is used is packed
	}
	return nil
}

// precise returns the same models in float32.
func (e *ensemble) precise() (translator.Models, error) {
	if len(e.gpus) == 0 && e.precision == cpumodel.Float32 {
		return e, nil
	}
	f := &ensemble{files: e.files, models: e.models, suppress: e.suppress, beam: e.beam}
	return f, f.pack(cpumodel.Float32)
}

// arithmetic names what the models are computed with.
func (e *ensemble) arithmetic() string {
	if len(e.gpus) > 0 {
		return e.arithmeticOfGPUs()
	}
	return e.precision.String()
}

// close gives back what the models take, unless a worker may still be using it.
func (e *ensemble) close() {
	if e.inUse {
		return
	}
	closeGPUs(e.gpus)
	for _, file := range e.files {
		file.Close()
	}
}

// stored is the arithmetic that the models are stored for: int8 if any is stored in 8 bits or less, else int16 if any is in 16.
func (e *ensemble) stored() cpumodel.Precision {
	precision := cpumodel.Float32
	for _, m := range e.models {
		for _, tensor := range m.Parameters() {
			switch {
			case tensor.Type == marian.Intgemm8 || tensor.Type.In4Bits():
				return cpumodel.Int8
			case tensor.Type == marian.Intgemm16:
				precision = cpumodel.Int16
			}
		}
	}
	return precision
}

// arithmeticName is what --precision or --gemm-precision says, and the option that says it.
func (f *modelFlags) arithmeticName() (name, option string) {
	if f.gemmPrecision != "" {
		return f.gemmPrecision, "--gemm-precision"
	}
	return f.precision, "--precision"
}

// choosePrecision reads --precision and --gemm-precision. stored is what the models are stored for.
func (f *modelFlags) choosePrecision(stored cpumodel.Precision) (cpumodel.Precision, error) {
	name, option := f.arithmeticName()
	switch {
	case name == "auto":
		return stored, nil
	case name == "float32":
		return cpumodel.Float32, nil
	case strings.HasPrefix(name, "int8"):
		return cpumodel.Int8, nil
	case name == "bfloat16":
		return cpumodel.BFloat16, nil
	case name == "float16" || name == "fp8":
		return 0, usageErrorf("%s %s is for GPUs: see --devices", option, name)
	case name == "int16":
		return cpumodel.Int16, nil
	}
	return 0, usageErrorf("%s %s: expected auto, float32, bfloat16, int16 or int8", option, name)
}

// quantisation reads --int8-saturation, and whether the name of --gemm-precision asks for the model's fixed multipliers of
// activations, as in int8shiftAlphaAll. A multiplier for each row is the default: it loses less (docs/quality.md).
func (f *modelFlags) quantisation() quantisation {
	return quantisation{saturation: f.saturation, ignoreAlphas: !strings.Contains(f.gemmPrecision, "Alpha")}
}

// engineParts is what a translating command needs: the settings of the engine and what to release afterwards.
type engineParts struct {
	config translator.Config
	models *ensemble
}

// closeEngine closes an engine, so that the models can be closed. A worker whose device does not come back from a step is waited for no
// longer than patience: what came of the command is known by then, and the process must be able to end with it.
func (p *engineParts) closeEngine(engine liveTranslator, logger *slog.Logger) {
	closed := make(chan struct{})
	go func() {
		engine.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		p.models.inUse = true
		logger.Warn("a worker is in the middle of a step; it is not waited for", "waited", patience)
	}
}

// buildEngine opens everything that the flags name. What may be left out, such as measuring, is left out once ctx is done.
func buildEngine(ctx context.Context, m *modelFlags, s *searchFlags, b *batchFlags, cores int, logger *slog.Logger) (*engineParts, error) {
	if err := errors.Join(b.check(), m.check()); err != nil {
		return nil, err
	}
	if err := m.find(); err != nil {
		return nil, err
	}
	models, err := openModels(m.models, m.description())
	if err != nil {
		return nil, err
	}
	parts := &engineParts{models: models}
	if parts.config.Search, err = s.options(); err != nil {
		return nil, err
	}
	if parts.config.Text, err = openText(m, s, models); err != nil {
		return nil, err
	}
	if !s.allowSpecial {
		models.suppress = parts.config.Text.Target.Suppressed()
	}
	unk := parts.config.Text.Target.Unk()
	switch {
	case s.allowUnk:
		models.suppress = slices.DeleteFunc(slices.Clone(models.suppress), func(id search.Token) bool { return id == unk })
	case s.allowSpecial:
		models.suppress = []search.Token{unk}
	}
	models.int8, models.beam, models.looksAtAll = m.quantisation(), s.beamSize, parts.config.Search.Sampling.LooksAtAll()
	if m.tuneKernels {
		models.tuner = newTuner(logger)
	}
	if parts.config.Weights, err = m.modelWeights(); err != nil {
		return nil, err
	}
	parts.config.Models, parts.config.Precise = models, models.precise
	parts.config.KeepRepetition = s.keepRepetition
	parts.config.Batching = b.batching(cores)
	if err := parts.chooseDevice(ctx, m, b, logger); err != nil {
		return nil, err
	}
	logger.Debug("models loaded", "models", m.models, "precision", models.arithmetic())
	return parts, nil
}

// find fills in what the flags leave open from the files beside the model.
func (f *modelFlags) find() error {
	if len(f.models) == 0 {
		return usageErrorf("no model: name one with -m FILE or -m FOLDER, or a configuration with -c FILE")
	}
	found, err := bundle.Find(f.models[0])
	if err != nil {
		return modelError{err}
	}
	if found.Model != "" {
		f.models[0] = found.Model
	}
	if len(f.vocabs) == 0 && found.Source != "" && found.Target != "" {
		f.vocabs = []string{found.Source, found.Target}
	}
	if len(f.shortlist) == 0 && found.Shortlist != "" {
		f.shortlist = []string{found.Shortlist}
	}
	switch len(f.vocabs) {
	case 0:
		return modelError{fmt.Errorf("no vocabulary lies beside %s: name source and target with -v", f.models[0])}
	case 1:
		f.vocabs = append(f.vocabs, f.vocabs[0])
	}
	return nil
}

// description is the configuration file as a description of the architecture, if the model's own is to be ignored.
func (f *modelFlags) description() []byte {
	if !f.ignoreModelConfig || len(f.configs) == 0 {
		return nil
	}
	content, err := readSettings(f.configs[len(f.configs)-1])
	if err != nil {
		return nil // applyConfigFile has read it already
	}
	return content
}

func (f *modelFlags) modelWeights() ([]float32, error) {
	if len(f.weights) == 0 {
		return nil, nil
	}
	var out []float32
	for _, word := range f.weights {
		weight, err := strconv.ParseFloat(word, 32)
		if err != nil {
			return nil, usageErrorf("--weights %s: not a number", word)
		}
		out = append(out, float32(weight))
	}
	if len(out) != len(f.models) {
		return nil, usageErrorf("--weights gives %d numbers for %d models", len(out), len(f.models))
	}
	return out, nil
}

// openText opens vocabularies and shortlist.
func openText(m *modelFlags, s *searchFlags, models *ensemble) (translator.Text, error) {
	text := translator.Text{
		RightLeft: models.models[0].RightLeft, Pieces: s.noSPMEncode, KeepPieces: s.noSPMDecode || s.wordScores,
		MaxLength: s.maxLength, Crop: s.maxLengthCrop,
	}
	sources, last := models.sources(), len(m.vocabs)-1
	if last != sources {
		return text, usageErrorf("-v names %d vocabularies, but the model has %d: one for each source and one for the target",
			len(m.vocabs), sources+1)
	}
	var err error
	opened := map[string]vocab.Vocabulary{}
	for _, path := range m.vocabs {
		if opened[path] == nil {
			if opened[path], err = vocab.Open(path); err != nil {
				return text, modelError{err}
			}
		}
	}
	text.Source, text.Target = opened[m.vocabs[0]], opened[m.vocabs[last]]
	for i, path := range m.vocabs[:last] {
		if i > 0 {
			text.Further = append(text.Further, opened[path])
		}
		if want := models.sourceVocabulary(i); opened[path].Size() != want && want != 0 {
			return text, modelError{fmt.Errorf("%s has %d pieces, but the model %s reads %d: it belongs to another model",
				path, opened[path].Size(), m.models[0], want)}
		}
	}
	first := models.models[0]
	if text.Target.Size() != first.TargetVocabulary {
		return text, modelError{fmt.Errorf("%s has %d pieces, but the model %s writes %d: it belongs to another model",
			m.vocabs[last], text.Target.Size(), m.models[0], first.TargetVocabulary)}
	}
	if text.Shortlist, err = loadShortlist(m.shortlist, text, m.vocabs[0] == m.vocabs[last]); err != nil {
		return text, err
	}
	return text, models.checkHard(m.models, text)
}

// checkHard refuses vocabularies and shortlists with which hard attention does not work.
func (e *ensemble) checkHard(paths []string, text translator.Text) error {
	for i, m := range e.models {
		if err := m.CheckPieces(text.Target.EOS(), text.Target.Suppressed()); err != nil {
			return modelError{fmt.Errorf("%s: %w", paths[i], err)}
		}
		if text.Shortlist != nil && m.Recurrence != nil && m.Recurrence.Hard != nil {
			return usageErrorf("--shortlist: a shortlist may lack the pieces with which the hard attention of %s moves on; translate without one", paths[i])
		}
	}
	return nil
}

// loadShortlist opens what --shortlist names: a path, and for the text form first, best and threshold.
func loadShortlist(words []string, text translator.Text, shared bool) (*shortlist.Shortlist, error) {
	if len(words) == 0 || words[0] == "none" || words[0] == "" {
		return nil, nil
	}
	options := shortlist.Options{Parameters: shortlist.Defaults(), Shared: shared, Source: text.Source, Target: text.Target}
	if len(words) > 4 {
		return nil, usageErrorf("--shortlist takes PATH FIRST BEST THRESHOLD, but has %d values", len(words))
	}
	for i, word := range words[1:] {
		number, err := strconv.ParseFloat(word, 64)
		if word == "false" { // Marian's decoder.yml writes the pruning threshold so
			number, err = 0, nil
		}
		if err != nil || number < 0 || i < 2 && number != float64(int(number)) {
			return nil, usageErrorf("--shortlist %s: %q is not a number that fits; expected PATH FIRST BEST THRESHOLD", words[0], word)
		}
		switch i {
		case 0:
			options.First = int(number)
		case 1:
			options.Best = int(number)
		case 2:
			options.Threshold = number
		}
	}
	list, err := shortlist.OpenCached(words[0], options)
	if err != nil {
		return nil, modelError{err}
	}
	return list, nil
}

// options turns the flags into options of the search.
func (f *searchFlags) options() (search.Options, error) {
	o := search.Options{
		Beam: f.beamSize, Normalize: f.normalize, WordPenalty: f.wordPenalty, MaxLengthFactor: f.maxLengthFactor,
		WordScores: f.wordScores, Scores: f.nBest || f.wantScores, Align: f.alignment != "", NoRepeat: f.noRepeat, StopBelow: f.earlyStop, Seed: f.seed,
	}
	if f.nBest {
		o.NBest = f.beamSize
	}
	var err error
	if o.Sampling, err = parseSampling(f.sampling, f.beamSize); err != nil {
		return o, err
	}
	if err := o.Validate(); err != nil {
		return o, usageError{err}
	}
	if f.maxLength < 2 {
		return o, usageErrorf("--max-length %d: at least 2", f.maxLength)
	}
	return o, nil
}

// parseSampling reads --output-sampling: a method with its parameter, then the temperature. As in Marian, sampling
// from the full distribution with a beam is beam search over noisy scores.
func parseSampling(words []string, beam int) (search.Sampling, error) {
	var s search.Sampling
	if len(words) == 0 {
		return s, nil
	}
	numbers := make([]float32, 0, 2)
	for _, word := range words[1:] {
		number, err := strconv.ParseFloat(word, 32)
		if err != nil {
			return s, usageErrorf("--output-sampling: %q is not a number", word)
		}
		numbers = append(numbers, float32(number))
	}
	wanted := map[string]int{"full": 0, "gumbel": 0, "topk": 1, "nucleus": 1, "epsilon": 1}
	parameters, known := wanted[words[0]]
	if !known || len(numbers) < parameters || len(numbers) > parameters+1 {
		return s, usageErrorf("--output-sampling %s: expected full [TEMP], topk K [TEMP], nucleus P [TEMP], gumbel [TEMP] or epsilon E [TEMP]",
			strings.Join(words, " "))
	}
	switch words[0] {
	case "full":
		s.Method = search.Full
		if beam > 1 {
			s.Method = search.Gumbel
		}
	case "gumbel":
		s.Method = search.Gumbel
	case "topk":
		if k := float64(numbers[0]); k != math.Trunc(k) || k > math.MaxInt32 {
			return s, usageErrorf("--output-sampling topk %s: want a whole number of pieces", words[1])
		}
		s.Method, s.K = search.TopK, int(numbers[0])
	case "nucleus":
		s.Method, s.P = search.Nucleus, numbers[0]
	case "epsilon":
		s.Method, s.Epsilon = search.Epsilon, numbers[0]
	}
	if len(numbers) > parameters {
		if s.Temperature = numbers[parameters]; s.Temperature == 0 { // which stands for none given
			return s, usageErrorf("--output-sampling: a temperature of 0 leaves nothing to draw: leave the option out")
		}
	}
	return s, nil
}

// check refuses numbers that are none.
func (f *modelFlags) check() error {
	if math.IsNaN(f.saturation) {
		return usageErrorf("--int8-saturation: not a number")
	}
	return nil
}

// check refuses sizes that make no sense.
func (f *batchFlags) check() error {
	if f.memory < 0 {
		return usageErrorf("--memory %d: at least 0, which lets it be chosen for this machine", f.memory)
	}
	if f.maxiBatchSort != "src" && f.maxiBatchSort != "none" {
		return usageErrorf("--maxi-batch-sort %s: expected src or none", f.maxiBatchSort)
	}
	if f.latency < 0 {
		return usageErrorf("--latency %v: at least 0", f.latency)
	}
	return nil
}

// batching turns the flags into sizes, chosen for this machine where they are open.
func (f *batchFlags) batching(cores int) translator.Batching {
	b := translator.Batching{
		Workers: f.threads, Slots: f.slots, MiniBatchLines: f.miniBatch, MiniBatchTokens: f.miniBatchWords,
		Unsorted: f.maxiBatchSort == "none", Latency: f.latency,
		SentenceCores: f.sentenceCores,
	}
	if f.maxiBatch > 0 {
		b.MaxiBatch = f.maxiBatch * max(f.miniBatch, 1)
	}
	if f.sentenceCores == 0 && f.threads > cores {
		b.SentenceCores = cores // more of them are not there, however many workers take turns on them
	}
	return b.Automatic(cores)
}

// ingredients lists everything that a translation depends on, by the names that a user knows: models, vocabularies,
// shortlist, arithmetic and search.
func (p *engineParts) ingredients() (map[string]string, error) {
	text, o := &p.config.Text, &p.config.Search
	var models []string
	for _, file := range p.models.files {
		models = append(models, short(file.Fingerprint()))
	}
	further := ""
	for _, vocabulary := range text.Further {
		further += short(vocabulary.Fingerprint()) + " "
	}
	list := map[string]string{
		"models": strings.Join(models, " "), "vocabularies": short(text.Source.Fingerprint()) + " " + further + short(text.Target.Fingerprint()),
		"shortlist": "none", "precision": p.models.arithmetic(), "suppressed pieces": fmt.Sprint(p.models.suppress),
		"weights": fmt.Sprint(p.config.Weights), "beam-size": fmt.Sprint(o.Beam), "hypotheses": fmt.Sprint(o.NBest),
		"normalize": fmt.Sprint(o.Normalize), "word-penalty": fmt.Sprint(o.WordPenalty),
		"max-length-factor": fmt.Sprint(o.MaxLengthFactor), "scores": fmt.Sprint(o.Scores), "word-scores": fmt.Sprint(o.WordScores),
		"alignment wanted": fmt.Sprint(o.Align), "no-repeat-ngram": fmt.Sprint(o.NoRepeat),
		"output-sampling": fmt.Sprintf("%+v", o.Sampling), "seed": fmt.Sprint(o.Seed),
		"quantisation": fmt.Sprintf("%+v", p.models.int8), "keep-repetition": fmt.Sprint(p.config.KeepRepetition), "right-left": fmt.Sprint(text.RightLeft),
		"no-spm-encode": fmt.Sprint(text.Pieces), "pieces wanted": fmt.Sprint(text.KeepPieces),
		"max-length": fmt.Sprint(text.MaxLength), "max-length-crop": fmt.Sprint(text.Crop),
	}
	if o.StopBelow > 0 {
		list["early-stop"] = fmt.Sprint(o.StopBelow)
	}
	if text.Shortlist != nil {
		h := sha256.New()
		if _, err := text.Shortlist.WriteTo(h); err != nil {
			return nil, err
		}
		list["shortlist"] = short(hex.EncodeToString(h.Sum(nil)))
	}
	return list, nil
}

// short is enough of a fingerprint to tell two files apart, and little enough to read.
func short(fingerprint string) string { return fingerprint[:min(len(fingerprint), 16)] }

// fingerprint identifies everything that a translation depends on, for reports.
func (p *engineParts) fingerprint() (string, error) {
	list, err := p.ingredients()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(list)) {
		fmt.Fprintf(h, "%s: %s\n", name, list[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// applyConfig reads the configuration files: those that are named, the last one first, and the one that lies with the model.
// What is said first counts. It returns warnings, also about Marian's options that have no effect.
func (f *modelFlags) applyConfig(flags *pflag.FlagSet) (warnings []string, err error) {
	outside, files := changedFlags(flags), files{flags: flags, lookup: os.LookupEnv}
	f.outside = outside
	nameDevices(flags, outside)
	for _, path := range slices.Backward(slices.Clone(f.configs)) {
		if err := files.apply(path); err != nil {
			return files.warnings, err
		}
	}
	if f.interpolate { // the models may be what is named by a variable
		if err := interpolatePaths(flags, os.LookupEnv); err != nil {
			return files.warnings, err
		}
	}
	if err := f.applyBeside(flags, &files); err != nil {
		return files.warnings, err
	}
	if f.interpolate {
		if err := interpolatePaths(flags, os.LookupEnv); err != nil {
			return files.warnings, err
		}
	}
	notes, err := f.marianNotes(flags, outside)
	return append(files.warnings, notes...), err
}

// applyBeside reads the configuration that lies with the only model: in its folder, or, where no other was named, beside
// its file.
func (f *modelFlags) applyBeside(flags *pflag.FlagSet, files *files) error {
	if len(f.models) != 1 {
		return nil
	}
	found, err := bundle.Find(f.models[0])
	if err != nil {
		return modelError{err}
	}
	isFolder := found.Config != "" && found.Model == "" // whose configuration names the models
	if found.Config == "" || len(f.configs) > 0 && !isFolder {
		return nil
	}
	if isFolder {
		f.models = nil
		flags.Lookup("models").Changed = false
	}
	if len(f.configs) == 0 {
		f.configs = []string{found.Config}
	}
	return files.apply(found.Config)
}
