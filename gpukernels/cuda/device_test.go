//go:build linux && (amd64 || arm64) && !nogpu

package cuda

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
)

//go:embed testdata/trial.ptx
var trial string

// library returns the driver that tests run on: what the environment names, a real one perhaps, or an emulated device.
func library(t testing.TB) string {
	if named := os.Getenv(emulated.LibraryVariable); named != "" {
		return named
	}
	return emulated.Library(t, emulated.Unwatched, "testdata/trial.cu")
}

// A rig is what a test works with.
type rig struct {
	t       testing.TB
	context *Context
	stream  *Stream
	module  *Module
}

func newRig(t testing.TB) *rig {
	t.Helper()
	d, err := Open(library(t))
	must(t, err)
	c, err := d.Context(0)
	must(t, err)
	release, err := c.Bind()
	must(t, err)
	r := &rig{t: t, context: c}
	r.stream, err = c.Stream()
	must(t, err)
	r.module, err = c.Load(trial)
	must(t, err)
	t.Cleanup(func() {
		must(t, r.stream.Close())
		must(t, r.module.Close())
		release()
		must(t, c.Close())
	})
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) kernel(name string) *Kernel {
	r.t.Helper()
	k, err := r.module.Kernel(name, 0)
	must(r.t, err)
	return k
}

// in returns x on the device until the test ends.
func in[T any](r *rig, x []T) Pointer {
	r.t.Helper()
	p, err := Alloc[T](r.context, len(x))
	must(r.t, err)
	r.t.Cleanup(func() { r.context.Free(p) })
	must(r.t, CopyIn(r.stream, p, x))
	return p
}

func out[T any](r *rig, p Pointer, n int) []T {
	r.t.Helper()
	x := make([]T, n)
	must(r.t, CopyOut(r.stream, x, p))
	return x
}

// set changes a setting of an emulated device, and skips the test on another one.
func (r *rig) set(name, value string) {
	r.t.Helper()
	set := emulated.Setting(r.t, library(r.t))
	if set == nil {
		r.t.Skip("for an emulated device only")
	}
	if code := set(name, value); code != 0 {
		r.t.Fatalf("setting %s=%s: %d", name, value, code)
	}
}

func numbers(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%97) - 48
	}
	return x
}

func launchAdd(k *Kernel, s *Stream, a, b, c Pointer, n int, factor float32) error {
	return k.Launch(s, Shape{X: (n + 127) / 128}, Shape{X: 128}, 0, Address(a), Address(b), Address(c), Int(n), Float(factor))
}

func TestAdd(t *testing.T) {
	r := newRig(t)
	k := r.kernel("add")
	for _, n := range []int{1, 127, 128, 129, 1000} {
		x, y := numbers(n), numbers(n + 13)[13:]
		c := in(r, make([]float32, n))
		must(t, launchAdd(k, r.stream, in(r, x), in(r, y), c, n, 0.5))
		for i, v := range out[float32](r, c, n) {
			if v != x[i]+y[i]*0.5 {
				t.Fatalf("n = %d: element %d is %v, want %v", n, i, v, x[i]+y[i]*0.5)
			}
		}
	}
}

func TestWarpsAndAtomics(t *testing.T) {
	r := newRig(t)
	x := make([]int32, 1000)
	for i := range x {
		x[i] = int32(i * 7 % 1000)
	}
	counts := in(r, make([]int32, 2))
	must(t, r.kernel("count").Launch(r.stream, Shape{X: 4}, Shape{X: 256}, 0, Address(in(r, x)), Int(len(x)), Address(counts)))
	if got := out[int32](r, counts, 2); got[0] != 500 || got[1] != 999 {
		t.Errorf("counted %d odd numbers up to %d, want 500 and 999", got[0], got[1])
	}
}

// The last block sees what all others have written before their fences.
func TestFences(t *testing.T) { addUp(t, 1) }

