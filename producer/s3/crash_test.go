package s3

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
)

// shapes are the ways in which a job's outputs come about, each with steps of its own.
var shapes = []struct {
	name  string
	job   copyJob
	lines []int
}{
	{"small objects", copyJob{Letters: true}, []int{300, 0, 10}},
	{"objects of parts", copyJob{PartSize: 50_000, Letters: true}, []int{3000}},
	{"ranges", copyJob{PartSize: 30_000, Split: 60_000, Letters: true}, []int{3000, 5}},
	{"chain", copyJob{Chain: ".gz", Letters: true}, []int{2000, 100}},
	{"chain of large objects", copyJob{Chain: ".txt", Age: time.Hour}, []int{2500}},
}

// steps returns the points between events that a job passes, in order.
func steps(t *testing.T, c copyJob) []string {
	t.Helper()
	var mutex sync.Mutex
	var passed []string
	c.step = func(name string) {
		mutex.Lock()
		defer mutex.Unlock()
		passed = append(passed, name)
	}
	if err := c.run(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	return passed
}

// A process that is killed between any two events must leave a state from which the next one comes to the same.
func TestAJobThatIsKilledBetweenAnyTwoEventsIsDoneOnce(t *testing.T) {
	store := s3test.Fake(t)
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			undisturbed := newWorld(t, store, s.job.Letters, s.lines...)
			c := s.job
			c.Endpoint, c.Bucket = store.Endpoint, undisturbed.bucket
			passed := steps(t, c)
			undisturbed.check(t, &c)
			seen := map[string]int{}
			for i, name := range passed {
				seen[name]++
				if seen[name] > 2 || testing.Short() && (seen[name] > 1 || i%3 > 0) {
					continue // a third time is like the second
				}
				killAndGoOn(t, store, s.job, s.lines, fmt.Sprintf("%s:%d", name, seen[name]), 0)
			}
			t.Logf("%d different points of %d", len(seen), len(passed))
		})
	}
}

// The same against a real server, with parts of the size that it asks for.
func TestAJobOnARealServerThatIsKilledIsDoneOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("writes some hundred megabytes")
	}
	store := s3test.Gateway(t)
	for _, s := range []struct {
		name  string
		job   copyJob
		lines []int
	}{
		{"objects of parts", copyJob{PartSize: s3client.MinPart, Letters: true}, []int{110_000}},
		{"ranges", copyJob{PartSize: s3client.MinPart, Split: 5_500_000, Letters: true}, []int{110_000}},
		{"chain", copyJob{Chain: ".gz", Letters: true}, []int{2000}},
	} {
		t.Run(s.name, func(t *testing.T) {
			undisturbed := newWorld(t, store, s.job.Letters, s.lines...)
			c := s.job
			c.Endpoint, c.Bucket = store.Endpoint, undisturbed.bucket
			seen := map[string]bool{}
			for _, name := range steps(t, c) {
				if !seen[name] {
					seen[name] = true
					killAndGoOn(t, store, s.job, s.lines, name+":1", arrival)
				}
			}
			undisturbed.check(t, &c)
			t.Logf("%d points", len(seen))
		})
	}
}

// arrival is how long a part that a killed process has sent may still be on its way. One that arrives after its upload was
// dropped can bring the upload back, on Amazon S3 as well.
const arrival = 500 * time.Millisecond

// killAndGoOn kills a process at an event, waits for what it has sent, and lets the next one finish.
func killAndGoOn(t *testing.T, store *s3test.Store, c copyJob, lines []int, crash string, arrival time.Duration) {
	t.Helper()
	w := newWorld(t, store, c.Letters, lines...)
	c.Endpoint, c.Bucket, c.Crash = store.Endpoint, w.bucket, crash
	command, messages := c.process(t)
	if err := command.Run(); err == nil && strings.HasSuffix(crash, ":1") { // how often commits come is a matter of time
		t.Errorf("%s: the process was not killed: %s", crash, messages)
	}
	time.Sleep(arrival)
	c.Crash = ""
	for range 2 { // the second has nothing to do
		if err := c.run(withTimeout(t)); err != nil {
			t.Errorf("killed at %s: %v", crash, err)
		}
	}
	w.check(t, &c)
	if t.Failed() {
		t.Fatalf("killed at %s", crash)
	}
}

// Processes are killed at random times, against a real server.
func TestJobsThatAreKilledAtRandomTimes(t *testing.T) {
	store := s3test.Gateway(t)
	random := rand.New(rand.NewPCG(7, 7))
	kills := 25
	if testing.Short() {
		kills = 2
	}
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, store, s.job.Letters, s.lines...)
			c := s.job
			c.Endpoint, c.Bucket = store.Endpoint, w.bucket
			c.PartSize = 0 // a real server wants parts to have some size
			killed := 0
			for range kills {
				command, messages := c.process(t)
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				timer := time.AfterFunc(time.Duration(random.IntN(250))*time.Millisecond, func() { _ = command.Process.Kill() })
				err := command.Wait()
				if !timer.Stop() {
					killed++
				} else if err != nil {
					t.Fatalf("%v: %s", err, messages)
				}
			}
			if err := c.run(withTimeout(t)); err != nil {
				t.Fatal(err)
			}
			w.check(t, &c)
			t.Logf("%d of %d were killed before they were done", killed, kills)
		})
	}
}

// Workers that do not know of each other do the same work at the same time.
func TestOverlappingWorkersDoEverythingOnce(t *testing.T) {
	store := s3test.Fake(t)
	for _, s := range shapes {
		if s.job.Chain != "" {
			continue // of a chain the workers fence each other
		}
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, store, s.job.Letters, s.lines...)
			c := s.job
			c.Endpoint, c.Bucket = store.Endpoint, w.bucket
			var workers sync.WaitGroup
			for i := range 4 {
				workers.Go(func() {
					worker := c
					time.Sleep(time.Duration(i) * 20 * time.Millisecond)
					if err := worker.runBeside(withTimeout(t)); err != nil {
						t.Errorf("worker %d: %v", i, err)
					}
				})
			}
			workers.Wait()
			if err := c.run(withTimeout(t)); err != nil { // tidies up after answers that came late
				t.Error(err)
			}
			w.check(t, &c)
		})
	}
}
