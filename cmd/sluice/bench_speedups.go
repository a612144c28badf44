package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A speedupsBench is one run of "sluice bench speedups".
type speedupsBench struct {
	model      modelFlags
	input      string
	beam       int
	normalize  float32
	known      int
	slots      int
	runs       int
	sentences  int
	length     int
	candidates int
	kind       string
	vocabulary int
	dimEmb     int
	dimRNN     int
	fcDepth    int
	vectors    bool // from the first row on
	asJSON     bool
}

// A speedupRow is what one more speedup gives.
type speedupRow struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"words_per_second"` // pieces with random weights; the median
	Relative  float64 `json:"relative_to_baseline"`
	Identical float64 `json:"identical_outputs"` // share, of those of the baseline
	MACs      float64 `json:"macs_per_word"`

	options   cpumodel.Options
	precision cpumodel.Precision
	stopBelow float32

	decoder *search.Decoder
	stepper *cpumodel.Stepper
	seconds []float64
	outputs [][]search.Token
}

// speedupText is what is translated.
type speedupText struct {
	model    *model.Model
	sources  []search.Source
	words    int64
	end      search.Token
	suppress []search.Token
	factor   float32 // of the length of translations
	unit     string
}

func newSpeedupsCommand() *cobra.Command {
	b := new(speedupsBench)
	command := &cobra.Command{
		Use:   "speedups [-m MODEL -i TEXT] [flags]",
		Short: "Measure what each speedup of recurrent decoders gives",
		Long: `Translate with a recurrent model on one core by beam search, first without any of the speedups of
Devlin, "Sharp Models on Dull Hardware", 2017, and then with one more of them in each row, as in Table 1 there.
The rows take turns, run after run; the median of each is printed, and which share of the translations are those of
the first row. Time is the processor's, and text and vocabularies are left out.

