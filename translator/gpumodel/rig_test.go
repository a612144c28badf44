//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// library returns the driver that tests run on: what the environment names, a real one perhaps, or an emulated device.
func library(t testing.TB, sanitizer emulated.Sanitizer) string {
	t.Helper()
	if named := os.Getenv(emulated.LibraryVariable); named != "" {
		return named
	}
	return emulated.Library(t, sanitizer, emulated.Sources(t)...)
}

func openDevice(t testing.TB) *Device {
	t.Helper()
	return openFor(t, library(t, emulated.Unwatched), gpukernels.Arithmetic{})
}

// openInt8 returns a device that multiplies in 8 bits.
func openInt8(t testing.TB) *Device {
	t.Helper()
	return openFor(t, library(t, emulated.Unwatched), gpukernels.Arithmetic{Products: gpukernels.Int8})
}

// openFP8 returns a device that multiplies in fp8: an emulated one plays a card that can. On another one, the test is skipped.
func openFP8(t testing.TB) *Device {
	t.Helper()
	as := gpukernels.Arithmetic{Products: gpukernels.FP8}
	at := library(t, emulated.Unwatched)
	if emulatedSetting(t) != nil {
		setEmulated(t, "capability", "89", "80")
		setEmulated(t, "version", "12040", "12020")
	}
	driver, err := cuda.Open(at)
	must(t, err)
	properties, err := driver.Properties(0)
	must(t, err)
	if err := as.Check(driver, properties); err != nil {
		t.Skip(err)
	}
	return openFor(t, at, as)
}

// devices returns one for each way to multiply.
func devices(t testing.TB) []*Device {
	return []*Device{openDevice(t), openInt8(t), openFP8(t)}
}

// openBFloat16 returns a device that stores numbers as bfloat16: a real one, or an emulated one with those kernels.
func openBFloat16(t testing.TB) *Device {
	t.Helper()
	at := os.Getenv(emulated.LibraryVariable)
	if at == "" {
		at = emulated.LibraryOfBFloat16(t, emulated.Unwatched, emulated.Sources(t)...)
	}
	return openFor(t, at, gpukernels.Arithmetic{Stored: gpukernels.BFloat16})
}

func openFor(t testing.TB, library string, as gpukernels.Arithmetic) *Device {
	t.Helper()
	driver, err := cuda.Open(library)
	must(t, err)
	d, err := OpenFor(driver, 0, as)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A pair is a model on the device and on the processor.
type pair struct {
	gpu *Stepper
	cpu *cpumodel.Stepper
}

func newPair(t testing.TB, d *Device, m *model.Model, slots int, suppress ...search.Token) pair {
	t.Helper()
	packed, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{Suppress: suppress})
	must(t, err)
	return pair{newStepper(t, d, m, slots, suppress...), packed.NewStepper(slots)}
}

// newStepper returns a Stepper that is closed when the test ends, and then must not have failed.
func newStepper(t testing.TB, d *Device, m *model.Model, slots int, suppress ...search.Token) *Stepper {
	t.Helper()
	w, err := d.Load(m, Options{Suppress: suppress, Alphas: true}) // which most models do not have
	must(t, err)
	s, err := w.NewStepper(slots)
	must(t, err)
	t.Cleanup(func() {
		must(t, s.Err())
		must(t, s.Close())
		must(t, w.Close())
	})
	return s
}

const smallVocabulary = 70

// small describes a model with a little of everything that is supported; more is added to the description.
func small(more string) []byte {
	return []byte(`
type: transformer
dim-vocabs: [70, 70]
dim-emb: 64
transformer-heads: 2
transformer-dim-ffn: 96
transformer-ffn-activation: relu
transformer-decoder-autoreg: rnn
dec-cell: ssru
enc-depth: 2
dec-depth: 2
tied-embeddings-all: true
` + more)
}

// randomModel returns a model with random parameters.
func randomModel(t testing.TB, description []byte) *model.Model {
	t.Helper()
	m, err := model.New(description)
	must(t, err)
	random := rand.New(rand.NewPCG(3, 4))
	for _, p := range m.Parameters() {
		scale := 1 / math.Sqrt(float64(p.Shape[0]))
		if strings.Contains(p.Name, "Wemb") {
			scale = 0.3
		}
		p.Type, p.Data = marian.Float32, nil
		for range p.Elements() {
			x := scale * random.NormFloat64()
			if strings.HasSuffix(p.Name, "_ln_scale") {
				x = 1 + 0.1*x
			}
			p.Data = binary.LittleEndian.AppendUint32(p.Data, math.Float32bits(float32(x)))
		}
	}
	return m
}

// withAlphas gives each matrix of a model a multiplier for activations, some of which cut much off, neighbours others, and returns the model.
func withAlphas(m *model.Model) *model.Model {
	m.Alphas = model.Alphas{}
	for i, p := range m.Parameters() {
		data := binary.LittleEndian.AppendUint32(nil, math.Float32bits([]float32{30, 45, 120, 60}[i%4]))
		m.Alphas[p.Name] = &marian.Tensor{Name: p.Name + "_QuantMultA", Shape: []int{1}, Type: marian.Float32, Data: data}
	}
	return m
}

// inFourBits stores the matrices of a model in 4 bits, but for the first rows of the embeddings, and returns the model.
func inFourBits(t testing.TB, m *model.Model) *model.Model {
	t.Helper()
	eight, parameters := map[string]int{}, m.Parameters()
	for _, p := range parameters {
		if strings.Contains(p.Name, "Wemb") {
			eight[p.Name] = 20
		}
	}
	stored, err := (&marian.File{Tensors: parameters}).Log4(3, eight)
	must(t, err)
	for i, p := range parameters {
		p.Type, p.Data = stored.Tensors[i].Type, stored.Tensors[i].Data
	}
	return m
}

// putFloat changes an element of a tensor.
func putFloat(t *marian.Tensor, i int, value float32) {
	binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(value))
}

// randomSources returns sentences of given lengths, all but each third with a second source, for models that read two.
func randomSources(lengths ...int) []search.Source {
	random := rand.New(rand.NewPCG(5, 6))
	sources := make([]search.Source, len(lengths))
	for i, n := range lengths {
		for range n - 1 {
			sources[i].Tokens = append(sources[i].Tokens, 1+random.Int32N(smallVocabulary-1))
		}
		sources[i].Tokens = append(sources[i].Tokens, 0)
		if i%3 < 2 {
			sources[i].Further = [][]search.Token{append(slices.Clone(sources[i].Tokens[n/2:]), 0)}
		}
	}
	return sources
}

// demoModel returns the model in the repository.
func demoModel(t testing.TB) *model.Model {
	t.Helper()
	file, err := marian.Open(filepath.Join(sharedtest.Root(), "models", "ende-tiny", "model.intgemm.alphas.bin"))
	must(t, err)
	t.Cleanup(func() { must(t, file.Close()) })
	m, err := model.Load(file, nil)
	must(t, err)
	return m
}
