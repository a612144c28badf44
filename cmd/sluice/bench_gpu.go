package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// A gpuBench is one run of "sluice bench gpu".
type gpuBench struct {
	device    int
	sizes     []string
	streams   []int
	beams     []int
	slots     []int
	sentences int
	spread    float64
	precision string
	onGPU     gpukernels.Arithmetic
	model     bool
	asJSON    bool

	known []architecture // by their names
	work  gpuWork
}

// A gpuWork is how much is done to measure kernels and training.
type gpuWork struct {
	tokens, rows int // of products and attention: source tokens, and rows of a decoder step
	rounds       int // of each kernel, at least
	copies       int // of a kernel's operands, at most
	pieces       int // of a mini-batch
	updates      int
	loads        time.Duration // of finding a load
	passes       passes        // of translating
}

// passes are how often the same is measured. The zero value is once.
type passes struct {
	count int           // at least
	time  time.Duration // of all together, at least
	limit time.Duration // after which no other begins
}

// enough says whether so many passes, which took so long together, are enough.
func (p passes) enough(count int, elapsed time.Duration) bool {
	return elapsed >= p.limit || count >= p.count && elapsed >= p.time
}

// A gpuRow is what a GPU gave with one architecture and one way to run it.
type gpuRow struct {
	Model     string  `json:"model"`
	Streams   int     `json:"streams"`
	Slots     int     `json:"slots"`                        // of a stream
	Measured  bool    `json:"load_by_throughput,omitempty"` // streams, and slots perhaps, were found by it, as the engine does
	Beam      int     `json:"beam"`
	Passes    int     `json:"passes"`                  // over the same sentences, the median of which is told
	Words     float64 `json:"source_words_per_second"` // of piecesOfWord each
	PerSecond float64 `json:"source_pieces_per_second"`
	Encode    float64 `json:"encoder_share"` // of the elapsed time, in the mean of the streams
	Step      float64 `json:"decoder_share"`
	Output    float64 `json:"output_layer_share"`
	Busy      float64 `json:"device_busy_share"` // of the elapsed time, in which the device worked on at least one thing
	OfStep    float64 `json:"device_microseconds_per_step"`
	Host      float64 `json:"host_microseconds_per_step"` // with a step's part of encoding, without waiting for the device
	Bound     float64 `json:"roofline_pieces"`            // source pieces a second at most; 0 where the card's peaks are not known
	Reached   float64 `json:"share_of_the_roofline"`
}

// piecesOfWord is how many pieces the demonstration text has a word.
const piecesOfWord = 1.5

type gpuReport struct {
	Device     string        `json:"device"`
	PeaksKnown bool          `json:"peaks_known"` // of the card; without them there is no roofline
	Kernels    []kernelRow   `json:"kernels"`
	Rows       []gpuRow      `json:"rows"`
	Training   []trainingRow `json:"training"`

	TrainingKernels []kernelRow `json:"training_kernels"`
}

