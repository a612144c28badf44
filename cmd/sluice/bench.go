package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
)

// benchmark is one run of "sluice bench".
type benchmark struct {
	model  modelFlags
	search searchFlags
	batch  batchFlags
	input  string
	device string
	runs   int
	topUp  float64
	alone  bool // one sentence at a time
	asJSON bool
}

// A benchRun is what one pass over the text gave.
type benchRun struct {
	Seconds        float64 `json:"seconds"`
	CPUSeconds     float64 `json:"cpu_seconds"` // of the whole process, 0 where the system does not tell
	WordsPerSec    float64 `json:"source_words_per_second"`
	WordsPerCPU    float64 `json:"source_words_per_cpu_second"`
	SourcePieces   float64 `json:"source_pieces_per_second"`
	TargetPieces   float64 `json:"target_pieces_per_second"`
	MACsPerPiece   float64 `json:"macs_per_source_piece"`
	LeftOut        float64 `json:"macs_left_out_share"`         // with activations that are zeros
	GMACsPerWorker float64 `json:"gmacs_per_second_and_worker"` // those left out included
	Peak           float64 `json:"ceiling_gmacs_per_core"`      // of the precision, in the mean over the run
	Encode         float64 `json:"encoder_share"`
	Step           float64 `json:"decoder_share"`
	Output         float64 `json:"output_layer_share"`
	Rest           float64 `json:"text_and_search_share"`
	Rows           float64 `json:"hypotheses_per_decoder_step"`
	Allocations    float64 `json:"allocations_per_sentence"`    // of the whole process: results, and what the benchmark itself needs
	Half           float64 `json:"milliseconds_half,omitempty"` // that half of the sentences took at most, one at a time
	Nearly         float64 `json:"milliseconds_99_percent,omitempty"`
	Cores          int     `json:"cores_per_sentence,omitempty"` // at most, one at a time
}

// A benchReport is the median of several runs, and what the machine could do.
type benchReport struct {
	Precision string   `json:"precision"`
	GPUs      int      `json:"gpus,omitempty"` // which do not count pieces and products, nor where the time goes
	Workers   int      `json:"workers"`
	Lines     int      `json:"lines"`
	Words     int64    `json:"source_words"`
	Runs      int      `json:"runs"`
	Median    benchRun `json:"median"`
	Slowest   float64  `json:"slowest_words_per_second"`
	Fastest   float64  `json:"fastest_words_per_second"`
	Resident  float64  `json:"resident_megabytes"` // at most, with the model; 0 where the system does not tell
	Kernels   []string `json:"kernels,omitempty"`  // of the processor

	OneByOne []benchRun `json:"one_by_one,omitempty"` // one sentence at a time: the medians with fewer cores for a sentence, then this one
}

func newBenchCommand() *cobra.Command {
	b := new(benchmark)
	command := &cobra.Command{
		Use:   "bench -m MODEL -i TEXT [flags]",
		Short: "Measure how fast this machine translates a text",
		Long: `Translate a text in memory several times and print the median: words a second, where the time goes, and
what the arithmetic reaches of the ceiling: what a loop of the best instruction on registers alone does at
the time, which the workers measure ten times a second. Products with activations that are zeros are left out
where that is faster; what is reached of the ceiling is told with them, as for programs that do them, and
without. Loading and files are left out.

With --device gpu it is "sluice bench gpu", which needs no model and no text, and has options of its own. The model on a GPU is
measured with --devices.`,
		Example: `  sluice bench -m models/ende-tiny -i corpus.en --cpu-threads 1`,
		Args:    exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return b.run(command)
		},
	}
	own := newGroup("Benchmark")
	own.flags.StringVarP(&b.input, "input", "i", "", "`FILE` of text, a sentence a line")
	own.flags.StringVar(&b.device, "device", "cpu", "`KIND` of device: cpu for this benchmark, gpu or gpu:NUMBER for that of \"sluice bench gpu\"")
	own.flags.IntVar(&b.runs, "runs", 5, "passes over the text; the median is printed")
	own.flags.Float64Var(&b.topUp, "top-up", 0, "`SHARE` of free slots at which the decoder is refilled; 1 is when it is empty, as with plain mini-batches")
	own.flags.BoolVar(&b.alone, "one-by-one", false, "translate one sentence at a time, by one core and by several, and tell how long they take")
	own.flags.BoolVar(&b.asJSON, "json", false, "print JSON")
	addGroups(command, own, b.model.group(), b.search.group(), b.batch.group())
	addMarianFlags(command.Flags())
	command.AddCommand(newSpeedupsCommand(), newBenchGPUCommand())
	return command
}

