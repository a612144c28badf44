package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	precision string
	onGPU     gpukernels.Arithmetic
	model     bool
	asJSON    bool
}

// A gpuRow is what a GPU gave with one architecture and one way to run it.
type gpuRow struct {
	Model     string  `json:"model"`
	Streams   int     `json:"streams"`
	Slots     int     `json:"slots"` // of a stream
	Beam      int     `json:"beam"`
	PerSecond float64 `json:"source_pieces_per_second"`
	Encode    float64 `json:"encoder_share"` // of the elapsed time, over all streams
	Step      float64 `json:"decoder_share"`
	Output    float64 `json:"output_layer_share"`
	Busy      float64 `json:"streams_busy"`    // how many streams were at work, on average
	Bound     float64 `json:"roofline_pieces"` // source pieces a second at most; 0 where the card's peaks are not known
	Reached   float64 `json:"share_of_the_roofline"`
}

// A kernelRow is the time of a product beside its bound.
type kernelRow struct {
	Model        string  `json:"model"`
	Product      string  `json:"product"`
	M            int     `json:"m"`
	N            int     `json:"n"`
	K            int     `json:"k"`
	Microseconds float64 `json:"microseconds"`
	SameBits     float64 `json:"cublaslt_microseconds_same_bits,omitempty"` // by cuBLASLt with the bits of the own kernels
	Library      float64 `json:"cublaslt_microseconds,omitempty"`           // with bits of its own
	Bound        float64 `json:"bound_microseconds"`
	By           string  `json:"bound_by"`
}

type gpuReport struct {
	Device   string        `json:"device"`
	Kernels  []kernelRow   `json:"kernels"`
	Rows     []gpuRow      `json:"rows"`
	Training []trainingRow `json:"training"`
}

