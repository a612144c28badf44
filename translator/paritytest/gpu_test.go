//go:build linux && (amd64 || arm64) && !nogpu

package paritytest

import (
	"errors"
	"path"
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

// openOnGPU loads the models of a recording onto a device. The error is gpumodel.ErrUnsupported for those that only the processor runs.
func (r *recording) openOnGPU(t *testing.T, d *gpumodel.Device, suppress []search.Token) (*gpuModels, error) {
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
			return nil, err
		}
		models.weights = append(models.weights, weights)
	}
	return models, nil
}

// The GPU gives what Marian gave for a line of each recording that it can run, another line for each, since an emulated device is slow:
// translations of every family, beams, n-best lists, ensembles, scores and alignments. Its arithmetic rounds to 16 bits, so that a few
// lines are others, and numbers differ.
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
	for _, r := range recordings(t) {
		if r.target != "" || r.quantised() || strings.HasPrefix(r.output, student) {
			continue // the student has a test of its own, in package gpumodel
		}
		s := r.open(t)
		models, err := r.openOnGPU(t, device, []search.Token{s.text.Target.Unk()})
		if errors.Is(err, gpumodel.ErrUnsupported) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s.gpu = models
		if r.sameOnGPU(t, s, all) {
			same++
		}
		all++
		families[path.Base(path.Dir(r.output))] = true
		models.close()
	}
	t.Logf("%d of %d lines are Marian's, of %d folders", same, all, len(families))
	if same*10 < all*9 || len(families) < 14 {
		t.Errorf("only %d of %d lines are Marian's, of %d folders", same, all, len(families))
	}
}

// sameOnGPU translates a line that number chooses, and says whether the best translation is Marian's.
func (r *recording) sameOnGPU(t *testing.T, s *setup, number int) bool {
	t.Helper()
	want := r.group(t, sharedLines(t, r.output))
	input, i := shortLine(r.source(t)[:len(want)], number)
	result := s.translate(t, r, []string{input}, nil)[0]
	have := r.print(int64(i), &result)
	if len(have) != len(want[i]) {
		t.Errorf("%s: line %d has %d hypotheses, want %d", r.output, i+1, len(have), len(want[i]))
	}
	if r.batched && sameButForTail(&result, want[i][0]) || slices.Equal(r.texts(have[:1]), r.texts(want[i][:1])) {
		return true
	}
	t.Logf("%s: line %d is\n%s\nwant\n%s", r.output, i+1, have[0], want[i][0])
	return false
}

// shortLine returns the first line of few words from a number on.
func shortLine(lines []string, number int) (string, int) {
	for i := number; ; i++ {
		line := lines[i%len(lines)]
		if n := len(strings.Fields(line)); n > 0 && n <= 8 {
			return line, i % len(lines)
		}
	}
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
