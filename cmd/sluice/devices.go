package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// driverVariable names the driver's library where it is not the one that the system finds.
const driverVariable = "SLUICE_CUDA_LIBRARY"

// openDriver opens the driver. For all of its devices, half of the memory of this machine may be kept from being paged out.
func openDriver() (*cuda.Driver, error) {
	driver, err := cuda.Open(os.Getenv(driverVariable))
	if err == nil {
		driver.LimitPinned(uint64(usableMemory(os.DirFS("/")) / 2))
	}
	return driver, err
}

// A deviceChoice is what --devices asks for.
type deviceChoice struct {
	numbers  []int // of GPUs
	all      bool  // every GPU that the driver shows
	demanded bool  // a GPU or nothing: it is an error if there is none that can run the model
}

func (c deviceChoice) wanted() bool { return c.all || len(c.numbers) > 0 }

const devicesHelp = "expected cpu, auto (the GPUs, or else the CPU), all (the GPUs) or numbers of GPUs, beginning with 0"

// chooseDevices reads --devices. threads is what --cpu-threads says.
//
// What is asked for outside of one is demanded. In a configuration it is a wish, since Marian writes its default, device 0, into every
// file that it makes; that default alone asks for nothing, and --cpu-threads comes before it, as in Marian.
func (f *modelFlags) chooseDevices(threads int) (deviceChoice, error) {
	said, outside := f.devices, f.outside
	if len(said) == 0 || len(said) == 1 && said[0] == "cpu" {
		return deviceChoice{}, nil
	}
	if !outside["devices"] && (threads > 0 || slices.Equal(said, []string{"0"})) {
		return deviceChoice{}, nil
	}
	if threads > 0 && outside["cpu-threads"] {
		return deviceChoice{}, usageErrorf("--devices %s and --cpu-threads %d: choose the GPU or the CPU", strings.Join(said, " "), threads)
	}
	choice, err := readDevices(said, "--streams gives it several workers")
	choice.demanded = choice.demanded && (choice.all || outside["devices"])
	return choice, err
}

// readDevices reads the words of --devices; numbers and all are demanded. instead is what to do rather than to name a GPU twice.
func readDevices(words []string, instead string) (choice deviceChoice, err error) {
	if len(words) == 0 || len(words) == 1 && words[0] == "cpu" {
		return choice, nil
	}
	if len(words) == 1 && (words[0] == "auto" || words[0] == "all") {
		return deviceChoice{all: true, demanded: words[0] == "all"}, nil
	}
	choice.demanded = true
	for _, word := range words {
		number, ok := numberOfGPU(word)
		if !ok {
			return choice, usageErrorf("--devices %s: %s", strings.Join(words, " "), devicesHelp)
		}
		if slices.Contains(choice.numbers, number) {
			return choice, usageErrorf("--devices names GPU %d twice: %s", number, instead)
		}
		choice.numbers = append(choice.numbers, number)
	}
	return choice, nil
}

// numberOfGPU reads the number of a GPU, with which gpu: may stand.
func numberOfGPU(word string) (number int, ok bool) {
	number, err := strconv.Atoi(strings.TrimPrefix(word, "gpu:"))
	return number, err == nil && number >= 0
}

// isDevice says whether a word on the command line belongs to --devices.
func isDevice(word string) bool {
	return isNumber(word) || word == "cpu" || word == "auto" || word == "all" || strings.HasPrefix(word, "gpu:")
}

// nameDevices lets GPUs that were asked for outside of a configuration be told from Marian's default when the settings are dumped.
func nameDevices(flags *pflag.FlagSet, outside map[string]bool) {
	flag := flags.Lookup("devices")
	if flag == nil || !outside["devices"] {
		return
	}
	list := flag.Value.(pflag.SliceValue)
	words := list.GetSlice()
	for i, word := range words {
		if isNumber(word) {
			words[i] = "gpu:" + word
		}
	}
	_ = list.Replace(words) // of strings, which are always accepted
}

// A gpu is a GPU with the models of an ensemble on it.
type gpu struct {
	number  int
	driver  *cuda.Driver
	device  *gpumodel.Device
	weights []*gpumodel.Weights
	joint   bool // samples and noisy beams are searches among all tokens
}

// sharedBy says what shares the GPU's memory with so many workers.
func (g *gpu) sharedBy(workers int) gpumodel.Sharing {
	return gpumodel.Sharing{Workers: workers, Models: len(g.weights), Joint: g.joint}
}

func (g *gpu) name() string { return fmt.Sprintf("GPU %d", g.number) }

// openedGPUs are a driver and GPUs that models share which are opened one after another. The zero value has none.
type openedGPUs struct {
	driver  *cuda.Driver
	devices map[openedGPU]*gpumodel.Device
}

// openedGPU is a GPU that computes in an arithmetic.
type openedGPU struct {
	number int
	as     gpukernels.Arithmetic
}

