package main

import (
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/internal/obs"
	"github.com/sluice-mt/sluice/translator/bundle"
)

// Each group of flags is a struct of its own: who reads inputs does not see how beams are set.

type modelFlags struct {
	configs           []string
	interpolate       bool
	models            []string
	vocabs            []string
	shortlist         []string
	weights           []string
	precision         string
	gemmPrecision     string
	saturation        float64
	ignoreModelConfig bool
	tuneKernels       bool
	devices           []string
	streams           int
	gpuProducts       string
	outside           map[string]bool // options that were set outside of a configuration file
}

func (f *modelFlags) group() flagGroup {
	g := newGroup("Model")
	s := g.flags
	s.StringArrayVarP(&f.configs, "config", "c", nil, "read options from these YAML `FILES` (Marian's decoder.yml); later ones win")
	s.BoolVar(&f.interpolate, "interpolate-env-vars", false, "replace ${VARIABLE} in paths by the environment variable")
	s.StringArrayVarP(&f.models, "models", "m", nil, "model `FILE` (.npz or .bin, plain, gz or zst) or folder; several make an ensemble")
	s.StringArrayVarP(&f.vocabs, "vocabs", "v", nil, "vocabulary `FILES` of each source and the target (.spm, .yml, .json, text); found beside the model if left out")
	s.StringArrayVar(&f.shortlist, "shortlist", nil, "lexical shortlist `PATH [FIRST BEST THRESHOLD]` (defaults 100 100 0)")
	s.StringArrayVar(&f.weights, "weights", nil, "weight of each model in an ensemble (1 each)")
	s.StringVar(&f.precision, "precision", "auto", "arithmetic: auto (as the model is stored; float16 on GPUs), float32, bfloat16, int16, int8; on GPUs float16, bfloat16, int8, fp8")
	s.StringVar(&f.gemmPrecision, "gemm-precision", "", "arithmetic by its name in browsermt's Marian; int8shiftAlphaAll uses the model's alphas")
	s.Float64Var(&f.saturation, "int8-saturation", 0, "cut weights off at this many standard deviations of their column; negative: nowhere")
	s.Lookup("int8-saturation").Hidden = true // for measurements: see scripts/quality.sh
	s.StringArrayVarP(&f.devices, "devices", "d", nil, "translate on these `GPUS`: numbers beginning with 0, all, auto (or else on the CPU), cpu (the default); see docs/gpu.md")
	s.IntVar(&f.streams, "streams", 0, "workers of each GPU, one per stream (0: chosen, by a measurement at the first start unless --tune-kernels=false)")
	s.StringVar(&f.gpuProducts, "gpu-products", "measured", gpuProductsUsage)
	s.BoolVar(&f.tuneKernels, "tune-kernels", true, "measure once how this processor (or GPU) multiplies matrices of the model's shapes fastest, and how a GPU is kept busy, and remember it in the user's cache folder; results are the same")
	s.BoolVar(&f.ignoreModelConfig, "ignore-model-config", false, "take the architecture from the configuration, not from the model file")
	return g
}

type searchFlags struct {
	beamSize        int
	normalize       float32
	wordPenalty     float32
	maxLength       int
	maxLengthCrop   bool
	maxLengthFactor float32
	nBest           bool
	wordScores      bool
	alignment       string
	allowUnk        bool
	allowSpecial    bool
	sampling        []string
	seed            uint64
	noRepeat        int
	earlyStop       float32
	keepRepetition  bool
	wantScores      bool // an output format needs them
	noSPMEncode     bool
	noSPMDecode     bool
}