// addUp adds numbers up by many blocks, with fences between them or without.
func addUp(t *testing.T, fences int) {
	t.Helper()
	r := newRig(t)
	const blocks = 1000
	x, want := make([]int32, 32*blocks-5), int32(0)
	for i := range x {
		x[i] = int32(i % 101)
		want += x[i]
	}
	parts, ready, sum := in(r, make([]int32, blocks)), in(r, make([]int32, 1)), in(r, make([]int32, 1))
	must(t, r.kernel("add_up").Launch(r.stream, Shape{X: blocks}, Shape{X: 32}, 0, Address(in(r, x)), Int(len(x)), Address(parts), Address(ready),
		Address(sum), Int(fences)))
	if have := out[int32](r, sum, 1)[0]; have != want {
		t.Errorf("the sum is %d, want %d", have, want)
	}
}

// A graph of copies and kernels does its work anew with each launch.
func TestGraph(t *testing.T) {
	r := newRig(t)
	const n = 256
	k := r.kernel("add")
	host, err := AllocHost[float32](r.context, n)
	must(t, err)
	defer FreeHost(r.context, host)
	a, b, c := in(r, make([]float32, n)), in(r, make([]float32, n)), in(r, make([]float32, n))
	g, err := r.stream.Capture(func() error {
		steps := []error{CopyIn(r.stream, a, host), r.stream.Zero(b, 4*n)}
		for range 3 {
			steps = append(steps, launchAdd(k, r.stream, b, a, b, n, 1))
		}
		return errors.Join(append(steps, r.stream.Copy(c, b, 4*n))...)
	})
	must(t, err)
	defer g.Close()
	for round := range 3 {
		for i := range host {
			host[i] = float32(round*1000 + i)
		}
		must(t, g.Launch(r.stream))
		for i, v := range out[float32](r, c, n) {
			if v != 3*host[i] {
				t.Fatalf("round %d: element %d is %v, want %v", round, i, v, 3*host[i])
			}
		}
	}
}

