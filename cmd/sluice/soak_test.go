//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// A torment says how often what is killed or frozen in a soak.
type torment struct {
	workers int // SIGKILL of a worker
	frozen  int // SIGSTOP of a worker past its session, then SIGCONT
	brokers int // SIGKILL of a broker
	records int // in each of four partitions
}

// TestSoak runs three workers from topic to topic on three real brokers and kills all of them again and again. It takes
// minutes: SLUICE_SOAK=1 asks for it.
func TestSoak(t *testing.T) {
	if os.Getenv("SLUICE_SOAK") == "" {
		t.Skip("long: SLUICE_SOAK=1 runs it")
	}
	much := torment{workers: 100, frozen: 6, brokers: 10, records: 60_000}
	soak(t, "sluice-echo", much, func(sink *topic) { checkPlace(t, sink, pairLanes, much.records) })
}

// TestSoakEngine is TestSoak with translations: whatever happened, they are those of "sluice translate".
func TestSoakEngine(t *testing.T) {
	if os.Getenv("SLUICE_SOAK") == "" {
		t.Skip("long: SLUICE_SOAK=1 runs it")
	}
	much := torment{workers: 25, frozen: 2, brokers: 4, records: 4000}
	soak(t, "sluice", much, func(sink *topic) {
		for lane := range pairLanes {
			want := translated(t, laneFile(lane, much.records))
			if got := kafkatest.Values(sink.cluster.Committed(t, sink.name, lane)); !slices.Equal(got, want) {
				t.Errorf("lane %d: %s", lane, firstDifference(got, want))
			}
		}
		if letters := sink.letters(t); len(letters) > 0 {
			t.Errorf("%d dead letters, the first of them %+v", len(letters), letters[0])
		}
	})
}

// translated translates lines from file to file.
func translated(t *testing.T, lines []byte) []string {
	t.Helper()
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(in, lines, 0o666); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(sharedtest.Root(), "models", "ende-tiny")
	command := exec.Command("sluice", "translate", "-m", model, "-i", in, "-o", out)
	if message, err := command.CombinedOutput(); err != nil && command.ProcessState.ExitCode() != exitFlagged {
		t.Fatalf("%v: %s", err, message)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

// soak runs a job, torments it, and looks at what came out.
func soak(t *testing.T, program string, much torment, check func(sink *topic)) {
	real := kafkatest.StartReal(t, 3)
	source, sink := &topic{real.Cluster, "soak.in"}, &topic{real.Cluster, "soak.out"}
	for _, p := range []*topic{source, sink} {
		p.create(t, pairLanes)
	}
	path := filepath.Join(t.TempDir(), "job.yml")
	text := fmt.Sprintf("name: soak\nsource: %s\nsink: %s\ndead-letters: %s\ntranslate: {models: %s}\ncommit-every: 50ms\n",
		source.settings(t, true), sink.settings(t, false), sink.deadLetters(), filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(path + ".log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// Workers must not come to the end before the torment has.
	fill := func(from, to int) {
		for lane := range pairLanes {
			texts := make([]string, 0, to-from)
			for i := from; i < to; i++ {
				texts = append(texts, recordText(lane, i))
			}
			real.Write(t, kafkatest.Texts(source.name, lane, texts...)...)
		}
	}
	first := much.records / 10
	fill(0, first)
	over := make(chan struct{})
	var writing, crew sync.WaitGroup
	writing.Go(func() {
		step := max(1, much.records/100)
		for from := first; from < much.records; from += step {
			fill(from, min(from+step, much.records))
			time.Sleep(time.Second)
		}
	})
	workers := make([]*worker, 3)
	for i := range workers {
		workers[i] = &worker{program: program, path: path, log: log, over: over}
		crew.Go(func() { workers[i].keepRunning(t) })
	}
	tormentThem(t, real, workers, much)
	writing.Wait()
	close(over) // from now on a worker that comes to the end is done
	crew.Wait()
	check(sink)
	if t.Failed() {
		if content, err := os.ReadFile(log.Name()); err == nil {
			t.Logf("what the workers said last:\n%s", content[max(0, len(content)-20_000):])
		}
	}
}

// A worker is a process that is started again whenever it ends.
type worker struct {
	program, path string
	log           io.Writer
	over          chan struct{} // closed when it may end

	mutex   sync.Mutex
	process *os.Process
}

func (w *worker) keepRunning(t *testing.T) {
	for {
		last := false
		select {
		case <-w.over:
			last = true
		default:
		}
		command := exec.Command(w.program, "run", w.path)
		command.Stderr = w.log
		if err := command.Start(); err != nil {
			t.Error(err)
			return
		}
		w.mutex.Lock()
		w.process = command.Process
		w.mutex.Unlock()
		err := command.Wait()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()
		if last && err == nil {
			return
		}
		if err != nil && !killed {
			t.Errorf("a worker failed by itself: %v", err)
			return
		}
	}
}

func (w *worker) signal(s syscall.Signal) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.process != nil {
		_ = w.process.Signal(s) // it may have ended
	}
}

// tormentThem does everything as often as it is to be done, in an order and at times that are new in every run.
func tormentThem(t *testing.T, real *kafkatest.Real, workers []*worker, much torment) {
	var deeds []func()
	for range much.workers {
		deeds = append(deeds, func() { workers[rand.IntN(len(workers))].signal(syscall.SIGKILL) })
	}
	for range much.frozen {
		deeds = append(deeds, func() {
			w := workers[rand.IntN(len(workers))]
			w.signal(syscall.SIGSTOP)
			time.AfterFunc(9*time.Second, func() { w.signal(syscall.SIGCONT) }) // its session is 6 s
		})
	}
	for range much.brokers {
		deeds = append(deeds, func() {
			node := 1 + rand.IntN(3)
			real.Kill(t, node, "KILL")
			time.Sleep(time.Duration(rand.Int64N(int64(2 * time.Second))))
			real.Up(t, node)
		})
	}
	rand.Shuffle(len(deeds), func(i, j int) { deeds[i], deeds[j] = deeds[j], deeds[i] })
	for i, deed := range deeds {
		time.Sleep(time.Duration(rand.Int64N(int64(3 * time.Second))))
		deed()
		if i%20 == 19 {
			t.Log(strconv.Itoa(i+1) + " of " + strconv.Itoa(len(deeds)))
		}
	}
	time.Sleep(10 * time.Second) // for the last frozen one
}
