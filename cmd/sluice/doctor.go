package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/jobfile"
)

// A check is one thing that "sluice doctor" has looked at.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn, fail, or skip for what cannot be looked at
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // what to change
	code   int    // the exit code of a failure
}

// An examination is one run of "sluice doctor".
type examination struct {
	Checks  []check  `json:"checks"`
	OK      bool     `json:"ok"` // nothing has failed; there may be warnings
	Request *request `json:"request,omitempty"`

	resident int64 // bytes of the model and its engine, as they were translating; 0 without a model
	records  int64 // bytes that the job keeps in flight
	lanes    int64 // bytes of the buffers of its lanes
}

// A request is what a scheduler should be asked for.
type request struct {
	Cores  int   `json:"cores"`
	Memory int64 `json:"memory_mib"` // limit of a container
	Heap   int64 `json:"gomemlimit_mib"`
}

func (e *examination) ok(name, format string, args ...any) {
	e.Checks = append(e.Checks, check{Name: name, Status: "ok", Found: fmt.Sprintf(format, args...)})
}

func (e *examination) skip(name, format string, args ...any) {
	e.Checks = append(e.Checks, check{Name: name, Status: "skip", Found: fmt.Sprintf(format, args...)})
}

func (e *examination) warn(name, found, advice string) {
	e.Checks = append(e.Checks, check{Name: name, Status: "warn", Found: found, Advice: advice})
}

// fail notes what keeps the job from running. code is the exit code that it would end with.
func (e *examination) fail(code int, name, found, advice string) {
	e.Checks = append(e.Checks, check{Name: name, Status: "fail", Found: found, Advice: advice, code: code})
}

func newDoctorCommand() *cobra.Command {
	var model string
	var devices []string
	var asJSON bool
	command := &cobra.Command{
		Use:   "doctor [flags] [JOB.yml]",
		Short: "Check machine, model and job, and say what to change",
		Long: `Check whether this machine, a model and a job are fit to run, and say what to change. Without arguments the
machine is looked at: processor, cores, memory, open files, GPUs. With --models the model is read and translates a text, with
--devices on GPUs. With a job, its model and both of its ends are tried as well: topics and permissions of Kafka, buckets and
conditional writes of S3, files and folders. Nothing of the job is read or written for good: no partition is taken from a
worker, and objects that are written for a trial are removed.

The exit code is 0 if nothing failed, and otherwise that with which sluice run would end; warnings do not count.`,
		Example: `  sluice doctor
  sluice doctor --models models/ende-tiny
  sluice doctor --models models/ende-tiny --devices 0
  sluice doctor --json reviews.yml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			e := &examination{Checks: []check{}}
			if err := e.examine(command.Context(), arguments, model, devices); err != nil {
				return err
			}
			return e.report(command.OutOrStdout(), asJSON)
		},
	}
	command.Flags().StringVarP(&model, "models", "m", "", "a model: `FILE` or folder")
	command.Flags().StringArrayVarP(&devices, "devices", "d", nil, "let the model of --models translate on these `GPUS`, and tell how: numbers beginning with 0, all, auto; see docs/gpu.md")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func (e *examination) examine(ctx context.Context, arguments []string, model string, devices []string) error {
	var j *streamingJob
	var options *jobOptions
	var err error
	switch {
	case len(arguments) > 0 && model != "":
		return usageErrorf("the job names its model: leave out --models")
	case model == "" && len(devices) > 0:
		return usageErrorf("--devices is for the model of --models; a job names its devices under translate")
	case len(arguments) > 0:
		j = &streamingJob{path: arguments[0], start: time.Now(), logger: slog.New(slog.DiscardHandler)}
		defer j.close()
		if j.job, options, err = readJob(j.path); err != nil {
			return err
		}
		e.ok("job file", "%s: %s", j.path, j.job.Name)
	case model != "":
		translate := []jobfile.Option{{Name: "models", Values: []string{model}}}
		if len(devices) > 0 {
			translate = append(translate, jobfile.Option{Name: "devices", Values: devices})
		}
		if options, err = newJobOptions(&jobfile.Job{Shard: "auto", Translate: translate}); err != nil {
			return err
		}
	}
	e.machine()
	if options != nil {
		e.model(ctx, options)
	}
	if j != nil {
		e.records = int64(j.job.Memory)
		if e.records == 0 {
			e.records = 64 << 20
		}
		e.source(ctx, j)
		e.sink(ctx, j)
	}
	e.memory(rootOfSystem, memoryGoal())
	return nil
}

// report prints what was found, and returns an error of the kind of the first failure.
func (e *examination) report(out io.Writer, asJSON bool) error {
	var failed []check
	for _, c := range e.Checks {
		if c.Status == "fail" {
			failed = append(failed, c)
		}
	}
	e.OK = len(failed) == 0
	if e.resident > 0 {
		heap := (e.resident + e.records + e.lanes) >> 20
		e.Request = &request{Cores: runtime.GOMAXPROCS(0), Heap: heap, Memory: heap * 5 / 4}
	}
	var err error
	if asJSON {
		err = writeJSON(out, e)
	} else {
		err = writeOutput(out, e.text())
	}
	if err != nil || e.OK {
		return err
	}
	err = fmt.Errorf("%d of %d checks failed", len(failed), len(e.Checks))
	switch failed[0].code {
	case exitUsage:
		return usageError{err}
	case exitInput:
		return inputError{err}
	case exitModel:
		return modelError{err}
	case exitOutput:
		return outputError{err}
	}
	return err
}

func (e *examination) text() string {
	var b strings.Builder
	for _, c := range e.Checks {
		fmt.Fprintf(&b, "%-5s %-16s %s\n", c.Status, c.Name, strings.ReplaceAll(c.Found, "\n", " "))
		if c.Advice != "" {
			fmt.Fprintf(&b, "%22s -> %s\n", "", c.Advice)
		}
	}
	if r := e.Request; r != nil {
		fmt.Fprintf(&b, "\nask for           cores: %d, memory: %d MiB, with GOMEMLIMIT=%dMiB\n", r.Cores, r.Memory, r.Heap)
	}
	return b.String()
}

// reasonOf is an error in one line.
func reasonOf(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// trialPatience is how long one look at a broker or a store may take.
const trialPatience = 20 * time.Second

// within looks at something for a bounded time.
func within(ctx context.Context, look func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, trialPatience)
	defer cancel()
	err := look(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w", trialPatience, err)
	}
	return err
}
