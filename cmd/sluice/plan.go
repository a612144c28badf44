package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator"
)

// A planning is one run of "sluice plan".
type planning struct {
	model  modelFlags
	search searchFlags
	batch  batchFlags

	input  string
	words  string
	price  float64
	share  float64
	cores  int
	runs   int
	asJSON bool
}

// A plan says what it takes to translate so many words a day.
type plan struct {
	Precision   string       `json:"precision"`
	Kernels     []string     `json:"kernels,omitempty"` // of the processor, if it translates
	GPUs        []gpuInUse   `json:"gpus,omitempty"`
	Unit        string       `json:"unit"`             // core or GPU
	Speed       float64      `json:"words_per_second"` // of one: words in a second of processor time, or of a GPU's; the median
	Slowest     float64      `json:"slowest_words_per_second"`
	Fastest     float64      `json:"fastest_words_per_second"`
	WordsPerDay float64      `json:"words_per_day"`
	Busy        float64      `json:"units_busy_all_day"`
	Share       float64      `json:"share_of_time"`
	Units       float64      `json:"units"` // busy for that share of their time
	Machines    int          `json:"machines,omitempty"`
	MachineSize int          `json:"units_per_machine,omitempty"`
	Price       float64      `json:"price_per_hour,omitempty"`                   // of one
	Least       float64      `json:"price_per_million_words_at_least,omitempty"` // of those that are never idle
	Expected    float64      `json:"price_per_million_words,omitempty"`          // of those that are busy for the share
	Memory      []planMemory `json:"memory"`
}

// A planMemory is what a process had resident at most with so many workers.
type planMemory struct {
	Workers   int     `json:"workers"`
	Megabytes float64 `json:"megabytes"`
}

func newPlanCommand() *cobra.Command {
	p := new(planning)
	command := &cobra.Command{
		Use:   "plan -m MODEL -i TEXT --words-per-day N [flags]",
		Short: "Tell how many cores or GPUs a number of words a day takes, and what they cost",
		Long: `Measure how fast this machine translates a text, and tell from it how many cores, or with --devices how many GPUs, it takes to
translate so many words a day, what a million words cost, and how much memory the workers need. TEXT has a sentence a line, some
thousand of them, like those that will come; for GPUs some hundred thousand.

Words are counted for each second of processor time of one worker, so that other load on the machine matters little. A GPU's are
counted by the clock: let it do nothing else meanwhile. Cores and GPUs of other machines differ: measure where you will run.`,
		Example: `  sluice plan -m models/ende-tiny -i news.en --words-per-day 1e9 --price 0.04
  sluice plan -m models/ende-tiny -i news.en --words-per-day 50M --cores-per-machine 8
  sluice plan -m models/ende-tiny -i corpus.en --words-per-day 1e11 --devices 0 --price 2.50`,
		Args: exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error { return p.run(command) },
	}
	own := newGroup("Plan")
	own.flags.StringVarP(&p.input, "input", "i", "", "`FILE` of text, a sentence a line")
	own.flags.StringVar(&p.words, "words-per-day", "", "`NUMBER` of source words, such as 50000000, 5e7 or 50M")
	own.flags.Float64Var(&p.price, "price", 0, "what a core, or with --devices a GPU, costs in an hour, in any `CURRENCY`")
	own.flags.Float64Var(&p.share, "share", 0.75, "`SHARE` of their time that cores or GPUs may be busy: nothing is sent evenly over the day, and what was missed has to be caught up with")
	own.flags.IntVar(&p.cores, "cores-per-machine", 0, "`CORES`, or with --devices GPUs, of a machine, to be told how many machines")
	own.flags.IntVar(&p.runs, "runs", 3, "passes over the text; the median counts")
	own.flags.BoolVar(&p.asJSON, "json", false, "print JSON")
	addGroups(command, own, p.model.group(), p.search.group(), p.batch.group())
	return command
}

