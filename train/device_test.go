package train

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A sideDevice is a device that computes on the processor, with vectors of its own.
type sideDevice struct {
	replica   *network.Replica[float32]
	trained   []float32 // that losses are of
	rounded   bool      // they are others than the state's
	state     optimiser.State
	config    optimiser.Config
	optimiser *optimiser.Optimiser
	fetched   int
	reserved  int
	closed    bool
	fails     error // of Begin
	losses    []network.Loss

	multipliedBefore, multiplies string
	cannotMultiply               error

	network            *network.Network
	cannot, failsLater error // of Evaluate and Translate
	evaluated          int   // batches
	translated         int   // models
	released           int
}

func (d *sideDevice) Evaluate(batches []network.Batch, of []float32) ([]network.Loss, error) {
	if d.cannot != nil {
		return nil, d.cannot
	}
	if of == nil {
		of = d.trained
	}
	evaluator := network.NewEvaluator(d.network, autodiff.Device[float32](new(autodiff.CPU)), of)
	evaluator.Quantised = d.replica.Quantised
	losses := make([]network.Loss, len(batches))
	for i := range batches {
		losses[i] = evaluator.Evaluate(&batches[i], nil)
		d.evaluated++
	}
	return losses, nil
}

// A failingStepper is one of a device that is about to fail.
type failingStepper struct {
	search.Stepper
	fails error
}

func (s failingStepper) Err() error { return s.fails }

func (d *sideDevice) Translate(m *model.Model, inBytes bool, suppress []search.Token) (translator.Device, func() error, error) {
	if d.cannot != nil {
		return translator.Device{}, nil, d.cannot
	}
	precision := cpumodel.Float32
	if inBytes {
		precision = cpumodel.Int8
	}
	weights, err := cpumodel.Load(m, precision, cpumodel.Options{Suppress: suppress})
	d.translated++
	return translator.Device{
		Name: "beside", Workers: 1, Slots: 3, MiniBatchTokens: 8,
		Open: func(slots int) ([]search.Stepper, error) {
			return []search.Stepper{failingStepper{weights.NewStepper(slots), d.failsLater}}, nil
		},
		Fits: func(err error) bool { return errors.Is(err, errNoMemory) },
	}, func() error { d.released++; return nil }, err
}

var errNoMemory = errors.New("no memory")

func (d *sideDevice) open(n *network.Network, s optimiser.State) (Device, error) {
	values := slices.Clone(s.Values)
	d.trained, d.rounded = slices.Clone(values), false
	d.replica = network.NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), d.trained)
	d.optimiser = optimiser.New(d.config, values)
	d.state = d.optimiser.State()
	copy(d.state.Mean, s.Mean)
	copy(d.state.Square, s.Square)
	copy(d.state.Average, s.Average)
	d.closed, d.network = false, n
	return d, nil
}

func (d *sideDevice) Workers() int { return 1 }

func (d *sideDevice) Multiply(before string) (now string, err error) {
	d.multipliedBefore = before
	return d.multiplies, d.cannotMultiply
}

func (d *sideDevice) Fix(tables []*marian.Tensor) {
	for _, table := range tables {
		d.replica.Fix(table)
	}
}

func (d *sideDevice) Quantise() { d.replica.Quantised = true }

func (d *sideDevice) Put(s optimiser.State, trained []float32) error {
	for i, from := range [][]float32{s.Values, s.Mean, s.Square, s.Average} {
		copy([][]float32{d.state.Values, d.state.Mean, d.state.Square, d.state.Average}[i], from)
	}
	if trained != nil {
		copy(d.trained, trained)
		d.rounded = true
	}
	return nil
}

func (d *sideDevice) Memory(int) (growing, fixed int) { return d.replica.Memory(), 0 }

func (d *sideDevice) Reserve(bytes int) error {
	d.reserved = bytes
	return nil
}

func (d *sideDevice) Begin(_ int, b *network.Batch, options network.Options, seed uint64) error {
	if d.fails != nil {
		return d.fails
	}
	d.losses = append(d.losses, d.replica.Train(b, options, seed))
	return nil
}

func (d *sideDevice) Losses(int) ([]network.Loss, error) {
	losses := d.losses
	d.losses = nil
	return losses, nil
}