Without a model there are random weights in the shape of the paper's architecture, and random sentences in which few
pieces are frequent. Every translation then has the length of its source.`,
		Example: `  sluice bench speedups
  sluice bench speedups -m models/reference/s2s-gru -i news.en --beam-size 6`,
		Args: exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return b.run(command)
		},
	}
	own := newGroup("Benchmark")
	s := own.flags
	s.StringArrayVarP(&b.model.models, "models", "m", nil, "recurrent `MODEL`: a file or a folder; random weights if left out")
	s.StringArrayVarP(&b.model.vocabs, "vocabs", "v", nil, "its vocabulary `FILES`; found beside the model if left out")
	s.StringVarP(&b.input, "input", "i", "", "`FILE` of text to translate, a sentence a line")
	s.IntVarP(&b.beam, "beam-size", "b", 6, "hypotheses of each sentence")
	s.Float32VarP(&b.normalize, "normalize", "n", 1, "divide scores by length^`ALPHA`")
	countVar(s, &b.slots, "slots", mostSlots, "hypotheses that are decoded at a time (0: those of one sentence)")
	s.IntVar(&b.known, "known-pieces", 0, "frequent pieces whose embeddings are multiplied in advance (0: as many as usual)")
	s.IntVar(&b.runs, "runs", 5, "passes over the text; the median is printed")
	s.IntVar(&b.sentences, "sentences", 8, "random sentences")
	s.IntVar(&b.length, "length", 25, "pieces of each")
	s.IntVar(&b.candidates, "candidates", 500, "target pieces that each may be translated with (0: all)")
	s.StringVar(&b.kind, "type", "devlin", "type of the random model: devlin or s2s")
	s.IntVar(&b.vocabulary, "vocabulary", 32000, "pieces of source and target of the random model")
	s.IntVar(&b.dimEmb, "dim-emb", 512, "width of its embeddings")
	s.IntVar(&b.dimRNN, "dim-rnn", 1024, "width of its GRUs and fully connected layers")
	s.IntVar(&b.fcDepth, "dec-fc-depth", 6, "its fully connected layers, in type devlin")
	s.BoolVar(&b.vectors, "vectors", false, "use vectors for sigmoid and tanh from the first row on")
	s.BoolVar(&b.asJSON, "json", false, "print JSON")
	addGroups(command, own)
	return command
}

func (b *speedupsBench) run(command *cobra.Command) error {
	if b.runs < 1 || b.beam < 1 || b.sentences < 1 || b.length < 1 || b.candidates < 0 || b.vocabulary < 10 {
		return usageErrorf("runs, beam, sentences and their length must be at least 1, the vocabulary at least 10")
	}
	text, err := b.text()
	if err != nil {
		return err
	}
	if text.model.Recurrence == nil {
		return usageErrorf("%s is not a recurrent model", b.model.models[0])
	}
	rows := b.rows(text)
	for _, row := range rows {
		if err := row.prepare(text, max(b.slots, b.beam)); err != nil {
			return err
		}
	}
	runtime.GC()
	for run := range b.runs + 1 {
		for _, row := range rows {
			row.pass(text, b, run == 0)
		}
	}
	for _, row := range rows {
		row.compare(rows[0], text)
	}
	if b.asJSON {
		return writeJSON(command.OutOrStdout(), rows)
	}
	return printSpeedups(command.OutOrStdout(), rows, text.unit)
}

// rows are the baseline and what is added to it, one after another.
func (b *speedupsBench) rows(text *speedupText) []*speedupRow {
	without := cpumodel.KnownEmbeddings | cpumodel.KeptContexts | cpumodel.VectorGates | cpumodel.MergedStates
	if b.vectors {
		without &^= cpumodel.VectorGates
	}
	known := cmp.Or(b.known, cpumodel.DefaultKnownPieces) // whether they pay is what the row shows
	options := cpumodel.Options{Suppress: text.suppress, KnownPieces: known, Beam: b.beam, Without: without}
	rows := []*speedupRow{
		{Name: "baseline: float32", options: options, precision: cpumodel.Float32},
		{Name: "+ 16-bit products", options: options, precision: cpumodel.Int16},
	}
	for _, one := range []struct {
		name     string
		speedups cpumodel.Speedups
	}{
		{"+ embeddings multiplied in advance", cpumodel.KnownEmbeddings}, {"+ attention context multiplied in advance", cpumodel.KeptContexts},
		{"+ sigmoid and tanh by vectors", cpumodel.VectorGates}, {"+ merged recurrent states", cpumodel.MergedStates},
	} {
		if r := text.model.Recurrence; one.speedups == cpumodel.KeptContexts && r.Devlin == nil && (r.LayerNorm || b.beam == 1) {
			continue // which has it not
		}
		if options.Without&one.speedups == 0 {
			continue
		}
		options.Without &^= one.speedups
		rows = append(rows, &speedupRow{Name: one.name, options: options, precision: cpumodel.Int16})
	}
	if len(b.model.models) > 0 { // the translations of random weights have no end
		rows = append(rows, &speedupRow{Name: "+ early stop, 3 below the best", options: options, precision: cpumodel.Int16, stopBelow: 3})
	}
	return rows
}

// prepare packs the model as the row wants it.
func (r *speedupRow) prepare(text *speedupText, slots int) error {
	weights, err := cpumodel.Load(text.model, r.precision, r.options)
	if err != nil {
		return modelError{err}
	}
	r.stepper = weights.NewStepper(slots)
	r.decoder, err = search.NewDecoder([]search.Stepper{r.stepper}, nil, text.end)
	return err
}

// pass translates all sentences. The first pass is a warm-up.
func (r *speedupRow) pass(text *speedupText, b *speedupsBench, first bool) {
	options := search.Options{Beam: b.beam, Normalize: b.normalize, MaxLengthFactor: text.factor, StopBelow: r.stopBelow}
	sentences := make([]*search.Sentence, len(text.sources))
	places := make(map[*search.Sentence]int, len(sentences))
	for i := range sentences {
		sentences[i] = &search.Sentence{Source: text.sources[i], Options: options}
		places[sentences[i]] = i
	}
	outputs := make([][]search.Token, len(sentences))
	macs, begin, wall := r.stepper.Stats().MACs, cputime.Process(), time.Now()
	for waiting := sentences; len(waiting) > 0 || r.decoder.Active() > 0; {
		for len(waiting) > 0 && r.decoder.Free() >= b.beam {
			r.decoder.Encode(waiting[:1])
			r.decoder.Start(waiting[0])
			waiting = waiting[1:]
		}
		for _, result := range r.decoder.Step() {
			outputs[places[result.Sentence]] = slices.Clone(result.Hypotheses[0].Tokens)
		}
	}
	took := cputime.Process() - begin
	if took <= 0 { // where the system does not tell
		took = time.Since(wall)
	}
	r.outputs, r.MACs = outputs, float64(r.stepper.Stats().MACs-macs)/float64(text.words)
	if !first {
		r.seconds = append(r.seconds, took.Seconds())
	}
}

// compare completes the row with what it is in comparison with the baseline.
func (r *speedupRow) compare(baseline *speedupRow, text *speedupText) {
	slices.Sort(r.seconds)
	r.PerSecond = float64(text.words) / r.seconds[len(r.seconds)/2]
	r.Relative = r.PerSecond / baseline.PerSecond
	for i := range r.outputs {
		if slices.Equal(r.outputs[i], baseline.outputs[i]) {
			r.Identical += 1 / float64(len(r.outputs))
		}
	}
}

func printSpeedups(w io.Writer, rows []*speedupRow, unit string) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\t%ss/s\trelative\tidentical\tmillion MAC/%s\n", unit, unit)
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%.1f\t%.2f\t%.1f %%\t%.1f\n", r.Name, r.PerSecond, r.Relative, 100*r.Identical, r.MACs/1e6)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeOutput(w, b.String())
}