// start opens the driver unless that has been done.
func (o *openedGPUs) start() (err error) {
	if o.driver == nil {
		o.devices = map[openedGPU]*gpumodel.Device{}
		o.driver, err = openDriver()
	}
	return err
}

// device opens a GPU that nobody has. Each who has it closes it.
func (o *openedGPUs) device(which openedGPU) (*gpumodel.Device, error) {
	if d := o.devices[which]; d != nil && d.Share() {
		return d, nil
	}
	d, err := gpumodel.OpenFor(o.driver, which.number, which.as)
	if err != nil {
		return nil, err
	}
	o.devices[which] = d
	return d, nil
}

// openGPUs loads the models onto the GPUs that were chosen. Of all GPUs, those that cannot be used are left out as long as there is one
// that can, and warnings say which and why.
func openGPUs(e *ensemble, choice deviceChoice, opened *openedGPUs, logger *slog.Logger) ([]*gpu, error) {
	if err := opened.start(); err != nil {
		return nil, err
	}
	numbers := choice.numbers
	if choice.all {
		n, err := opened.driver.Devices()
		if err != nil {
			return nil, err
		}
		for number := range n {
			numbers = append(numbers, number)
		}
	}
	var gpus []*gpu
	var failed []error
	for _, number := range numbers {
		g, err := openGPU(e, opened, number)
		if err == nil {
			gpus = append(gpus, g)
			continue
		}
		failed = append(failed, fmt.Errorf("GPU %d: %w", number, err))
		if !choice.all || errors.Is(err, gpumodel.ErrUnsupported) {
			closeGPUs(gpus)
			return nil, errors.Join(failed...)
		}
	}
	if len(gpus) == 0 {
		return nil, errors.Join(failed...)
	}
	warnOfLeftOut(failed, logger)
	return gpus, nil
}

// warnOfLeftOut says why some of all GPUs are not used.
func warnOfLeftOut(reasons []error, logger *slog.Logger) {
	for _, reason := range reasons {
		logger.Warn("a GPU is left out", "reason", reason)
	}
}

func openGPU(e *ensemble, opened *openedGPUs, number int) (*gpu, error) {
	device, err := opened.device(openedGPU{number, e.onGPU})
	if err != nil {
		return nil, err
	}
	g := &gpu{number: number, driver: opened.driver, device: device, joint: e.looksAtAll}
	tuning, loaded, err := e.products.tune(opened.driver, device)
	if err != nil {
		g.close()
		return nil, err
	}
	for i, m := range e.models {
		weights, err := device.Load(m, gpumodel.Options{Suppress: e.suppress, Tuning: tuning, Saturation: e.int8.saturation,
			Alphas:     !e.int8.ignoreAlphas,
			ForScoring: e.scoring})
		if err != nil {
			g.close()
			return nil, fmt.Errorf("%s: %w", e.files[i].Path, err)
		}
		g.weights = append(g.weights, weights)
	}
	loaded()
	return g, nil
}

// close gives back what the GPU holds. A device that is lost cannot give anything back, and the process ends soon.
func (g *gpu) close() {
	for _, weights := range g.weights {
		weights.Close()
	}
	g.device.Close()
}

func closeGPUs(gpus []*gpu) {
	for _, g := range gpus {
		g.close()
	}
}

// worker is the GPU as the engine sees it, with a load.
func (g *gpu) worker(load gpuLoad, b *batchFlags) translator.Device {
	d := translator.Device{
		Name: g.name(), Workers: load.Streams, Slots: load.Slots, TopUp: gpumodel.TopUp,
		MiniBatchTokens: gpumodel.MiniBatch(load.Slots), Encoded: gpumodel.Encoded(load.Slots, g.sources()), Open: g.steppers,
		Fits: func(err error) bool { return errors.Is(err, cuda.ErrOutOfMemory) },
	}
	if b.miniBatchWords > 0 {
		d.MiniBatchTokens = b.miniBatchWords
	}
	return d
}

// sources is how many sources the models read.
func (g *gpu) sources() (n int) {
	for _, weights := range g.weights {
		n = max(n, weights.Sources())
	}
	return n
}