func (f *searchFlags) group() flagGroup {
	g := newGroup("Search")
	s := g.flags
	s.IntVarP(&f.beamSize, "beam-size", "b", 1, "hypotheses kept while searching; 1 is greedy and fastest (Marian: 12)")
	s.Float32VarP(&f.normalize, "normalize", "n", 1, "divide scores by length^`ALPHA` (Marian: 0)")
	s.Lookup("normalize").NoOptDefVal = "1"
	s.Float32Var(&f.wordPenalty, "word-penalty", 0, "subtract this from the score for every target piece")
	s.IntVar(&f.maxLength, "max-length", 1000, "longest input in pieces; longer ones are split at sentence ends and rejoined")
	s.BoolVar(&f.maxLengthCrop, "max-length-crop", false, "crop longer inputs instead of splitting them")
	s.Float32Var(&f.maxLengthFactor, "max-length-factor", 3, "end a translation at this multiple of the source length")
	s.BoolVar(&f.nBest, "n-best", false, "print beam-size translations of each sentence, in Marian's format")
	s.BoolVar(&f.wordScores, "word-scores", false, "print the score of each target piece (with --n-best or --jsonl)")
	s.StringVar(&f.alignment, "alignment", "", "print alignments: hard, soft, or a threshold from 0 to 1")
	s.Lookup("alignment").NoOptDefVal = "1"
	s.BoolVar(&f.allowUnk, "allow-unk", false, "let the unknown piece be generated")
	s.BoolVar(&f.allowSpecial, "allow-special", false, "let control pieces be generated")
	s.StringArrayVar(&f.sampling, "output-sampling", nil, "sample: full [TEMP], topk K [TEMP], nucleus P [TEMP], gumbel [TEMP] (noisy beam), epsilon E [TEMP]")
	s.Lookup("output-sampling").NoOptDefVal = "full"
	s.Uint64Var(&f.seed, "seed", 0, "seed of the sampling; with the sentence itself it decides every draw")
	s.IntVar(&f.noRepeat, "no-repeat-ngram", 0, "never repeat a sequence of this many pieces")
	s.Float32Var(&f.earlyStop, "early-stop", 0, "end a beam search when all open hypotheses are `DELTA` below the best ended one (0: never; 3 rarely changes the best)")
	s.BoolVar(&f.keepRepetition, "keep-repetition", false, "leave endless repetition as it is instead of searching again without")
	s.BoolVar(&f.noSPMEncode, "no-spm-encode", false, "the input is in pieces already")
	s.BoolVar(&f.noSPMDecode, "no-spm-decode", false, "print pieces")
	return g
}

type batchFlags struct {
	threads        int
	miniBatch      int
	miniBatchWords int
	maxiBatch      int
	maxiBatchSort  string
	slots          int
	memory         int
	sentenceCores  int
	latency        time.Duration
}

func (f *batchFlags) group() flagGroup {
	g := newGroup("Batches and machine (0: chosen for this machine; translations never depend on these)")
	s := g.flags
	countVar(s, &f.threads, "cpu-threads", mostWorkers, "workers, one per core")
	countVar(s, &f.miniBatch, "mini-batch", mostMiniBatch, "most sentences in one encoder batch")
	countVar(s, &f.miniBatchWords, "mini-batch-words", mostMiniBatchPieces, "most source pieces in one encoder batch")
	countVar(s, &f.maxiBatch, "maxi-batch", mostMiniBatch, "mini-batches that are read ahead and sorted")
	s.StringVar(&f.maxiBatchSort, "maxi-batch-sort", "src", "sort the maxi-batch by source length: src or none")
	countVar(s, &f.slots, "slots", mostSlots, "hypotheses that one worker decodes at a time, topped up as they finish")
	countVar(s, &f.sentenceCores, "sentence-cores", mostWorkers, "most cores that work on one sentence while other workers have none; several are used where that is measured to be faster (1: one)")
	s.IntVar(&f.memory, "memory", 0, "`MIB` of text in flight")
	s.DurationVar(&f.latency, "latency", 200*time.Millisecond, "longest time a sentence waits for company when input arrives slowly")
	return g
}

type inputFlags struct {
	inputs      []string
	format      string
	field       string
	further     []string
	prefixField string
	forceDecode bool
	header      bool
	tsv         bool
	tsvFields   int
	maxRecord   int
}

func (f *inputFlags) group() flagGroup {
	g := newGroup("Input")
	s := g.flags
	s.StringArrayVarP(&f.inputs, "input", "i", nil, "`FILES`, folders or patterns to translate; - is standard input (the default). A model of several sources reads a line of as many files at a time, or columns of one")
	s.StringVar(&f.format, "format", "auto", "text, tsv, jsonl, parquet; auto goes by the file's name")
	s.StringVar(&f.field, "field", "", "what to translate: TSV column (1, 2, … or a header's name), JSON path (a.b[0]), Parquet column")
	s.StringArrayVar(&f.further, "further-field", nil, "for a model of several sources, the TSV column or JSON path of the second source; repeated, of those after it")
	s.BoolVar(&f.header, "header", false, "the first line of a TSV file names its columns")
	s.BoolVar(&f.tsv, "tsv", false, "Marian's way with TSV: print translations alone (--format tsv carries the other columns through)")
	s.IntVar(&f.tsvFields, "tsv-fields", 0, "number of fields a TSV line must have (0: as many as the first)")
	s.BoolVar(&f.forceDecode, "force-decode", false, "force translations to begin with the text in the last TSV column, or in --prefix-field")
	s.StringVar(&f.prefixField, "prefix-field", "", "the TSV column or JSON path of that text")
	s.IntVar(&f.maxRecord, "max-record", 16, "longest record in `MIB`; longer ones are flagged")
	return g
}

type outputFlags struct {
	output    string
	outputDir string
	suffix    string
	target    string
	jsonl     bool
	overwrite bool
	report    string
	dump      string
	tolerate  []string
	grace     time.Duration
	commit    time.Duration
}