// A thread whose capture could not be ended, since the device was lost, is not given to other goroutines: it would be refused what they ask for.
func TestLostInCapture(t *testing.T) {
	r := newRig(t)
	a, b := in(r, make([]float32, 8)), in(r, make([]float32, 8))
	r.set("fault", "") // or else the test is not for this device
	set := emulated.Setting(t, library(t))
	result := make(chan error)
	for range 3 {
		go func() {
			release, err := r.context.Bind()
			if err != nil {
				result <- err
				return
			}
			defer release()
			stream, err := r.context.Stream()
			if err != nil {
				result <- err
				return
			}
			_, err = stream.Capture(func() error {
				set("fault", "cuMemcpyDtoDAsync:1:214!")
				return stream.Copy(a, b, 32)
			})
			set("fault", "")
			set("repair", "")
			result <- err
		}()
		if err := <-result; !errors.Is(err, ErrLost) {
			t.Fatalf("got %v", err)
		}
	}
	const others = 64
	var together sync.WaitGroup
	together.Add(others) // so that each has a thread of its own
	for range others {
		go func() {
			release, err := r.context.Bind()
			together.Done()
			together.Wait()
			if err == nil {
				defer release()
				var p Pointer
				if p, err = Alloc[byte](r.context, 1); err == nil {
					err = r.context.Free(p)
				}
			}
			result <- err
		}()
	}
	for range others {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
}

func TestCaptureFails(t *testing.T) {
	r := newRig(t)
	failure := errors.New("failure")
	if _, err := r.stream.Capture(func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	_, err := r.stream.Capture(func() error { return r.stream.Synchronize() })
	if err == nil {
		t.Error("a wait was captured")
	}
	must(t, r.stream.Synchronize())
}

func TestEvents(t *testing.T) {
	r := newRig(t)
	const n = 1 << 12
	k := r.kernel("add")
	other, err := r.context.Stream()
	must(t, err)
	defer other.Close()
	var events [2]*Event
	for i := range events {
		events[i], err = r.context.Event()
		must(t, err)
		defer events[i].Close()
	}
	a, b := in(r, numbers(n)), in(r, make([]float32, n))
	must(t, r.stream.Record(events[0]))
	for range 4 {
		must(t, launchAdd(k, r.stream, b, a, b, n, 1))
	}
	must(t, r.stream.Record(events[1]))
	must(t, other.Wait(events[1]))
	got := make([]float32, n)
	must(t, CopyOut(other, got, b))
	for i, v := range numbers(n) {
		if got[i] != 4*v {
			t.Fatalf("element %d is %v, want %v", i, got[i], 4*v)
		}
	}
	done, err := events[1].Done()
	for ; err == nil && !done; done, err = events[1].Done() {
		time.Sleep(time.Millisecond)
	}
	must(t, err)
	must(t, events[1].Synchronize())
	if elapsed, err := events[1].Since(events[0]); err != nil || elapsed < 0 {
		t.Errorf("four launches took %v, %v", elapsed, err)
	}
}

// An event that was recorded in a stream tells, when that is closed, that its work is done; who waits for the event gets what the stream left.
func TestEventsOutliveStreams(t *testing.T) {
	r := newRig(t)
	const n = 1 << 12
	closed, err := r.context.Stream()
	must(t, err)
	var events [2]*Event
	for i := range events {
		events[i], err = r.context.Event()
		must(t, err)
		defer events[i].Close()
	}
	a, b := in(r, numbers(n)), in(r, make([]float32, n))
	must(t, r.stream.Synchronize())
	must(t, closed.Record(events[0]))
	must(t, launchAdd(r.kernel("add"), closed, b, a, b, n, 1))
	must(t, closed.Record(events[1]))
	must(t, r.stream.Wait(events[1]))
	must(t, closed.Synchronize())
	must(t, closed.Close())
	for range 4 { // which may stand where the closed one stood
		s, err := r.context.Stream()
		must(t, err)
		defer s.Close()
	}
	for i, e := range events {
		if done, err := e.Done(); err != nil || !done {
			t.Errorf("event %d of a closed stream is done: %v, %v", i, done, err)
		}
		must(t, e.Synchronize())
	}
	if elapsed, err := events[1].Since(events[0]); err != nil || elapsed < 0 {
		t.Errorf("the work took %v, %v", elapsed, err)
	}
	must(t, r.stream.Wait(events[0]))
	for i, v := range out[float32](r, b, n) {
		if want := numbers(n)[i]; v != want {
			t.Fatalf("element %d is %v, want %v", i, v, want)
		}
	}
}

// A device is given back as often as it was taken, and no more.
func TestGivenBackTwice(t *testing.T) {
	r := newRig(t)
	r.set("lazy", "1") // an emulated device
	d, err := Open(library(t))
	must(t, err)
	c, err := d.Context(0)
	must(t, err)
	must(t, c.Close())
	must(t, r.context.Close())
	if c.Close() == nil {
		t.Error("a device is given back that nobody has")
	}
	_, err = d.Context(0) // which the rig gives back
	must(t, err)
}

// Streams do nothing until somebody waits.
func TestStreamsAreLazy(t *testing.T) {
	r := newRig(t)
	r.set("lazy", "1")
	host, err := AllocHost[float32](r.context, 1)
	must(t, err)
	defer FreeHost(r.context, host)
	must(t, CopyOut(r.stream, host, in(r, []float32{7})))
	if host[0] == host[0] {
		t.Errorf("%v came without a wait", host[0])
	}
	must(t, r.stream.Synchronize())
	if host[0] != 7 {
		t.Errorf("got %v", host[0])
	}
}

// Memory that nobody wrote holds NaNs.
func TestMemoryBeginsAsNaNs(t *testing.T) {
	r := newRig(t)
	r.set("lazy", "1")
	p, err := Alloc[float32](r.context, 3)
	must(t, err)
	defer r.context.Free(p)
	for _, v := range out[float32](r, p, 3) {
		if !math.IsNaN(float64(v)) {
			t.Error(v)
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	r := newRig(t)
	free, total, err := r.context.Memory()
	must(t, err)
	if free > total || total == 0 {
		t.Errorf("%d of %d bytes are free", free, total)
	}
	if _, err := Alloc[byte](r.context, 1<<50); !errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrLost) {
		t.Errorf("allocating 1 PiB: %v", err)
	}
	if _, err := Alloc[uint64](r.context, 1<<62); err == nil {
		t.Error("allocated 2⁶⁵ bytes")
	}
	r.set("memory", "1M")
	defer r.set("memory", "1G")
	half, err := Alloc[byte](r.context, 1<<19)
	must(t, err)
	if _, err := Alloc[byte](r.context, 1<<19+1); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("allocating more than there is: %v", err)
	}
	must(t, r.context.Free(half))
	must(t, r.context.Free(0))
}

// Memory that is pinned is counted and limited, and an error says that it is this machine's memory of which there is no more.
func TestPinnedMemory(t *testing.T) {
	r := newRig(t)
	d := r.context.driver
	check := func(when string, now, highest, most uint64) {
		t.Helper()
		if a, b, c := d.Pinned(); a != now || b != highest || c != most {
			t.Errorf("%s: %d bytes, %d at a time, of %d; want %d, %d and %d", when, a, b, c, now, highest, most)
		}
	}
	some, err := AllocHost[uint32](r.context, 100)
	must(t, err)
	check("before there is a limit", 400, 400, 0)
	d.LimitPinned(1000)
	rest, err := AllocHost[byte](r.context, 600)
	must(t, err)
	var pinned *PinnedError
	if _, err := AllocHost[byte](r.context, 1); !errors.As(err, &pinned) || !errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrLost) ||
		!strings.Contains(err.Error(), "1 bytes more of this machine's memory would be kept from being paged out, beside 1000, and 1000 may be") {
		t.Errorf("more than the limit: %v", err)
	}
	if _, err := AllocHost[byte](r.context, 1<<60); !errors.As(err, &pinned) {
		t.Errorf("many times the limit: %v", err)
	}
	check("with all that there may be", 1000, 1000, 1000)
	must(t, FreeHost(r.context, rest))
	check("with some", 400, 1000, 1000)
	r.set("fault", "cuMemHostAlloc:1:2")
	_, err = AllocHost[byte](r.context, 8)
	if !errors.As(err, &pinned) || !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), "does not keep 8 bytes more of this machine's memory") ||
		!strings.Contains(err.Error(), "beside the 400") {
		t.Errorf("the driver refuses: %v", err)
	}
	r.set("fault", "cuMemHostAlloc:1:719")
	if _, err = AllocHost[byte](r.context, 8); errors.As(err, new(*PinnedError)) || !errors.Is(err, ErrLost) {
		t.Errorf("the device is lost: %v", err)
	}
	r.set("fault", "")
	must(t, FreeHost(r.context, some))
	check("in the end", 0, 1000, 1000)
}

