//go:build linux && (amd64 || arm64) && !nogpu

package paritytest

import (
	"errors"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator/gpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// gpuModels are the models of a recording on a GPU.
type gpuModels struct {
	t       *testing.T
	weights []*gpumodel.Weights

	mutex    sync.Mutex
	steppers []*gpumodel.Stepper
}

func (m *gpuModels) NewSteppers(slots int) []search.Stepper {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var all []search.Stepper
	for _, weights := range m.weights {
		s, err := weights.NewStepper(min(slots, 16))
		if err != nil {
			m.t.Fatal(err)
		}
		m.steppers = append(m.steppers, s)
		all = append(all, s)
	}
	return all
}

// close frees what is on the device. Nothing on it may have failed.
func (m *gpuModels) close() {
	for _, s := range m.steppers {
		if err := errors.Join(s.Err(), s.Close()); err != nil {
			m.t.Error(err)
		}
	}
	for _, w := range m.weights {
		w.Close()
	}
}

// openOnGPU loads the models of a recording onto a device, which runs them all.
func (r *recording) openOnGPU(t *testing.T, d *gpumodel.Device, suppress []search.Token) *gpuModels {
	t.Helper()
	models := &gpuModels{t: t}
	for _, name := range r.models {
		file, err := marian.Open(sharedtest.Path(t, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		m, err := model.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		weights, err := d.Load(m, gpumodel.Options{Suppress: suppress})
		if err != nil {
			models.close()
			t.Fatal(err)
		}
		models.weights = append(models.weights, weights)
	}
	return models
}

// linesOnGPU is how many lines of each recording are translated on a GPU: few, since an emulated device is slow.
const linesOnGPU = 3

// elsewhere says why recordings are compared on the processor alone, in the words of docs/gpu.md.
var elsewhere = []struct {
	why  string
	that func(r *recording) bool
}{
	{"outputs of the processor's 8-bit products with a model's alphas", (*recording).quantised},
	{"outputs of the demonstration model, which has tests of its own", func(r *recording) bool { return strings.HasPrefix(r.output, student) }},
}

// The GPU gives what Marian gave for lines of each recording that it can run, other lines for each: translations of every family, beams,
// n-best lists, ensembles, scores and alignments. Its arithmetic rounds to 16 bits, so that a few lines are others, and numbers differ.
func TestRecordingsOnGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("an emulated device is slow")
	}
	driver, err := cuda.Open(emulated.Library(t, emulated.Unwatched, emulated.Sources(t)...))
	if err != nil {
		t.Fatal(err)
	}
	device, err := gpumodel.Open(driver, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	all, same, families := 0, 0, map[string]bool{}
	for i, r := range recordings(t) {
		t.Run(r.output, func(t *testing.T) {
			for _, e := range elsewhere {
				if e.that(&r) {
					t.Skip("not compared on GPUs: " + e.why)
				}
			}
			s := r.open(t)
			suppressed := []search.Token{s.text.Target.Unk()}
			if r.target != "" {
				suppressed = nil
			}
			models := r.openOnGPU(t, device, suppressed)
			defer models.close()
			s.gpu = models
			if r.target != "" {
				r.scoresOnGPU(t, s, i)
				return
			}
			same += r.sameOnGPU(t, s, i)
			all += linesOnGPU
			families[path.Base(path.Dir(r.output))] = true
		})
	}
	t.Logf("%d of %d lines are Marian's, of %d folders", same, all, len(families))
	if same*20 < all*19 || len(families) < 14 {
		t.Errorf("only %d of %d lines are Marian's, of %d folders", same, all, len(families))
	}
}

// What is not compared on GPUs is what docs/gpu.md says, and all recordings of every other kind are.
func TestElsewhereIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(sharedtest.Root(), "docs", "gpu.md"))
	if err != nil {
		t.Fatal(err)
	}
	const begins, ends = "Not compared on GPUs are ", "."
	_, list, _ := strings.Cut(strings.Join(strings.Fields(string(page)), " "), begins)
	list, _, found := strings.Cut(list, ends)
	if !found {
		t.Fatalf("docs/gpu.md does not say %q", begins)
	}
	var whys []string
	for _, e := range elsewhere {
		whys = append(whys, e.why)
		if all := recordings(t); !slices.ContainsFunc(all, func(r recording) bool { return e.that(&r) }) {
			t.Errorf("there are no %s", e.why)
		}
	}
	if want := strings.Join(whys, "; "); list != want {
		t.Errorf("docs/gpu.md says %q, want %q", list, want)
	}
}

// sameOnGPU translates lines from a number on, and says of how many the best translation is Marian's.
func (r *recording) sameOnGPU(t *testing.T, s *setup, number int) (same int) {
	t.Helper()
	want := r.group(t, sharedLines(t, r.output))
	inputs, numbers := shortLines(r.source(t)[:len(want)], number)
	for i, result := range s.translate(t, r, inputs, nil) {
		line := numbers[i]
		have := r.print(int64(line), &result)
		if len(have) != len(want[line]) {
			t.Errorf("line %d has %d hypotheses, want %d", line+1, len(have), len(want[line]))
		}
		if r.batched && sameButForTail(&result, want[line][0]) || slices.Equal(r.texts(have[:1]), r.texts(want[line][:1])) {
			same++
			continue
		}
		t.Logf("line %d is\n%s\nwant\n%s", line+1, have[0], want[line][0])
	}
	return same
}

// scoresOnGPU compares the scores of given translations of lines from a number on with those that marian-scorer gave them.
func (r *recording) scoresOnGPU(t *testing.T, s *setup, number int) {
	t.Helper()
	want, targets := sharedLines(t, r.output), sharedLines(t, r.target)
	_, numbers := shortLines(r.source(t), number)
	for i, score := range s.score(t, r, numbers) {
		line := numbers[i]
		pieces := len(s.text.Target.Encode(targets[line], nil)) + 1
		if expected := lastNumber(t, want[line]); math.Abs(score-expected) > 0.005*float64(pieces) {
			t.Errorf("line %d scores %v, but %v in Marian", line+1, score, expected)
		}
	}
}

// shortLines returns the first lines of few words from a number on, and their numbers.
func shortLines(lines []string, from int) (short []string, numbers []int) {
	for i := from; len(short) < linesOnGPU; i++ {
		line := lines[i%len(lines)]
		if n := len(strings.Fields(line)); n > 0 && n <= 8 {
			short, numbers = append(short, line), append(numbers, i%len(lines))
		}
	}
	return short, numbers
}

// texts leaves numbers that are scores or weights out of printed lines.
func (r *recording) texts(lines []string) []string {
	texts := slices.Clone(lines)
	for i, line := range texts {
		fields := strings.Split(line, " ||| ")
		if r.list {
			fields = fields[1:]
		}
		texts[i] = fields[0]
	}
	return texts
}
