//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// setEmulated changes a setting of an emulated device, until the test ends.
func setEmulated(t *testing.T, name, value, before string) {
	t.Helper()
	set := emulated.Setting(t, libraryFor(t, gpukernels.BFloat16))
	if set == nil {
		t.Skip("for an emulated device only")
	}
	if code := set(name, value); code != 0 {
		t.Fatalf("setting %s=%s: %d", name, value, code)
	}
	t.Cleanup(func() { set(name, before) })
}

// Two devices, at the same time, give, bit for bit, the sum of what one gives for both mini-batches, and both have the same parameters after a
// step. A device without a mini-batch adds nothing.
func TestSeveral(t *testing.T) {
	setEmulated(t, "devices", "2", "1")
	n := newNetwork(t, student(""))
	one := openTrainer(t, n, initial(n), gpukernels.BFloat16)
	two, err := open(openDriver(t, gpukernels.BFloat16), []int{0, 1}, n, initial(n), gpukernels.BFloat16)
	must(t, err)
	t.Cleanup(func() { must(t, two.Close()) })
	if two.Workers() != 2 {
		t.Fatalf("%d workers", two.Workers())
	}
	if w := two.workers[1]; two.workers[0].means == 0 || w.means != 0 || w.squares != 0 || w.averages != 0 {
		t.Error("not the first device alone has what the optimiser keeps")
	}
	if squares, err := two.Squares(1); err != nil || squares != 0 {
		t.Errorf("before anything, the squares are %v, %v", squares, err)
	}
	batches := []*network.Batch{randomBatch(1, [2]int{5, 4}, [2]int{2, 7}), randomBatch(2, [2]int{3, 6})}
	sum := make([]float32, n.Size())
	var all sync.WaitGroup
	for i, b := range batches {
		all.Go(func() {
			if _, err := two.Train(i, b, everything, uint64(i)); err != nil {
				t.Error(err)
			}
		})
		_, err := one.Train(0, b, everything, uint64(i))
		must(t, err)
		part, err := gradientOf(one)
		must(t, err)
		must(t, one.Clear())
		for j, g := range part {
			sum[j] += g
		}
	}
	all.Wait()
	config := optimiser.Config{Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 0.003, ClipNorm: 1, Smoothing: 0.01}
	o := optimiser.New(config, make([]float32, n.Size()))
	for update := range 2 {
		square, err := two.Squares(0.1)
		must(t, err)
		have, err := gradientOf(two)
		must(t, err)
		if !slices.Equal(have, sum) {
			t.Fatalf("update %d: the sum of the gradients is another", update)
		}
		move, _, err := o.Decide(square)
		must(t, err)
		must(t, two.Move(move, 0.1))
		if !slices.Equal(valuesOf(t, two.workers[0]), valuesOf(t, two.workers[1])) || !slices.Equal(storedOf(t, two.workers[0]), storedOf(t, two.workers[1])) {
			t.Fatalf("update %d: the devices have different parameters", update)
		}
		state := initial(n)
		must(t, two.Fetch(state))
		if slices.Equal(state.Values, initial(n).Values) || !slices.Equal(state.Values, valuesOf(t, two.workers[0])) {
			t.Errorf("update %d: the parameters that were fetched are not those of the device", update)
		}
		_, err = two.Train(0, batches[0], everything, 7) // and nothing on the other
		must(t, err)
		alone, err := gradientOf(two)
		must(t, err)
		copy(sum, alone)
	}
}

func valuesOf(t *testing.T, w *worker) []float32 { return numbersOf[float32](t, w, w.values) }

func storedOf(t *testing.T, w *worker) []uint16 { return numbersOf[uint16](t, w, w.stored) }

func numbersOf[T any](t *testing.T, w *worker, at cuda.Pointer) []T {
	t.Helper()
	list := make([]T, w.n)
	must(t, w.bound(func() error { return cuda.CopyOut(w.stream, list, at) }))
	return list
}