// Copies from one device to another, which may reach each other's memory or not. What one device does with memory of the other is refused.
func TestAcross(t *testing.T) {
	r := newRig(t)
	r.set("devices", "2")
	defer r.set("devices", "1")
	d, err := Open(library(t)) // which looks at the devices again
	must(t, err)
	other, err := d.Context(1)
	must(t, err)
	const n = 100
	there := r.onOther(other, numbers(n))
	for _, peers := range []string{"0", "1", "1"} {
		r.set("peers", peers)
		must(t, r.context.Reach(other))
		here := in(r, make([]float32, n))
		must(t, r.stream.CopyAcross(Place{r.context, here}, Place{other, there}, 4*n))
		for i, v := range out[float32](r, here, n) {
			if v != numbers(n)[i] {
				t.Fatalf("element %d is %v, want %v", i, v, numbers(n)[i])
			}
		}
		if err := launchAdd(r.kernel("add"), r.stream, here, there, here, n, 1); err == nil {
			t.Error("a kernel was given memory of another device")
		}
	}
	if err := r.stream.CopyAcross(Place{r.context, there}, Place{other, there}, 4*n); err == nil {
		t.Error("the memory of one device was taken for that of another")
	}
}

// onOther returns x in the memory of another device, until the test ends.
func (r *rig) onOther(other *Context, x []float32) (p Pointer) {
	r.t.Helper()
	bound := func(work func() error) {
		failed := make(chan error)
		go func() {
			release, err := other.Bind()
			if err == nil {
				err = work()
				release()
			}
			failed <- err
		}()
		must(r.t, <-failed)
	}
	bound(func() (err error) {
		s, err := other.Stream()
		if err != nil {
			return err
		}
		if p, err = Alloc[float32](other, len(x)); err != nil {
			return err
		}
		return errors.Join(CopyIn(s, p, x), s.Close())
	})
	r.t.Cleanup(func() { bound(func() error { return errors.Join(other.Free(p), other.Close()) }) })
	return p
}

