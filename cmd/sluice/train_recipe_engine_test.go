package main

import (
	"runtime"
	"testing"

	trainrecipe "github.com/sluice-mt/sluice/train/recipe"
)

// Threads of the environment do not keep a step from GPUs, and are those of the processor where it does what these cannot.
func TestThreadsOfSteps(t *testing.T) {
	for _, c := range []struct {
		threads                string
		devices                []string
		wantThreads, wantCores int
		wantScorers            int
	}{
		{"0", nil, 0, runtime.GOMAXPROCS(0), runtime.GOMAXPROCS(0)}, {"3", nil, 3, runtime.GOMAXPROCS(0), 3},
		{"0", []string{"gpu:0"}, 0, runtime.GOMAXPROCS(0), runtime.GOMAXPROCS(0)}, {"3", []string{"gpu:0"}, 0, 3, 3},
	} {
		t.Setenv(environmentName("cpu-threads"), c.threads)
		step, cores, err := newStepTranslation(trainrecipe.Translation{}, c.devices)
		if err != nil {
			t.Fatal(err)
		}
		if step.batch.threads != c.wantThreads || cores != c.wantCores {
			t.Errorf("%+v: %d threads, %d cores", c, step.batch.threads, cores)
		}
		rescoring := stepRescoring{devices: c.devices}
		scorers, err := rescoring.scorers()
		if err != nil {
			t.Fatal(err)
		}
		if scorers.threads != c.wantScorers || rescoring.cores != c.wantScorers {
			t.Errorf("%+v: %d threads score, and %d tune", c, scorers.threads, rescoring.cores)
		}
		if scorers.device.wanted() != (c.devices != nil) || scorers.maxLength != stepLength {
			t.Errorf("%+v: GPUs score: %v, of %d pieces", c, scorers.device.wanted(), scorers.maxLength)
		}
		if choice, err := step.model.chooseDevices(step.batch.threads); err != nil || choice.wanted() != (c.devices != nil) {
			t.Errorf("%+v: GPUs are chosen: %v, %v", c, choice.wanted(), err)
		}
	}
}