// What a mini-batch takes is what was told: more pieces take more, and no mini-batch grows the memory that was reserved for it.
func TestMemory(t *testing.T) {
	n := newNetwork(t, student(""))
	gpu := openTrainer(t, n, initial(n), gpukernels.BFloat16)
	const room = 4 << 20
	must(t, gpu.Reserve(room))
	before := 0
	for _, pairs := range []int{1, 2, 4} {
		_, err := gpu.Train(0, randomBatch(1, slices.Repeat([][2]int{{8, 8}}, pairs)...), everything, 1)
		must(t, err)
		growing, fixed := gpu.Memory(room)
		tape := &gpu.workers[0].tape
		if growing <= before || tape.used > growing+fixed || growing+fixed > tape.used+tape.used/2 {
			t.Errorf("%d pairs take %d bytes, and %d in any case; want about the %d in use, and more than %d", pairs, growing, fixed, tape.used, before)
		}
		if len(tape.extra) > 0 || tape.size != room {
			t.Errorf("%d bytes were reserved, %d are, and %d pieces more", room, tape.size, len(tape.extra))
		}
		before = growing
	}
	if err := gpu.Reserve(1 << 40); err == nil {
		t.Error("a tebibyte was reserved")
	}
	_, err := gpu.Train(0, randomBatch(1, [2]int{3, 3}), everything, 1)
	must(t, err)
}

// libraryFor returns the driver's library that the environment names, or that of an emulated device with the kernels for a type.
func libraryFor(t testing.TB, stored gpukernels.Storage) string {
	t.Helper()
	if named := os.Getenv(emulated.LibraryVariable); named != "" {
		return named
	}
	return emulatedFor(t, stored, emulated.Unwatched)
}

// emulatedFor builds an emulated device with the kernels for a type.
func emulatedFor(t testing.TB, stored gpukernels.Storage, s emulated.Sanitizer) string {
	t.Helper()
	if stored == gpukernels.BFloat16 {
		return emulated.LibraryOfBFloat16(t, s, emulated.Sources(t)...)
	}
	return emulated.Library(t, s, emulated.Sources(t)...)
}

// A device with too little memory for the parameters, or for those that losses are of beside them, says so, and nothing is left on it.
func TestNoRoom(t *testing.T) {
	setEmulated(t, "memory", "4M", "1G")
	n := newNetwork(t, student(""))
	state := initial(n)
	driver := openDriver(t, gpukernels.BFloat16)
	context, err := driver.Context(0)
	must(t, err)
	defer func() { must(t, context.Close()) }()
	bound := func(work func() error) {
		t.Helper()
		release, err := context.Bind()
		must(t, err)
		defer release()
		must(t, work())
	}
	free := func() (free uint64) {
		bound(func() (err error) {
			free, _, err = context.Memory()
			return err
		})
		return free
	}
	// beside calls work with so much memory left.
	beside := func(left int, work func()) {
		var taken cuda.Pointer
		most := int(free())
		bound(func() (err error) {
			taken, err = cuda.Alloc[byte](context, most-left)
			return err
		})
		work()
		bound(func() error { return context.Free(taken) })
	}
	before := free()
	beside(16*n.Size(), func() { // less than five vectors of 4 bytes, and one of 2
		if _, err := open(driver, []int{0}, n, state, gpukernels.BFloat16); !errors.Is(err, network.ErrNoRoom) {
			t.Errorf("%v", err)
		}
	})
	if after := free(); after != before {
		t.Errorf("%d bytes are free, before it were %d", after, before)
	}
	trainer := openTrainer(t, n, state, gpukernels.BFloat16)
	beside(3*n.Size(), func() {
		if err := trainer.Put(optimiser.State{}, state.Values); !errors.Is(err, network.ErrNoRoom) {
			t.Errorf("%v", err)
		}
	})
	must(t, trainer.Put(optimiser.State{}, state.Values))
}