// Any number of goroutines may launch the same kernel, each on its own stream.
func TestGoroutines(t *testing.T) {
	r := newRig(t)
	const n = 300
	k := r.kernel("add")
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			release, err := r.context.Bind()
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			if err := addTen(r.context, k, float32(g), n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// addTen adds a number ten times, and compares.
func addTen(c *Context, k *Kernel, number float32, n int) error {
	s, err := c.Stream()
	if err != nil {
		return err
	}
	defer s.Close()
	x := make([]float32, n)
	for i := range x {
		x[i] = number
	}
	a, err := Alloc[float32](c, n)
	if err != nil {
		return err
	}
	defer c.Free(a)
	b, err := Alloc[float32](c, n)
	if err != nil {
		return err
	}
	defer c.Free(b)
	steps := []error{CopyIn(s, a, x), s.Zero(b, 4*n)}
	for range 10 {
		steps = append(steps, launchAdd(k, s, b, a, b, n, 1))
	}
	if err := errors.Join(append(steps, CopyOut(s, x, b))...); err != nil {
		return err
	}
	for i, v := range x {
		if v != 10*number {
			return fmt.Errorf("element %d is %v, want %v", i, v, 10*number)
		}
	}
	return nil
}

func TestUnboundThread(t *testing.T) {
	r := newRig(t)
	answer := make(chan error)
	go func() {
		runtime.LockOSThread() // ends the thread with the goroutine: it never had a context
		answer <- r.stream.Synchronize()
	}()
	if err := <-answer; !errors.Is(err, ErrUnbound) {
		t.Errorf("got %v", err)
	}
}

func TestInjectedErrors(t *testing.T) {
	r := newRig(t)
	r.set("fault", "cuMemAlloc:2:2,cuStreamSynchronize:1:214")
	defer r.set("fault", "")
	p, err := Alloc[byte](r.context, 1)
	must(t, err)
	defer r.context.Free(p)
	if _, err := Alloc[byte](r.context, 1); !errors.Is(err, ErrOutOfMemory) {
		t.Errorf("got %v", err)
	}
	err = r.stream.Synchronize()
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "CUDA_ERROR_ECC_UNCORRECTABLE") {
		t.Errorf("got %v", err)
	}
	must(t, r.stream.Synchronize())

	r.set("fault", "cuStreamSynchronize:1:719!")
	defer r.set("repair", "")
	for range 2 {
		if err := r.stream.Synchronize(); !errors.Is(err, ErrLost) {
			t.Errorf("a device that is lost: %v", err)
		}
	}
}

func TestArguments(t *testing.T) {
	r := newRig(t)
	k := r.kernel("count")
	for _, arguments := range [][]Argument{
		nil, {Address(0)}, {Address(0), Int(0), Address(0), Int(0)}, {Int(0), Int(0), Address(0)}, {Address(0), Float(0), Address(0)},
	} {
		if err := k.Launch(r.stream, Shape{}, Shape{X: 32}, 0, arguments...); !errors.Is(err, errArguments) {
			t.Errorf("%d arguments: %v", len(arguments), err)
		}
	}
	if _, err := r.module.Kernel("absent", 0); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("got %v", err)
	}
	wrong := r.kernel("wrong")
	if err := wrong.Launch(r.stream, Shape{}, Shape{X: 65}, 0, Address(0), Int(0), Int(0)); err == nil {
		t.Error("a block over its launch bounds was launched")
	}
	if err := wrong.Launch(r.stream, Shape{}, Shape{X: 64}, sharedForAll+1, Address(0), Int(0), Int(0)); err == nil {
		t.Error("a block got more shared memory than was asked for")
	}
}