func (d *sideDevice) Squares(scale float64) (square float64, err error) {
	for _, g := range d.replica.Gradient {
		g *= float32(scale)
		square += float64(g) * float64(g)
	}
	return square, nil
}

// Move makes the step by an optimiser that is at the same update: its own clipping finds the same norm.
func (d *sideDevice) Move(_ optimiser.Move, scale float64) error {
	_, err := d.optimiser.Step([][]float32{d.replica.Gradient}, scale)
	if !d.rounded {
		copy(d.trained, d.state.Values)
	}
	return err
}

func (d *sideDevice) Clear() error {
	clear(d.replica.Gradient)
	return nil
}

func (d *sideDevice) Fetch(s optimiser.State) error {
	if s.Mean != nil {
		d.fetched++
	}
	for i, to := range [][]float32{s.Values, s.Mean, s.Square, s.Average} {
		copy(to, [][]float32{d.state.Values, d.state.Mean, d.state.Square, d.state.Average}[i])
	}
	return nil
}

func (d *sideDevice) Close() error {
	d.closed = true
	return nil
}

// A training on a device that computes like the processor writes the same model as one on the processor with one worker. Parameters
// are fetched only when they are needed.
func TestRunOn(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 200)
	c := toyConfig(folder)
	c.CPUThreads, c.AfterBatches, c.SaveFreq, c.Smoothing, c.Dropout, c.OptimizerDelay = 1, 7, 4, 1e-2, 0.1, 2
	mustRun(t, c)
	want := writtenTensors(t, c.Model)
	c.Model = strings.TrimSuffix(c.Model, ".npz") + "2.npz"
	c.CPUThreads = 3
	d := &sideDevice{config: c.optimiser()}
	if _, err := RunOn(testContext(t), c, d.open, silence()); err != nil {
		t.Fatal(err)
	}
	nearTensors(t, writtenTensors(t, c.Model), want)
	if d.fetched != 2 || !d.closed {
		t.Errorf("fetched %d times, closed %v; want twice, at the checkpoint and at the end, and closed", d.fetched, d.closed)
	}
}

// nearTensors compares tensors of trainings that add up norms in other pieces.
func nearTensors(t *testing.T, have, want map[string][]float32) {
	t.Helper()
	for name, values := range want {
		if len(values) != len(have[name]) {
			t.Fatalf("%s: %d values, want %d", name, len(have[name]), len(values))
		}
		for i, v := range values {
			if diff := v - have[name][i]; !(max(diff, -diff) < 1e-5) {
				t.Fatalf("%s: element %d is %v, want %v", name, i, have[name][i], v)
			}
		}
	}
}

// Quantised training, calibrated or not, and with a moving average or not, is the same on a device, which is told the rounded parameters.
func TestRunOnQuantised(t *testing.T) {
	for _, calibrated := range []bool{false, true} {
		folder := t.TempDir()
		toy(t, folder, 200)
		c := toyConfig(folder)
		c.CPUThreads, c.AfterBatches, c.QuantizeBits = 1, 4, 4
		if calibrated {
			c.QuantizeLogBased, c.QuantizeScales, c.QuantizeCalibrate, c.Smoothing = true, "blocks", 2, 0.1
		}
		mustRun(t, c)
		want := writtenTensors(t, c.Model)
		c.Model = strings.TrimSuffix(c.Model, ".npz") + "2.npz"
		d := &sideDevice{config: c.optimiser()}
		if _, err := RunOn(testContext(t), c, d.open, silence()); err != nil {
			t.Fatal(err)
		}
		nearTensors(t, writtenTensors(t, c.Model), want)
		if !d.replica.Quantised || !d.rounded {
			t.Errorf("calibrated %v: the device does not round what meets matrices, or was told no rounded parameters", calibrated)
		}
	}
}

// A device that fails ends the run with what it said.
func TestRunOnRefuses(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 20)
	lost := errors.New("the card fell off the bus")
	d := &sideDevice{fails: lost}
	c := toyConfig(folder)
	c.AfterBatches = 1
	if _, err := RunOn(testContext(t), c, d.open, silence()); !errors.Is(err, lost) || !strings.Contains(err.Error(), "update 1") {
		t.Errorf("%v, want what the device said", err)
	}
}