func (b *benchmark) run(command *cobra.Command) error {
	if err := applyEnvironment(command.Flags(), os.LookupEnv); err != nil {
		return err
	}
	if b.device != "cpu" {
		return usageErrorf("--device %s: expected cpu, or on the command line gpu, gpu:NUMBER or the number of a GPU, for \"sluice bench gpu\"", b.device)
	}
	if b.input == "" || b.runs < 1 {
		return usageErrorf("bench needs a text (-i FILE) and at least one run")
	}
	if _, err := b.model.applyConfig(command.Flags()); err != nil {
		return err
	}
	lines, words, err := readLines(b.input)
	if err != nil {
		return err
	}
	parts, err := buildEngine(command.Context(), &b.model, &b.search, &b.batch, runtime.GOMAXPROCS(0), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer parts.models.close()
	parts.config.Batching.TopUp = b.topUp
	runs, err := b.measure(parts, lines, words)
	if err != nil {
		return err
	}
	report := summarise(runs[len(runs)-1])
	if b.alone {
		for _, ofCores := range runs {
			report.OneByOne = append(report.OneByOne, summarise(ofCores).Median)
		}
	}
	report.Precision, report.Workers = parts.models.arithmetic(), parts.workers()
	report.Lines, report.Words, report.GPUs = len(lines), words, len(parts.models.gpus)
	if report.GPUs == 0 {
		report.Kernels = kernels.Implementations()
	}
	report.Resident = float64(residentBytes()) / 1e6
	if b.asJSON {
		return writeJSON(command.OutOrStdout(), report)
	}
	return report.print(command.OutOrStdout())
}

// measure translates the lines once to warm up and then as often as asked. One sentence at a time, it does so with one core for a sentence
// and with several, in turns.
func (b *benchmark) measure(parts *engineParts, lines []string, words int64) ([][]benchRun, error) {
	sampler := &ceilingSampler{precision: parts.models.precision}
	onGPUs := len(parts.models.gpus) > 0
	if !onGPUs {
		parts.config.Models = sampledModels{parts.config.Models, sampler}
	}
	cores := []int{parts.config.Batching.SentenceCores}
	if b.alone {
		cores = coresTried(parts, onGPUs)
	}
	var engines []*translator.Engine
	for _, n := range cores {
		parts.config.Batching.SentenceCores = n
		engine, err := translator.New(parts.config)
		if err != nil {
			return nil, usageError{err}
		}
		defer engine.Close()
		if err := translateAll(engine, lines[:min(len(lines), 2000)]); err != nil {
			return nil, err
		}
		engines = append(engines, engine)
	}
	runs := make([][]benchRun, len(engines))
	for range b.runs {
		for i, engine := range engines {
			run, err := b.pass(engine, parts, sampler, lines, words)
			if err != nil {
				return nil, err
			}
			if b.alone {
				run.Cores = cores[i]
			}
			runs[i] = append(runs[i], run)
		}
	}
	return runs, nil
}

// pass translates the lines once.
func (b *benchmark) pass(engine *translator.Engine, parts *engineParts, sampler *ceilingSampler, lines []string, words int64) (run benchRun, err error) {
	var took []time.Duration
	sampler.reset()
	before, allocations, cpu := parts.models.count(), allocated(), cputime.Process()
	start := time.Now()
	if b.alone {
		took, err = translateEach(engine, lines)
	} else {
		err = translateAll(engine, lines)
	}
	if err != nil {
		return run, err
	}
	workers := parts.config.Batching.Workers
	elapsed := time.Since(start) - sampler.spent(workers)
	if len(parts.models.gpus) > 0 {
		run = benchRun{Seconds: elapsed.Seconds(), WordsPerSec: float64(words) / elapsed.Seconds()}
	} else {
		run = newBenchRun(elapsed.Seconds(), words, parts.models.count().minus(before), workers)
		run.Peak = sampler.mean() / 1e9
	}
	if cpu = cputime.Process() - cpu; cpu > 0 {
		run.CPUSeconds, run.WordsPerCPU = cpu.Seconds(), float64(words)/cpu.Seconds()
	}
	run.Allocations = float64(allocated()-allocations) / float64(len(lines))
	if b.alone {
		slices.Sort(took)
		run.Half, run.Nearly = milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100])
	}
	return run, nil
}

// coresTried are the numbers of cores for a sentence to compare: one, and its doubles up to what is asked for or there is.
func coresTried(parts *engineParts, onGPUs bool) []int {
	most := min(parts.config.Batching.SentenceCores, parts.config.Batching.Workers, cpumodel.MostCores)
	if onGPUs {
		most = 1
	}
	var cores []int
	for n := 1; n < most; n *= 2 {
		cores = append(cores, n)
	}
	return append(cores, most)
}

// translateAll submits all lines at once and waits for the last result.
func translateAll(engine *translator.Engine, lines []string) error {
	var pending sync.WaitGroup
	var once sync.Once
	var failed error
	for _, line := range lines {
		pending.Add(1)
		engine.Submit(job.Segment{Text: line, Done: func(result job.Result) {
			if result.Err != nil {
				once.Do(func() { failed = result.Err })
			}
			pending.Done()
		}})
	}
	engine.Flush()
	pending.Wait()
	return failed
}