func TestLaunchAllocatesNothing(t *testing.T) {
	r := newRig(t)
	k := r.kernel("add")
	a := in(r, numbers(32))
	b := in(r, numbers(32))
	must(t, launchAdd(k, r.stream, a, a, b, 32, 1))
	allocations := testing.AllocsPerRun(100, func() {
		if err := launchAdd(k, r.stream, a, a, b, 32, 1); err != nil {
			t.Error(err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations for each launch", allocations)
	}
}

func TestProperties(t *testing.T) {
	d, err := Open(library(t))
	must(t, err)
	p, err := d.Properties(0)
	must(t, err)
	if p.Name == "" || p.Major < 8 || p.Memory == 0 || p.Multiprocessors == 0 || p.SharedMemory < sharedForAll || p.Threads == 0 {
		t.Errorf("%+v", p)
	}
	if _, err := d.Properties(99); !errors.Is(err, ErrUnavailable) {
		t.Errorf("device 99: %v", err)
	}
	if _, err := d.Context(-1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("device -1: %v", err)
	}
}

// What drivers and devices that cannot be used are told apart by. Each runs in its own process, since a driver starts once.
func TestUnusable(t *testing.T) {
	if want := os.Getenv("UNUSABLE"); want != "" {
		_, err := start(t)
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("want %q, got %v", want, err)
		}
		return
	}
	at := library(t)
	for setting, want := range map[string]string{
		"SLUICE_EMULATED_VERSION=11040":    `^start .*too old.* CUDA 11\.4; CUDA 12\.2, .* 535`,
		"SLUICE_EMULATED_DEVICES=0":        `^start .*CUDA_ERROR_NO_DEVICE`,
		"SLUICE_EMULATED_CAPABILITY=75":    `^load kernels: .*CUDA_ERROR_NO_BINARY_FOR_GPU.*older than sm_80`,
		"SLUICE_EMULATED_FAULT=cuInit:1:3": `^start .*CUDA_ERROR_NOT_INITIALIZED`,
	} {
		output, err := emulated.Rerun(t, emulated.Plain(), at, "^TestUnusable$", setting, "UNUSABLE="+want)
		if err != nil {
			t.Errorf("%s: %v\n%s", setting, err, output)
		}
	}
}

// start does everything up to loaded kernels.
func start(t *testing.T) (*Module, error) {
	d, err := Open(library(t))
	if err != nil {
		return nil, err
	}
	c, err := d.Context(0)
	must(t, err)
	release, err := c.Bind()
	must(t, err)
	defer release()
	return c.Load(trial)
}

func TestNoDriver(t *testing.T) {
	_, err := Open("/nowhere/libcuda.so.1")
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "/nowhere/libcuda.so.1") {
		t.Errorf("got %v", err)
	}
	if _, err := Open("libc.so.6"); !errors.Is(err, ErrOutdated) || !strings.Contains(err.Error(), "cuInit") {
		t.Errorf("a library without the driver's functions: %v", err)
	}
}