func newBenchGPUCommand() *cobra.Command {
	b := &gpuBench{known: architectures(), work: gpuWork{modelTokens, 512, 20, 256, trainingPieces, timedUpdates, loadTime,
		passes{3, time.Second / 2, 15 * time.Second}}}
	command := &cobra.Command{
		Use:   "gpu [flags]",
		Short: "Measure what a GPU gives with students of several sizes, and with recurrent models",
		Long: `Translate random sentences with models of random weights on a GPU, students of several sizes and recurrent ones, in several
numbers of streams, slots and beams, and print source words a second, where the device's time goes and for which part of it the
device was busy, what a step takes the processor, and the time of each kernel that takes long beside what the card's memory
bandwidth and tensor cores allow, and beside that of cuBLASLt if the library is there.
Sentences have 25 pieces in the mean and the lengths of real ones, so that slots are freed one by one and topped up; every translation
has the length of its source. Text and vocabularies are left out, and a word is taken for 1.5 pieces.
Then each student is trained for some updates, in bfloat16, for target pieces a second, the part of the time for which the device was busy, and what
an update takes the processor; the kernels that take most of the time of training are timed likewise.

Without a GPU the command says so and prints a roofline model of the same table for some cards, which is no measurement.`,
		Example: `  sluice bench gpu
  sluice bench --device gpu
  sluice bench gpu --device 1 --sizes base --streams 1,2,4 --beams 1
  sluice bench gpu --roofline`,
		Args:        exactArguments(0, "no arguments"),
		Annotations: finishes(), // a row of the tables, and prints what was measured
		RunE: func(command *cobra.Command, _ []string) error {
			return b.run(command.Context(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	own := newGroup("Benchmark")
	s := own.flags
	s.IntVar(&b.device, "device", 0, "`NUMBER` of the GPU")
	s.StringSliceVar(&b.sizes, "sizes", namesOf(b.known), "models, in a list with commas")
	s.IntSliceVar(&b.streams, "streams", []int{1, 2, 4, 0}, "workers; 0: as many as give most, as the engine finds them, and slots too where they are 0")
	s.IntSliceVar(&b.beams, "beams", []int{1, 4}, "hypotheses of each sentence")
	s.IntSliceVar(&b.slots, "slots", []int{1, 0}, "hypotheses that a worker decodes at a time, those of a sentence at least; 0: chosen by the free memory")
	s.IntVar(&b.sentences, "sentences", 0, "sentences of each worker (0: four for each slot, 20 at least)")
	s.Float64Var(&b.spread, "spread", usualSpread, "standard deviation of the logarithm of the sentences' lengths; 0: all of the same length")
	s.StringVar(&b.precision, "precision", "float16", "arithmetic: float16, bfloat16, int8 or fp8")
	s.BoolVar(&b.model, "roofline", false, "print the model for all cards, with or without a GPU")
	s.BoolVar(&b.asJSON, "json", false, "print JSON")
	addGroups(command, own)
	return command
}

// benchOfGPU makes "bench gpu" of a command line of "bench" that asks for a GPU with --device, so that it takes the options of that command.
// options are what stands there beside the command's name. It reports false for any other command line.
func benchOfGPU(command *cobra.Command, options []string) (rewritten []string, ok bool) {
	if command.CommandPath() != "sluice bench" {
		return nil, false
	}
	const option = "--device"
	for i, word := range options {
		value, rest, said := "", options[i+1:], false
		if value, said = strings.CutPrefix(word, option+"="); !said && word == option && len(rest) > 0 {
			value, rest, said = rest[0], rest[1:], true
		}
		number, isNumber := numberOfGPU(value)
		if !said || !isNumber && value != "gpu" {
			continue
		}
		rewritten = []string{"bench", "gpu"}
		if isNumber {
			rewritten = append(rewritten, option, strconv.Itoa(number))
		}
		return slices.Concat(rewritten, options[:i], rest), true
	}
	return nil, false
}

func (b *gpuBench) run(ctx context.Context, out, stderr io.Writer) error {
	chosen, err := b.check()
	if err != nil {
		return err
	}
	if b.model {
		return printRoofline(out, b.onGPU)
	}
	driver, err := openDriver()
	if errors.Is(err, cuda.ErrUnavailable) && !b.asJSON {
		fmt.Fprintf(stderr, "nothing was measured: %v\n", err)
		return printRoofline(out, b.onGPU)
	}
	if err != nil {
		return err
	}
	device, err := gpumodel.OpenFor(driver, b.device, b.onGPU)
	if err != nil {
		return err
	}
	defer device.Close()
	report := gpuReport{Device: device.Properties().String(), PeaksKnown: cardOf(device.Properties()).tensor > 0}
	// What was measured before something failed is printed, too.
	failed := b.report(ctx, &report, driver, device, chosen, stderr)
	if b.asJSON {
		return errors.Join(failed, writeJSON(out, report))
	}
	return errors.Join(failed, report.print(out))
}

// report measures all architectures. What a card has too little memory for is named and left out.
func (b *gpuBench) report(ctx context.Context, r *gpuReport, driver *cuda.Driver, device *gpumodel.Device, chosen []architecture, stderr io.Writer) error {
	for _, a := range chosen {
		for _, part := range b.parts(ctx, r, driver, device, a) {
			err := interruption(ctx)
			if err == nil {
				err = part.measure()
			}
			if errors.Is(err, cuda.ErrOutOfMemory) {
				fmt.Fprintf(stderr, "%s: not all of its %s was measured: %v\n", a.size().Name, part.name, err)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// interruption is why nothing more is to be measured, or nil.
func interruption(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errInterrupted, context.Cause(ctx))
}

// A benchPart adds what it measures to a report, even if it fails in the end.
type benchPart struct {
	name    string
	measure func() error
}

// parts are what is measured of an architecture.
func (b *gpuBench) parts(ctx context.Context, r *gpuReport, driver *cuda.Driver, device *gpumodel.Device, a architecture) []benchPart {
	of := cardOf(device.Properties())
	parts := []benchPart{
		{"translation, kernel by kernel,", func() error { return appendTo(&r.Kernels)(b.timeKernels(driver, a, of.in(b.onGPU))) }},
		{"translation", func() error { return appendTo(&r.Rows)(b.measure(ctx, device, a, of.in(b.onGPU))) }},
	}
	s, trained := a.(student)
	if !trained {
		return parts
	}
	return append(parts, benchPart{"training", func() error {
		row, err := benchTraining(driver, b.device, s, of, b.work.pieces, b.work.updates)
		if err == nil {
			r.Training = append(r.Training, row)
		}
		return err
	}}, benchPart{"training, kernel by kernel,", func() error { return appendTo(&r.TrainingKernels)(b.timeTraining(driver, s, of)) }})
}

// appendTo appends rows to a list and returns why there are no more of them.
func appendTo[T any](list *[]T) func(rows []T, err error) error {
	return func(rows []T, err error) error {
		*list = append(*list, rows...)
		return err
	}
}

// check reads the lists.
func (b *gpuBench) check() ([]architecture, error) {
	var chosen []architecture
	for _, name := range b.sizes {
		i := slices.IndexFunc(b.known, func(a architecture) bool { return a.size().Name == name })
		if i < 0 {
			return nil, usageErrorf("--sizes %s: expected %s", name, strings.Join(namesOf(b.known), ", "))
		}
		chosen = append(chosen, b.known[i])
	}
	if len(b.beams) == 0 || slices.Min(b.beams) < 1 {
		return nil, usageErrorf("--beams: at least 1 each")
	}
	if len(b.streams) == 0 || slices.Min(b.streams) < 0 {
		return nil, usageErrorf("--streams: at least 0 each")
	}
	if !(b.spread >= 0 && b.spread <= mostSpread) {
		return nil, usageErrorf("--spread %v: expected from 0 to %v", b.spread, mostSpread)
	}
	var err error
	if b.onGPU, err = gpuArithmeticOf("--precision", b.precision); err != nil {
		return nil, err
	}
	if len(b.slots) == 0 || slices.Min(b.slots) < 0 || b.sentences < 0 {
		return nil, usageErrorf("--slots and --sentences: at least 0 each")
	}
	return chosen, nil
}

func namesOf(all []architecture) []string {
	var names []string
	for _, a := range all {
		names = append(names, a.size().Name)
	}
	return names
}

// measure runs an architecture in all ways.
func (b *gpuBench) measure(ctx context.Context, device *gpumodel.Device, a architecture, of card) (rows []gpuRow, err error) {
	random := rand.New(rand.NewPCG(2018, 1))
	m, err := randomModel(a.description(), random)
	if err != nil {
		return nil, err
	}
	weights, err := device.Load(m, gpumodel.Options{Suppress: []search.Token{0}}) // the end of sentence: lengths are those of the sources
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	clock, err := device.StartClock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, clock.Close()) }()
	text := randomText{random: random, vocabulary: a.size().Vocabulary, spread: b.spread}
	for _, streams := range b.streams {
		for _, slots := range b.slots {
			for _, beam := range b.beams {
				if err := interruption(ctx); err != nil {
					return rows, err
				}
				row := gpuRow{Model: a.size().Name, Streams: streams, Slots: slots, Beam: beam}
				if err := row.choose(ctx, device, weights, a.size().Vocabulary, b.work.loads); err != nil {
					return rows, err
				}
				if err := row.run(ctx, weights, clock, text, b.sentences, b.work.passes); err != nil {
					return rows, err
				}
				if of.tensor > 0 {
					row.Bound = of.roofline(a, row.Slots, beam)
					row.Reached = row.PerSecond / row.Bound
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

// choose fills in what is 0 of the load: by throughput where it is the number of streams, as the engine does, and otherwise by the free memory.
func (r *gpuRow) choose(ctx context.Context, device *gpumodel.Device, weights *gpumodel.Weights, vocabulary int, limit time.Duration) (err error) {
	if r.Slots > 0 {
		r.Slots = max(r.Slots, r.Beam) // of one sentence at least
	}
	g := &gpu{device: device, weights: []*gpumodel.Weights{weights}}
	load := g.usualLoad(r.Streams, r.Slots)
	if r.Streams == 0 {
		trial := &loadTrial{gpu: g, options: r.options(), vocabulary: vocabulary, limit: limit}
		load, r.Measured, err = trial.find(ctx, load, r.Slots > 0)
	}
	r.Streams, r.Slots = load.Streams, load.Slots
	return err
}

// options are those of the search: translations have the length of their sources.
func (r *gpuRow) options() search.Options {
	return search.Options{Beam: r.Beam, Normalize: 1, MaxLengthFactor: 1}
}

// run translates with all streams at once, in passes over the same sentences. When ctx is done, there is no further one.
func (r *gpuRow) run(ctx context.Context, weights *gpumodel.Weights, clock *gpumodel.Clock, text randomText, sentences int, until passes) error {
	if sentences == 0 {
		sentences = max(20, 4*r.Slots/r.Beam)
	}
	workers, texts := make([]*gpuWorker, r.Streams), make([][]search.Source, r.Streams)
	steppers, pieces := make([]*gpumodel.Stepper, r.Streams), 0
	for i := range workers {
		var err error
		if steppers[i], err = weights.NewStepper(r.Slots); err != nil {
			return err
		}
		if workers[i], err = newGPUWorker([]search.Stepper{steppers[i]}, nil, 0, r.options()); err != nil {
			return err
		}
		defer workers[i].close()
		workers[i].translate(text.sources(min(sentences, 2*r.Slots))) // captures graphs, lets buffers grow
		texts[i] = text.sources(sentences)
		for _, source := range texts[i] {
			pieces += len(source.Tokens)
		}
	}
	var all []gpuPass
	for began := time.Now(); len(all) == 0 || ctx.Err() == nil && !until.enough(len(all), time.Since(began)); {
		pass, err := measurePass(workers, steppers, clock, texts)
		if err != nil {
			return err
		}
		all = append(all, pass)
	}
	r.Passes = len(all)
	median := medianPass(all)
	r.PerSecond = float64(pieces) / median.elapsed.Seconds()
	r.Words = r.PerSecond / piecesOfWord
	r.divide(median)
	return nil
}

// A gpuPass is what all workers measured together while they translated.
type gpuPass struct {
	elapsed time.Duration
	total   gpumodel.Times
	host    time.Duration // of the processor, for encoding, steps and what is between, without waiting for the device
	steps   int
}

// measurePass lets each worker translate its text.
func measurePass(workers []*gpuWorker, steppers []*gpumodel.Stepper, clock *gpumodel.Clock, texts [][]search.Source) (gpuPass, error) {
	for _, s := range steppers {
		s.Measure(clock)
	}
	p := gpuPass{elapsed: translateTogether(workers, texts)}
	for i, w := range workers {
		times := steppers[i].Times()
		if err := w.failure(); err != nil {
			return p, err
		}
		p.total.Encode, p.total.Step, p.total.Output = p.total.Encode+times.Encode, p.total.Step+times.Step, p.total.Output+times.Output
		p.total.Stretches = append(p.total.Stretches, times.Stretches...)
		p.host, p.steps = p.host+w.took-times.Waited, p.steps+w.steps
	}
	return p, nil
}

// medianPass is the one in the middle by the time that it took, of an even number the slower of two.
func medianPass(all []gpuPass) gpuPass {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b gpuPass) int { return cmp.Compare(a.elapsed, b.elapsed) })
	return sorted[len(sorted)/2]
}

// divide fills in the parts of a pass.
func (r *gpuRow) divide(p gpuPass) {
	share := func(d time.Duration) float64 { return d.Seconds() / p.elapsed.Seconds() / float64(r.Streams) }
	r.Encode, r.Step, r.Output = share(p.total.Encode), share(p.total.Step), share(p.total.Output)
	r.Busy = min(gpukernels.Busy(p.total.Stretches).Seconds()/p.elapsed.Seconds(), 1) // of two clocks
	r.OfStep, r.Host = microsecondsEach(p.total.Step+p.total.Output, p.steps), microsecondsEach(p.host, p.steps)
}

func (r *gpuReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Device)
	if !r.PeaksKnown {
		b.WriteString("The peaks of this card are not known: there is no roofline, and the bounds of kernels are those of its memory alone.\n\n")
	}
	printKernels(&b, "model", r.Kernels)
	fmt.Fprintln(&b)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tstreams\tslots\tbeam\tsource words/s\tpieces/s\tencoder\tdecoder\toutput layer\tdevice busy\tof a step, µs: device\thost\troofline\t")
	for _, row := range r.Rows {
		bound := "-"
		if row.Bound > 0 {
			bound = fmt.Sprintf("%.0f %%", 100*row.Reached)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%.0f %%\t%.0f %%\t%.0f %%\t%.0f %%\t%.0f\t%.0f\t%s\t\n", row.Model, row.streams(), row.Slots, row.Beam,
			formatCount(int64(row.Words)), formatCount(int64(row.PerSecond)), 100*row.Encode, 100*row.Step, 100*row.Output, 100*row.Busy,
			row.OfStep, row.Host, bound)
	}
	t.Flush()
	fmt.Fprintln(&b)
	printTraining(&b, r.Training)
	fmt.Fprintln(&b)
	printKernels(&b, "trained model", r.TrainingKernels)
	return writeOutput(w, b.String())
}

// streams says how many there were, and whether they were found by throughput.
func (r *gpuRow) streams() string {
	if r.Measured {
		return fmt.Sprintf("found: %d", r.Streams)
	}
	return strconv.Itoa(r.Streams)
}

// numberOrDash writes a number, and a dash for none.
func numberOrDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