// translateEach translates one line after the other and returns how long each took.
func translateEach(engine *translator.Engine, lines []string) ([]time.Duration, error) {
	took := make([]time.Duration, 0, len(lines))
	for i := range lines {
		begin := time.Now()
		if err := translateAll(engine, lines[i:i+1]); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// allocated is the number of objects that have been allocated on the heap.
func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// counts are the sums of what all Steppers counted.
type counts struct {
	source, target, steps, macs, leftOut int64
	encode, step, output                 time.Duration
}

func (e *ensemble) count() counts {
	var c counts
	e.making.Lock()
	defer e.making.Unlock()
	for _, stepper := range e.steppers {
		s := stepper.Stats()
		c.source += s.SourceTokens
		c.target += s.TargetTokens
		c.steps += s.Steps
		c.macs += s.MACs
		c.leftOut += s.LeftOut
		c.encode += s.EncodeTime
		c.step += s.StepTime
		c.output += s.OutputTime
	}
	return c
}

func (c counts) minus(d counts) counts {
	return counts{c.source - d.source, c.target - d.target, c.steps - d.steps, c.macs - d.macs, c.leftOut - d.leftOut,
		c.encode - d.encode, c.step - d.step, c.output - d.output}
}

func newBenchRun(elapsed float64, words int64, c counts, workers int) benchRun {
	busy := elapsed * float64(workers)
	run := benchRun{
		Seconds: elapsed, WordsPerSec: float64(words) / elapsed,
		SourcePieces: float64(c.source) / elapsed, TargetPieces: float64(c.target) / elapsed,
		MACsPerPiece: float64(c.macs) / max(float64(c.source), 1), LeftOut: float64(c.leftOut) / max(float64(c.macs), 1), GMACsPerWorker: float64(c.macs) / busy / 1e9,
		Encode: c.encode.Seconds() / busy, Step: c.step.Seconds() / busy, Output: c.output.Seconds() / busy,
		Rows: float64(c.target) / max(float64(c.steps), 1),
	}
	run.Rest = 1 - run.Encode - run.Step - run.Output
	return run
}

func summarise(runs []benchRun) benchReport {
	slices.SortFunc(runs, func(a, b benchRun) int {
		if a.WordsPerSec < b.WordsPerSec {
			return -1
		}
		return 1
	})
	return benchReport{Runs: len(runs), Median: runs[len(runs)/2], Slowest: runs[0].WordsPerSec, Fastest: runs[len(runs)-1].WordsPerSec}
}

func (r benchReport) print(w io.Writer) error {
	m := r.Median
	var text strings.Builder
	text.WriteString(r.Precision)
	if r.GPUs > 0 {
		fmt.Fprintf(&text, ", GPUs: %d", r.GPUs)
	}
	fmt.Fprintf(&text, ", workers: %d, lines: %s, source words: %s\n\n", r.Workers, formatCount(int64(r.Lines)), formatCount(r.Words))
	fmt.Fprintf(&text, "%s source words/s (median of %d; %s to %s), %s in a second of processor time\n",
		formatCount(int64(m.WordsPerSec)), r.Runs, formatCount(int64(r.Slowest)), formatCount(int64(r.Fastest)), formatCount(int64(m.WordsPerCPU)))
	if r.GPUs == 0 {
		m.writeCounts(&text, r.Precision)
	}
	fmt.Fprintf(&text, "memory: %.0f MB at most, %.1f allocations per sentence\n", r.Resident, m.Allocations)
	if r.GPUs == 0 {
		fmt.Fprintf(&text, "kernels: %s\n", strings.Join(r.Kernels, "; "))
	}
	for _, run := range r.OneByOne {
		fmt.Fprintf(&text, "one sentence at a time, cores: %d, half take %.2f ms or less, 99 %% %.2f ms or less; %s source words/s\n",
			run.Cores, run.Half, run.Nearly, formatCount(int64(run.WordsPerSec)))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeCounts writes what the processor's Steppers counted.
func (m benchRun) writeCounts(w *strings.Builder, precision string) {
	fmt.Fprintf(w, `%s source pieces/s, %s target pieces/s
%.1f million multiply-accumulates per source piece, decoder included; %.0f %% of them with zeros, which are left out
%.0f GMAC/s per worker with these, %.0f %% of the %.0f GMAC/s that a core could do meanwhile in %s; %.0f %% without
time: encoder %.0f %%, decoder %.0f %%, output layer %.0f %%, text, search and waiting %.0f %%
hypotheses per decoder step: %.1f
`, formatCount(int64(m.SourcePieces)), formatCount(int64(m.TargetPieces)),
		m.MACsPerPiece/1e6, 100*m.LeftOut,
		m.GMACsPerWorker, 100*m.GMACsPerWorker/m.Peak, m.Peak, precision, 100*(1-m.LeftOut)*m.GMACsPerWorker/m.Peak,
		100*m.Encode, 100*m.Step, 100*m.Output, 100*m.Rest, m.Rows)
}

// readLines reads a text into memory and counts its words.
func readLines(path string) (lines []string, words int64, err error) {
	err = eachKeptLine(path, maxKept, func(line string) {
		lines = append(lines, line)
		words += int64(len(strings.Fields(line)))
	})
	if err == nil && len(lines) == 0 {
		err = inputError{fmt.Errorf("%s holds no lines", path)}
	}
	return lines, words, err
}