func newBenchGPUCommand() *cobra.Command {
	b := new(gpuBench)
	command := &cobra.Command{
		Use:   "gpu [flags]",
		Short: "Measure what a GPU gives with students of several sizes, and with recurrent models",
		Long: `Translate random sentences with models of random weights on a GPU, students of several sizes and recurrent ones, in several
numbers of streams, slots and beams, and print source pieces a second, where the device's time goes, and the time of each
product beside what the card's memory bandwidth and tensor cores allow, and beside that of cuBLASLt if the library is there.
Every translation has the length of its source; text and vocabularies are left out.
Then each student is trained for some updates, in bfloat16.

Without a GPU the command says so and prints a roofline model of the same table for some cards, which is no measurement.`,
		Example: `  sluice bench gpu
  sluice bench --device gpu
  sluice bench gpu --device 1 --sizes base --streams 1,2,4 --beams 1
  sluice bench gpu --roofline`,
		Args: exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return b.run(command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	own := newGroup("Benchmark")
	s := own.flags
	s.IntVar(&b.device, "device", 0, "`NUMBER` of the GPU")
	s.StringSliceVar(&b.sizes, "sizes", architectureNames(), "models, in a list with commas")
	s.IntSliceVar(&b.streams, "streams", []int{1, 2, 4}, "workers")
	s.IntSliceVar(&b.beams, "beams", []int{1, 4}, "hypotheses of each sentence")
	s.IntSliceVar(&b.slots, "slots", []int{1, 0}, "hypotheses that a worker decodes at a time; 0: chosen by the free memory")
	s.IntVar(&b.sentences, "sentences", 0, "sentences of each worker (0: four for each slot, 20 at least)")
	s.StringVar(&b.precision, "precision", "float16", "arithmetic: float16, bfloat16, int8 or fp8")
	s.BoolVar(&b.model, "roofline", false, "print the model for all cards, with or without a GPU")
	s.BoolVar(&b.asJSON, "json", false, "print JSON")
	addGroups(command, own)
	return command
}

// benchOfGPU makes "bench gpu" of a command line of "bench" that asks for a GPU with --device, so that it takes the options of that command.
// It reports false for any other.
func benchOfGPU(command *cobra.Command, arguments []string) (rewritten []string, ok bool) {
	if command.CommandPath() != "sluice bench" {
		return nil, false
	}
	const option = "--device"
	for i, word := range arguments {
		value, rest, said := "", arguments[i+1:], false
		if value, said = strings.CutPrefix(word, option+"="); !said && word == option && len(rest) > 0 {
			value, rest, said = rest[0], rest[1:], true
		}
		number, isNumber := numberOfGPU(value)
		if !said || !isNumber && value != "gpu" {
			continue
		}
		name := slices.Index(arguments, "bench")
		rewritten = append(slices.Clone(arguments[:name+1]), "gpu")
		if isNumber {
			rewritten = append(rewritten, option, strconv.Itoa(number))
		}
		return slices.Concat(rewritten, arguments[name+1:i], rest), true
	}
	return nil, false
}

func (b *gpuBench) run(out, stderr io.Writer) error {
	chosen, err := b.check()
	if err != nil {
		return err
	}
	if b.model {
		return printRoofline(out, b.onGPU)
	}
	driver, err := cuda.Open(os.Getenv(driverVariable))
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
	report := gpuReport{Device: device.Properties().String()}
	of := cardOf(device.Properties())
	for _, a := range chosen {
		kernels, err := timeProducts(driver, b.device, b.onGPU, a, of.in(b.onGPU))
		if err != nil {
			return err
		}
		rows, err := b.measure(device, a, of.in(b.onGPU))
		if err != nil {
			return err
		}
		report.Kernels, report.Rows = append(report.Kernels, kernels...), append(report.Rows, rows...)
		s, trained := a.(student)
		if !trained {
			continue
		}
		training, err := benchTraining(driver, b.device, s, of, trainingPieces, timedUpdates)
		if err != nil {
			return err
		}
		report.Training = append(report.Training, training)
	}
	if b.asJSON {
		return writeJSON(out, report)
	}
	return report.print(out)
}

// check reads the lists.
func (b *gpuBench) check() ([]architecture, error) {
	var chosen []architecture
	for _, name := range b.sizes {
		i := slices.IndexFunc(architectures(), func(a architecture) bool { return a.size().Name == name })
		if i < 0 {
			return nil, usageErrorf("--sizes %s: expected %s", name, strings.Join(architectureNames(), ", "))
		}
		chosen = append(chosen, architectures()[i])
	}
	for _, list := range [][]int{b.streams, b.beams} {
		if len(list) == 0 || slices.Min(list) < 1 {
			return nil, usageErrorf("--streams and --beams: at least 1 each")
		}
	}
	var err error
	if b.onGPU, err = gpuArithmeticOf(b.precision); err != nil {
		return nil, err
	}
	if len(b.slots) == 0 || slices.Min(b.slots) < 0 || b.sentences < 0 {
		return nil, usageErrorf("--slots and --sentences: at least 0 each")
	}
	return chosen, nil
}

func architectureNames() []string {
	var names []string
	for _, a := range architectures() {
		names = append(names, a.size().Name)
	}
	return names
}

// measure runs an architecture in all ways.
func (b *gpuBench) measure(device *gpumodel.Device, a architecture, of card) ([]gpuRow, error) {
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
	var rows []gpuRow
	for _, streams := range b.streams {
		for _, slots := range b.slots {
			for _, beam := range b.beams {
				if slots > 0 && slots < beam {
					continue // a sentence would not fit
				}
				row := gpuRow{Model: a.size().Name, Streams: streams, Slots: slots, Beam: beam}
				if slots == 0 {
					row.Slots, _ = weights.Batch(streams)
				}
				if err := row.run(weights, a.size().Vocabulary, b.sentences, random); err != nil {
					return nil, err
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

// run translates with all streams at once.
func (r *gpuRow) run(weights *gpumodel.Weights, vocabulary, sentences int, random *rand.Rand) error {
	if sentences == 0 {
		sentences = max(20, 4*r.Slots/r.Beam)
	}
	workers := make([]*gpuWorker, r.Streams)
	for i := range workers {
		var err error
		if workers[i], err = newGPUWorker(weights, r.Slots, r.Beam); err != nil {
			return err
		}
		defer workers[i].stepper.Close()
		workers[i].translate(randomSources(random, min(sentences, 2*r.Slots), vocabulary)) // captures graphs, lets buffers grow
		workers[i].before = workers[i].stepper.Times()
	}
	var texts [][]*search.Sentence
	for range workers {
		texts = append(texts, workers[0].sentences(randomSources(random, sentences, vocabulary)))
	}
	begin := time.Now()
	var all sync.WaitGroup
	for i, w := range workers {
		all.Go(func() { w.search(texts[i]) })
	}
	all.Wait()
	elapsed := time.Since(begin).Seconds()
	return r.sum(workers, elapsed, float64(sentences*modelLength*r.Streams))
}

// sum puts together what the workers measured.
func (r *gpuRow) sum(workers []*gpuWorker, elapsed, pieces float64) error {
	for _, w := range workers {
		times := w.stepper.Times()
		r.Encode += (times.Encode - w.before.Encode).Seconds() / elapsed
		r.Step += (times.Step - w.before.Step).Seconds() / elapsed
		r.Output += (times.Output - w.before.Output).Seconds() / elapsed
		r.Busy += (times.Busy() - w.before.Busy()).Seconds() / elapsed
		if err := w.stepper.Err(); err != nil {
			return err
		}
	}
	r.PerSecond = pieces / elapsed
	return nil
}

// A gpuWorker translates on a stream of its own.
type gpuWorker struct {
	stepper *gpumodel.Stepper
	decoder *search.Decoder
	options search.Options
	before  gpumodel.Times
}

func newGPUWorker(weights *gpumodel.Weights, slots, beam int) (*gpuWorker, error) {
	stepper, err := weights.NewStepper(slots)
	if err != nil {
		return nil, err
	}
	stepper.Measure()
	w := &gpuWorker{stepper: stepper, options: search.Options{Beam: beam, Normalize: 1, MaxLengthFactor: 1}}
	if w.decoder, err = search.NewDecoder([]search.Stepper{stepper}, nil, 0); err != nil {
		stepper.Close()
		return nil, err
	}
	return w, nil
}

func (w *gpuWorker) sentences(sources []search.Source) []*search.Sentence {
	var all []*search.Sentence
	for _, source := range sources {
		all = append(all, &search.Sentence{Source: source, Options: w.options})
	}
	return all
}

func (w *gpuWorker) translate(sources []search.Source) { w.search(w.sentences(sources)) }

// search translates sentences, the decoder being filled again when a quarter of it is free.
func (w *gpuWorker) search(waiting []*search.Sentence) {
	d := w.decoder
	for len(waiting) > 0 || d.Active() > 0 {
		if count := min(d.Free()/w.options.Beam, len(waiting)); count > 0 && (d.Active() == 0 || 4*d.Free() >= d.Slots()) {
			d.Encode(waiting[:count])
			for _, sentence := range waiting[:count] {
				d.Start(sentence)
			}
			waiting = waiting[count:]
		}
		d.Step()
	}
}

// randomSources are sentences of modelLength pieces.
func randomSources(random *rand.Rand, count, vocabulary int) []search.Source {
	sources := make([]search.Source, count)
	for i := range sources {
		for range modelLength - 1 {
			sources[i].Tokens = append(sources[i].Tokens, 1+random.Int32N(int32(vocabulary-1)))
		}
		sources[i].Tokens = append(sources[i].Tokens, 0)
	}
	return sources
}

const (
	timedRows   = 512 // of decoder products
	timedRounds = 20
)

// timeProducts times each product of an architecture.
func timeProducts(driver *cuda.Driver, number int, as gpukernels.Arithmetic, a architecture, of card) (rows []kernelRow, err error) {
	c, err := driver.Context(number)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, c.Close()) }()
	release, err := c.Bind()
	if err != nil {
		return nil, err
	}
	defer release()
	kernels, err := gpukernels.Load(driver, number, c, as)
	if err != nil {
		return nil, err
	}
	defer kernels.Close()
	beside, err := newBLASTimer(c, kernels, as.Stored)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, beside.close()) }()
	for _, p := range slices.Concat(a.encoderProducts(modelTokens), a.stepProducts(timedRows), a.stepProducts(1)) {
		took, err := timeProduct(c, kernels, as, p)
		if err != nil {
			return nil, err
		}
		bound, by := of.bound(p)
		row := kernelRow{Model: a.size().Name, Product: p.what, M: p.m, N: p.n, K: p.k, Microseconds: 1e6 * took.Seconds() / timedRounds,
			Bound: 1e6 * bound, By: by}
		if err := beside.time(p, &row); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// timeProduct runs a product several times, by the device's clock.
func timeProduct(c *cuda.Context, kernels *gpukernels.Kernels, as gpukernels.Arithmetic, p productShape) (took time.Duration, err error) {
	stream, err := c.Stream()
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, stream.Close()) }()
	sizes := []int{p.m * p.k, p.n * p.k, p.m * p.n, p.m*p.k + 2*(p.m+p.n)} // the last one for integers and scales
	var at [4]cuda.Pointer
	for i, size := range sizes {
		if at[i], err = cuda.Alloc[gpukernels.Half](c, size); err != nil {
			return 0, err
		}
		defer func() { err = cmp.Or(err, c.Free(at[i])) }()
		if err = stream.Zero(at[i], 2*size); err != nil {
			return 0, err
		}
	}
	run := productRun(stream, kernels, as, p, at)
	var events [2]*cuda.Event
	for i := range events {
		if events[i], err = c.Event(); err != nil {
			return 0, err
		}
		defer events[i].Close()
	}
	for round := range timedRounds + 1 { // the first is a warm-up
		if round == 1 {
			err = stream.Record(events[0])
		}
		if err = cmp.Or(err, run()); err != nil {
			return 0, err
		}
	}
	if err = cmp.Or(stream.Record(events[1]), stream.Synchronize()); err != nil {
		return 0, err
	}
	return events[1].Since(events[0])
}

// productRun returns what puts a product into the stream: of integers with quantising its rows, which is part of it.
func productRun(stream *cuda.Stream, kernels *gpukernels.Kernels, as gpukernels.Arithmetic, p productShape, at [4]cuda.Pointer) func() error {
	x := gpukernels.Matrix{At: at[0], Rows: p.m, Columns: p.k}
	result := gpukernels.Matrix{At: at[2], Rows: p.m, Columns: p.n}
	if as.Products == gpukernels.Stored {
		weights := gpukernels.Matrix{At: at[1], Rows: p.n, Columns: p.k}
		return func() error {
			return kernels.Product(stream, gpukernels.Product{X: x, Weights: weights, Result: result})
		}
	}
	scales := cuda.Offset[gpukernels.Half](at[3], p.m*p.k)
	rows := gpukernels.ByteMatrix{At: at[3], Scales: scales, Rows: p.m, Columns: p.k}
	weights := gpukernels.ByteMatrix{At: at[1], Scales: cuda.Offset[float32](scales, p.m), Rows: p.n, Columns: p.k}
	return func() error {
		return cmp.Or(kernels.Quantise(stream, rows, x),
			kernels.ByteProduct(stream, gpukernels.ByteProduct{X: rows, Weights: weights, Result: result}))
	}
}

func (r *gpuReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Device)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tproduct\tm\tn\tk\tµs\tcuBLASLt, µs\twith the same bits, µs\tbound, µs\tby\t")
	for _, k := range r.Kernels {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%.1f\t%s\t%s\t%.1f\t%s\t\n", k.Model, k.Product, k.M, k.N, k.K, k.Microseconds,
			microsecondsOrDash(k.Library), microsecondsOrDash(k.SameBits), k.Bound, k.By)
	}
	t.Flush()
	fmt.Fprintln(&b)
	fmt.Fprintln(t, "model\tstreams\tslots\tbeam\tsource pieces/s\tencoder\tdecoder\toutput layer\tbusy streams\troofline\t")
	for _, row := range r.Rows {
		bound := "-"
		if row.Bound > 0 {
			bound = fmt.Sprintf("%.0f %%", 100*row.Reached)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%.0f %%\t%.0f %%\t%.0f %%\t%.2f\t%s\t\n", row.Model, row.Streams, row.Slots, row.Beam,
			formatCount(int64(row.PerSecond)), 100*row.Encode, 100*row.Step, 100*row.Output, row.Busy, bound)
	}
	t.Flush()
	fmt.Fprintln(&b)
	printTraining(&b, r.Training)
	return writeOutput(w, b.String())
}