// A device without memory for a mini-batch ends the run with a checkpoint, and says what takes less; one that fails otherwise writes none.
func TestRunOnWithoutMemory(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 20)
	for want, change := range map[string]func(*Config){
		"lower mini-batch, which is 30": func(c *Config) { c.MiniBatch, c.MiniBatchWords = 30, 0 },
		"lower mini-batch-words, which": func(*Config) {},
	} {
		c := toyConfig(folder)
		c.AfterBatches, c.Model = 1, filepath.Join(t.TempDir(), "toy.npz")
		change(&c)
		d := &sideDevice{config: c.optimiser(), fails: errors.New("lost")}
		if _, err := RunOn(testContext(t), c, d.open, silence()); err == nil || !strings.Contains(err.Error(), "there is no checkpoint yet") {
			t.Errorf("a device that is lost: %v", err)
		}
		d.fails = fmt.Errorf("%w of 3 pieces", network.ErrOutOfMemory)
		if _, err := RunOn(testContext(t), c, d.open, silence()); !errors.Is(err, network.ErrOutOfMemory) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		d.fails = errors.New("lost")
		_, err := RunOn(testContext(t), c, d.open, silence())
		if err == nil || !strings.Contains(err.Error(), "goes on from the checkpoint of update 0") {
			t.Errorf("after the checkpoint: %v", err)
		}
	}
}

// validatingConfig are settings of a training that soon is at its end: it validates four times and learns nothing.
func validatingConfig(t *testing.T) Config {
	t.Helper()
	folder := t.TempDir()
	toy(t, folder, 60)
	c := toyConfig(folder)
	c.CPUThreads, c.AfterBatches, c.Smoothing, c.LearnRate = 1, 40, 1e-1, 1e-9
	c.ValidSets, c.ValidFreq, c.EarlyStopping = c.TrainSets, 5, 3
	c.ValidMetrics = []string{"bleu", "perplexity"}
	return c
}

// A device validates the parameters to translate with, and the training stops as early as one that the processor validates. What the device
// cannot do, the processor does, and one warning says so for each kind.
func TestValidatesOnDevice(t *testing.T) {
	for name, quantised := range map[string]bool{"float32": false, "in 8 bits": true} {
		t.Run(name, func(t *testing.T) { checkValidatesOnDevice(t, quantised) })
	}
}