// steppers makes a Stepper for each model.
func (g *gpu) steppers(slots int) ([]search.Stepper, error) {
	var all []search.Stepper
	for _, weights := range g.weights {
		s, err := weights.NewStepper(slots)
		if err != nil {
			for _, opened := range all {
				opened.(*gpumodel.Stepper).Close()
			}
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// chooseDevice readies the models for GPUs, if they are asked for and can be used, and for the processor otherwise.
func (p *engineParts) chooseDevice(ctx context.Context, m *modelFlags, b *batchFlags, logger *slog.Logger) error {
	choice, err := m.chooseDevices(b.threads)
	if err != nil {
		return err
	}
	if m.streams < 0 {
		return usageErrorf("--streams %d: at least 0, which lets it be chosen", m.streams)
	}
	if choice.wanted() {
		err := p.models.chooseGPUs(m, choice, new(openedGPUs), logger)
		if err == nil {
			p.useGPUs(ctx, m.streams, b, logger)
			return nil
		}
		if choice.demanded {
			return demandedError(err)
		}
		logger.Warn("translating on the CPU", "reason", err)
	}
	precision, err := m.choosePrecision(p.models.stored())
	if err != nil {
		return err
	}
	return p.models.pack(precision)
}

// chooseGPUs loads the models onto the GPUs that were chosen, for the arithmetic that was.
func (e *ensemble) chooseGPUs(m *modelFlags, choice deviceChoice, opened *openedGPUs, logger *slog.Logger) (err error) {
	name, option := m.arithmeticName()
	if name == "auto" {
		name = gpukernels.Float16.String()
	}
	if e.onGPU, err = gpuArithmeticOf(option, name); err != nil {
		return err
	}
	e.products = gpuProducts{tuner: e.tuner, logger: logger}
	if e.products.way, err = gpukernels.ParseMultiplication(m.gpuProducts); err != nil {
		return usageErrorf("--gpu-products: %v", err)
	}
	if e.products.way, err = ofArithmetic(e.products.way, e.onGPU); err != nil {
		return err
	}
	e.gpus, err = openGPUs(e, choice, opened, logger)
	return err
}

// gpuArithmeticOf reads the name of an arithmetic, which an option says.
func gpuArithmeticOf(option, name string) (gpukernels.Arithmetic, error) {
	switch {
	case name == "float16":
		return gpukernels.Arithmetic{}, nil
	case name == "bfloat16":
		return gpukernels.Arithmetic{Stored: gpukernels.BFloat16}, nil
	case name == "fp8":
		return gpukernels.Arithmetic{Products: gpukernels.FP8}, nil
	case strings.HasPrefix(name, "int8"):
		return gpukernels.Arithmetic{Products: gpukernels.Int8}, nil
	}
	return gpukernels.Arithmetic{}, usageErrorf("%s %s is not for GPUs, which compute in float16, bfloat16, int8 or fp8", option, name)
}

// demandedError sorts the reason why no GPU can be used by what the user has to look at.
func demandedError(err error) error {
	var usage usageError
	if errors.Is(err, gpumodel.ErrUnsupported) {
		return modelError{fmt.Errorf("%w; --devices auto lets the processor run it", err)}
	}
	if errors.As(err, &usage) {
		return err
	}
	return fmt.Errorf("%w (--devices auto goes on without)", err)
}

// loadOf is the load of a GPU with the streams and slots that were asked for; what is 0 is chosen.
func (p *engineParts) loadOf(ctx context.Context, g *gpu, streams, slots int, logger *slog.Logger) gpuLoad {
	if streams == 0 {
		return p.chooseLoad(ctx, g, slots, logger)
	}
	return g.usualLoad(streams, slots)
}

// sortedPerSlot is how many sentences are sorted together for each slot: enough for mini-batches of like lengths.
const sortedPerSlot = 4

// useGPUs lets the engine work on GPUs. What overflows in float16 is translated on the processor, in float32, and so is everything
// once no GPU is left.
func (p *engineParts) useGPUs(ctx context.Context, streams int, b *batchFlags, logger *slog.Logger) {
	p.config.Models = nil
	slots := 0
	for _, g := range p.models.gpus {
		d := g.worker(p.loadOf(ctx, g, streams, b.slots, logger), b)
		p.config.Devices = append(p.config.Devices, d)
		slots += d.Slots * d.Workers
		logger.Info("translating on "+d.Name, "device", g.device.Properties(), "streams", d.Workers, "slots", d.Slots,
			"products", g.weights[0].Multiplied())
	}
	if b.maxiBatch == 0 {
		p.config.Batching.MaxiBatch = max(p.config.Batching.MaxiBatch, sortedPerSlot*slots)
	}
	p.config.OnFailure = func(f translator.Failure) {
		switch {
		case f.Slots > 0:
			logger.Warn(f.Device+" has no memory left: a worker goes on with less", "slots", f.Slots, "reason", f.Err)
		case f.Last:
			logger.Error(f.Device+" has failed: the CPU goes on, in float32", "reason", f.Err)
		default:
			logger.Error(f.Device+" has failed: a worker ends, and others translate its sentences", "reason", f.Err)
		}
	}
}

// workers is how many translate at a time: those of the GPUs, or else of the processor.
func (p *engineParts) workers() (n int) {
	if len(p.config.Devices) == 0 {
		return p.config.Batching.Workers
	}
	for _, d := range p.config.Devices {
		n += d.Workers
	}
	return n
}