func (p *planning) run(command *cobra.Command) error {
	words, err := parseWords(p.words)
	switch {
	case err != nil:
		return err
	case p.input == "" || p.runs < 1:
		return usageErrorf("plan needs a text (-i FILE) and at least one run")
	case p.share <= 0 || p.share > 1:
		return usageErrorf("--share %v: more than 0 and at most 1", p.share)
	case p.price < 0 || p.cores < 0:
		return usageErrorf("--price and --cores-per-machine are not negative")
	}
	if err := applyEnvironment(command.Flags(), os.LookupEnv); err != nil {
		return err
	}
	if _, err := p.model.applyConfig(command.Flags()); err != nil {
		return err
	}
	lines, count, err := readLines(p.input)
	if err != nil {
		return err
	}
	if count == 0 {
		return inputError{fmt.Errorf("%s holds no words", p.input)}
	}
	most := p.batch.threads
	if most == 0 {
		most = runtime.GOMAXPROCS(0)
	}
	if choice, err := p.model.chooseDevices(p.batch.threads); err != nil {
		return err
	} else if !choice.wanted() {
		p.batch.threads = 1
	}
	parts, err := buildEngine(command.Context(), &p.model, &p.search, &p.batch, 1, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer parts.models.close()
	speeds, err := p.speeds(parts, lines, count)
	if err != nil {
		return err
	}
	result := newPlan(words, unitOf(parts), speeds, p.price, p.share, p.cores)
	result.Precision, result.GPUs = parts.models.arithmetic(), parts.gpusInUse()
	if len(result.GPUs) > 0 {
		result.Memory = []planMemory{{parts.workers(), float64(residentBytes()) / 1e6}}
	} else {
		result.Kernels = kernels.Implementations()
		result.Memory, err = workerMemory(parts, lines, most)
	}
	if err != nil {
		return err
	}
	if p.asJSON {
		return writeJSON(command.OutOrStdout(), result)
	}
	return result.print(command.OutOrStdout(), count, p.runs)
}

// unitOf is what is counted.
func unitOf(parts *engineParts) string {
	if len(parts.models.gpus) > 0 {
		return "GPU"
	}
	return "core"
}

// speeds measures one worker, in words a second of processor time, or the GPUs that were asked for, in words a second of each. The slowest
// comes first.
func (p *planning) speeds(parts *engineParts, lines []string, words int64) ([]float64, error) {
	b := &benchmark{runs: p.runs}
	measured, err := b.measure(parts, lines, words)
	if err != nil {
		return nil, err
	}
	runs := measured[0]
	speeds := make([]float64, len(runs))
	for i, run := range runs {
		speeds[i] = run.WordsPerCPU
		switch gpus := len(parts.models.gpus); {
		case gpus > 0:
			speeds[i] = run.WordsPerSec / float64(gpus)
		case speeds[i] == 0:
			speeds[i] = run.WordsPerSec // where the system does not tell how much processor time was used
		}
	}
	slices.Sort(speeds)
	return speeds, nil
}

// workerMemory translates with 1, 2, 4 and so on workers, and notes the most memory so far after each.
func workerMemory(parts *engineParts, lines []string, most int) ([]planMemory, error) {
	var list []planMemory
	for workers := 1; workers <= most; workers *= 2 {
		config := parts.config
		config.Batching.Workers = workers
		if err := translateWith(config, lines); err != nil {
			return nil, err
		}
		list = append(list, planMemory{workers, float64(residentBytes()) / 1e6})
	}
	return list, nil
}

func translateWith(config translator.Config, lines []string) error {
	engine, err := translator.New(config)
	if err != nil {
		return usageError{err}
	}
	defer engine.Close()
	return translateAll(engine, lines)
}

// newPlan computes a plan from speeds, the slowest first. docs/capacity.md explains the arithmetic.
func newPlan(words float64, unit string, speeds []float64, price, share float64, machine int) *plan {
	const secondsPerDay, secondsPerHour = 86400, 3600
	r := &plan{
		Unit: unit, Speed: speeds[len(speeds)/2], Slowest: speeds[0], Fastest: speeds[len(speeds)-1],
		WordsPerDay: words, Share: share, Price: price, MachineSize: machine,
	}
	r.Busy = words / secondsPerDay / r.Speed
	r.Units = r.Busy / share
	if machine > 0 {
		r.Machines = int(math.Ceil(r.Units / float64(machine)))
	}
	r.Least = price / secondsPerHour / r.Speed * 1e6
	r.Expected = r.Least / share
	return r
}

func (r *plan) print(out io.Writer, words int64, runs int) error {
	var b strings.Builder
	if len(r.GPUs) == 0 {
		fmt.Fprintf(&b, "kernels           %s\n", strings.Join(r.Kernels, "; "))
	}
	for _, g := range r.GPUs {
		fmt.Fprintf(&b, "%-17s %s; %v\n", g.Name, r.Precision, g)
	}
	fmt.Fprintf(&b, "%-17s %s a second (median of %d passes over %s words; %s to %s)\n", "words a "+r.Unit,
		formatCount(int64(r.Speed)), runs, formatCount(words), formatCount(int64(r.Slowest)), formatCount(int64(r.Fastest)))
	fmt.Fprintf(&b, "%-17s %s for %s words a day, busy %.0f %% of their time; %s if they were never idle\n", r.Unit+"s",
		digits(r.Units), formatCount(int64(r.WordsPerDay)), 100*r.Share, digits(r.Busy))
	if r.Machines > 0 {
		fmt.Fprintf(&b, "machines          %s of %d %ss\n", formatCount(int64(r.Machines)), r.MachineSize, r.Unit)
	}
	if r.Price > 0 {
		fmt.Fprintf(&b, "a million words   %s; %s if %ss were never idle\n", digits(r.Expected), digits(r.Least), r.Unit)
	}
	for _, m := range r.Memory {
		if m.Megabytes > 0 {
			fmt.Fprintf(&b, "memory            %.0f MB with workers: %d\n", m.Megabytes, m.Workers)
		}
	}
	return writeOutput(out, b.String())
}

// digits writes a number with three digits that count.
func digits(x float64) string {
	if x >= 100 {
		return formatCount(int64(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// parseWords reads a number of words, with K, M, G or T for thousands, millions and so on.
func parseWords(text string) (float64, error) {
	number, unit := strings.NewReplacer("_", "", ",", "").Replace(text), 1.0
	for name, size := range map[string]float64{"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} {
		if rest, has := strings.CutSuffix(strings.ToUpper(number), name); has {
			number, unit = rest, size
		}
	}
	words, err := strconv.ParseFloat(number, 64)
	if err != nil || !(words > 0) || words*unit > 1e18 {
		return 0, usageErrorf("--words-per-day %q: expected a number such as 50000000, 5e7 or 50M", text)
	}
	return words * unit, nil
}