func checkValidatesOnDevice(t *testing.T, quantised bool) {
	t.Helper()
	c := validatingConfig(t)
	if quantised {
		c.QuantizeBits = 8
	}
	first, d := c.Model, &sideDevice{config: c.optimiser()}
	outOfMemory := fmt.Errorf("%w: no memory", network.ErrCannotValidate)
	var want []Measurement
	for i, device := range []struct {
		cannot, failsLater              error
		evaluated, translated, warnings int
	}{{}, {outOfMemory, nil, 0, 0, 2}, {nil, errNoMemory, 4, 1, 1}, {nil, nil, 4, 4, 0}} {
		c.Model = strings.Replace(first, ".npz", fmt.Sprint(i, ".npz"), 1)
		var log bytes.Buffer
		*d = sideDevice{config: d.config, cannot: device.cannot, failsLater: device.failsLater}
		open := d.open
		if i == 0 {
			open = nil
		}
		result, err := RunOn(testContext(t), c, open, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if !result.Early || result.Updates != 20 {
			t.Errorf("device %d: the training ended after %d updates, early: %v; want 20, true", i, result.Updates, result.Early)
		}
		if (d.evaluated > 0) != (device.evaluated > 0) || d.translated != device.translated || d.released != d.translated {
			t.Errorf("device %d evaluated %d mini-batches and translated %d times, want %d times; %d were released", i, d.evaluated, d.translated, device.translated, d.released)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != device.warnings {
			t.Errorf("device %d: %d warnings, want %d:\n%s", i, n, device.warnings, log.String())
		}
		have := readMetrics(t, c, kindValid)
		if i == 0 {
			want = have
		}
		if len(have) != 8 || !slices.EqualFunc(have, want, sameMeasurement) {
			t.Errorf("device %d measured\n%+v, want\n%+v", i, have, want)
		}
	}
}

// sameMeasurement compares what was measured after updates whose losses were added up in other pieces.
func sameMeasurement(a, b Measurement) bool {
	near := func(x, y float64) bool { return max(x-y, y-x) <= 1e-4*y }
	return a.Update == b.Update && a.Metric == b.Metric && a.Stalled == b.Stalled && near(a.Value, b.Value) && near(a.Best, b.Best)
}

// A device that fails while it validates ends the run with a checkpoint of what was trained, and the run goes on with the validation.
func TestDeviceFailsValidating(t *testing.T) {
	lost := errors.New("the card fell off the bus")
	for name, fail := range map[string]func(*sideDevice){
		"losses": func(d *sideDevice) { d.cannot = lost }, "translations": func(d *sideDevice) { d.failsLater = lost },
	} {
		t.Run(name, func(t *testing.T) {
			c := validatingConfig(t)
			c.AfterBatches = 5
			if name == "losses" {
				c.ValidMetrics = []string{"cross-entropy"}
			}
			d := &sideDevice{config: c.optimiser()}
			fail(d)
			_, err := RunOn(testContext(t), c, d.open, silence())
			if !errors.Is(err, lost) || !strings.Contains(err.Error(), "validation after update 5: ") ||
				!strings.Contains(err.Error(), "goes on from the checkpoint of update 5") {
				t.Fatalf("%v", err)
			}
			if n := len(readMetrics(t, c, kindValid)); n != 0 {
				t.Errorf("%d measurements were written", n)
			}
			d.cannot, d.failsLater = nil, nil
			result, err := RunOn(testContext(t), c, d.open, silence())
			if err != nil || result.Updates != 5 {
				t.Errorf("continued: %+v, %v", result, err)
			}
			if n := len(readMetrics(t, c, kindValid)); n != len(c.ValidMetrics) {
				t.Errorf("continued: %d measurements, want %d", n, len(c.ValidMetrics))
			}
		})
	}
}

// A checkpoint knows what computed a device's products: the device is told, and a warning says if it computes them otherwise.
func TestProductsOfCheckpoints(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 20)
	c := toyConfig(folder)
	c.CPUThreads = 1
	for i, run := range []struct{ before, now, warning string }{
		{"", "library 1", ""}, {"library 1", "library 1", ""}, {"library 1", "", "before=\"library 1\" now=\"own kernels\""},
		{"", "", ""}, {"", "library 2", "before=\"own kernels\" now=\"library 2\""}, {"library 2", "library 2", ""},
	} {
		c.AfterBatches = i + 1
		d := &sideDevice{config: c.optimiser(), multiplies: run.now}
		var log bytes.Buffer
		if _, err := RunOn(testContext(t), c, d.open, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if d.multipliedBefore != run.before {
			t.Errorf("run %d: the device was told of %q, want %q", i, d.multipliedBefore, run.before)
		}
		warned := strings.Contains(log.String(), "products are computed in another way")
		if warned != (run.warning != "") || !strings.Contains(log.String(), run.warning) {
			t.Errorf("run %d: want the warning %q:\n%s", i, run.warning, log.String())
		}
	}
	d := &sideDevice{config: c.optimiser(), cannotMultiply: errors.New("no library")}
	if _, err := RunOn(testContext(t), c, d.open, silence()); !errors.Is(err, d.cannotMultiply) || !d.closed {
		t.Errorf("%v, closed: %v", err, d.closed)
	}
}

// A device that has no memory to find out how to multiply ends the run with a checkpoint, and nobody is told to lower mini-batches.
func TestRunOnWithoutMemoryToChoose(t *testing.T) {
	folder := t.TempDir()
	toy(t, folder, 20)
	c := toyConfig(folder)
	c.AfterBatches = 1
	d := &sideDevice{config: c.optimiser(), fails: fmt.Errorf("%w: 3×4", network.ErrNoRoomToChoose)}
	_, err := RunOn(testContext(t), c, d.open, silence())
	if !errors.Is(err, network.ErrNoRoomToChoose) || !strings.Contains(err.Error(), "the same command goes on from here") || strings.Contains(err.Error(), "lower") {
		t.Errorf("%v", err)
	}
	d.fails = nil
	if result, err := RunOn(testContext(t), c, d.open, silence()); err != nil || result.Updates != 1 {
		t.Errorf("continued: %+v, %v", result, err)
	}
}