func (f *outputFlags) group() flagGroup {
	g := newGroup("Output")
	s := g.flags
	s.StringVarP(&f.output, "output", "o", "-", "`FILE` to write, compressed by its suffix (.gz, .zst, .xz, .bz2); - is standard output")
	s.StringVar(&f.outputDir, "output-dir", "", "write one output per input into this `FOLDER`, keeping the tree")
	s.StringVar(&f.suffix, "output-suffix", "", "append this to the names in --output-dir, before any compression suffix")
	s.StringVar(&f.target, "target-field", "", "TSV column or JSON field that receives the translation")
	s.BoolVar(&f.jsonl, "jsonl", false, "write a JSON record per input: text, scores, alignment, flags")
	s.BoolVar(&f.overwrite, "overwrite", false, "start afresh where a partial or finished output exists")
	s.StringVar(&f.report, "report", "", "write counts, flags, timings and fingerprint to this JSON `FILE`")
	s.StringVar(&f.dump, "dump-config", "", "print the settings in effect as a configuration file and exit: full, or minimal (what differs from the defaults)")
	s.Lookup("dump-config").NoOptDefVal = "full"
	s.StringArrayVar(&f.tolerate, "tolerate", nil, "`FLAGS` that do not change the exit status (or all)")
	s.DurationVar(&f.grace, "grace-period", 10*time.Second, "time to finish what is in flight after SIGINT or SIGTERM")
	s.DurationVar(&f.commit, "commit-every", 2*time.Second, "time between checkpoints of the output")
	return g
}

type logFlags struct {
	quiet    bool
	quieter  bool
	file     string
	level    string
	format   string
	progress string
	statFreq string
}

func (f *logFlags) group() flagGroup {
	g := newGroup("Messages")
	s := g.flags
	s.BoolVar(&f.quiet, "quiet", false, "print warnings and errors only")
	s.BoolVar(&f.quieter, "quiet-translation", false, "print no progress")
	s.StringVar(&f.file, "log", "", "append messages to this `FILE` as well")
	s.StringVar(&f.level, "log-level", "info", "debug, info, warn, error, off (Marian's trace, err and critical are debug and error)")
	s.StringVar(&f.format, "log-format", "text", "text or json")
	s.StringVar(&f.progress, "progress", "auto", "bar, log, none; auto shows a bar on a terminal")
	s.StringVar(&f.statFreq, "stat-freq", "10s", "how often progress is logged: a duration, or a number of sentences")
	return g
}

// translateLists says which words belong to a list option, for marianArguments.
func translateLists() map[string]func(string) bool {
	always := func(string) bool { return true }
	lists := map[string]func(string) bool{
		"config":          looksLikeConfiguration,
		"models":          looksLikeModel,
		"vocabs":          looksLikeVocabulary,
		"input":           always,
		"shortlist":       isNumber,
		"weights":         isNumber,
		"devices":         isDevice,
		"tolerate":        func(word string) bool { _, ok := flagByName(word); return ok || word == "all" },
		"output-sampling": func(word string) bool { return isNumber(word) || samplingKinds[word] },
	}
	for _, option := range marianOptions() {
		if option.syntax == list || option.syntax == maybe {
			lists[option.name] = isNumber
		}
	}
	return lists
}

var samplingKinds = map[string]bool{"full": true, "topk": true, "nucleus": true, "gumbel": true, "epsilon": true}

func looksLikeModel(word string) bool { return bundle.IsModel(word) }

func looksLikeVocabulary(word string) bool { return bundle.IsVocabulary(word) }

func looksLikeConfiguration(word string) bool {
	extension := filepath.Ext(word)
	return extension == ".yml" || extension == ".yaml"
}

// threshold reads --log-level, by our names or Marian's, and --quiet. A level that is not one is an error with --quiet too.
func (f *logFlags) threshold() (string, error) {
	level := f.level
	switch level {
	case "trace":
		level = "debug"
	case "err", "critical":
		level = "error"
	case "off":
		level = "error+100"
	}
	if _, err := obs.NewLogger(io.Discard, f.format, level); err != nil {
		return "", usageError{err}
	}
	if f.quiet && level != "error" && level != "error+100" {
		level = "warn"
	}
	return level, nil
}

// statInterval reads --stat-freq: a duration, or, as in Marian, a number of sentences.
func (f *logFlags) statInterval() (every time.Duration, sentences int64, err error) {
	if n, err := strconv.ParseInt(strings.TrimSuffix(f.statFreq, "u"), 10, 64); err == nil {
		return 0, n, nil
	}
	every, err = time.ParseDuration(f.statFreq)
	if err != nil {
		return 0, 0, usageErrorf("--stat-freq %s: neither a duration (10s) nor a number of sentences", f.statFreq)
	}
	return every, 0, nil
}
