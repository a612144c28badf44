package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/train/handover"
	trainrecipe "github.com/sluice-mt/sluice/train/recipe"
)

// elsewhereFlags say where the translations of a recipe are handed over to other machines.
type elsewhereFlags struct {
	place string
	lines int
	poll  time.Duration
}

func (f *elsewhereFlags) group() flagGroup {
	group := newGroup("Translating elsewhere")
	group.flags.StringVar(&f.place, "hand-over", "",
		"s3://BUCKET/PREFIX/: translations are made by workers (sluice train recipe work), which take them from there")
	group.flags.IntVar(&f.lines, "hand-over-lines", 50_000, "lines of an object, which is what a worker takes at a time")
	group.flags.DurationVar(&f.poll, "hand-over-poll", 10*time.Second, "time between two looks at what workers have done")
	return group
}

// maxHandOverLines bounds what is in memory at once.
const maxHandOverLines = 10_000_000

// A handingEngine leaves translations to other machines, but for those whose speed on this one is wanted.
type handingEngine struct {
	recipeEngine
	store *handover.Store
}

// Translate translates a file.
func (e handingEngine) Translate(ctx context.Context, task trainrecipe.Translation) (trainrecipe.Throughput, error) {
	if task.Measured {
		return e.recipeEngine.Translate(ctx, task)
	}
	speed, err := e.store.Translate(ctx, task)
	var failed *s3client.Error
	if errors.As(err, &failed) && !errors.Is(err, trainrecipe.ErrInterrupted) {
		err = outputError{fmt.Errorf("--hand-over: %w", err)}
	}
	return speed, err
}

// engine returns the engine of a recipe, made of that of this machine, and what is to be called when it is not needed any more.
func (f *elsewhereFlags) engine(ctx context.Context, here recipeEngine, logger *slog.Logger) (trainrecipe.Engine, func(), error) {
	if f.place == "" {
		return here, func() {}, nil
	}
	if f.lines < 1 || f.lines > maxHandOverLines {
		return nil, nil, usageErrorf("--hand-over-lines %d: from 1 to %d", f.lines, maxHandOverLines)
	}
	if f.poll <= 0 {
		return nil, nil, usageErrorf("--hand-over-poll %v: it must be longer than nothing", f.poll)
	}
	store, err := openHandOver(ctx, f.place, logger)
	if err != nil {
		return nil, nil, err
	}
	store.Lines, store.Poll = f.lines, f.poll
	return handingEngine{here, store}, store.Client.Close, nil
}

// openHandOver opens the place of that name, in the store that the environment names.
func openHandOver(ctx context.Context, place string, logger *slog.Logger) (*handover.Store, error) {
	bucket, prefix, err := s3client.ParseURI(place)
	if err != nil {
		return nil, usageError{err}
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	config := s3FromEnvironment(os.Getenv)
	client, err := s3client.New(ctx, config)
	if err != nil {
		return nil, usageError{err}
	}
	return &handover.Store{Client: client, Bucket: bucket, Prefix: prefix, Endpoint: config.Endpoint, Logger: logger}, nil
}

// recipeWorker is one run of "sluice train recipe work".
type recipeWorker struct {
	folder  string
	stay    bool
	poll    time.Duration
	devices []string
}

func newWorkRecipeCommand() *cobra.Command {
	w := new(recipeWorker)
	command := &cobra.Command{
		Annotations: finishes(),
		Use:         "work s3://BUCKET/PREFIX/",
		Short:       "Translate what recipes have handed over, on this or any other machine",
		Long: `Translate what recipes that run with --hand-over s3://BUCKET/PREFIX/ have put there. For each translation, models and a job
are fetched into a folder, and sluice run does the job. Any number of workers share the work, and may come and go.

With --devices, GPUs translate, unless a step of the recipe says where it is made. They give slightly other translations than
processors do: all workers of a recipe should be of one kind.`,
		Example: `  sluice train recipe work --stay s3://bucket/recipes/
  sluice train recipe work --devices 0 s3://bucket/recipes/`,
		Args: exactArguments(1, "where translations are handed over"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := applyEnvironment(command.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return w.work(command, arguments[0])
		},
	}
	group := newGroup("Options")
	group.flags.StringVar(&w.folder, "folder", "", "where models are kept (default a temporary folder, which is removed in the end)")
	group.flags.BoolVar(&w.stay, "stay", false, "wait for more when all is translated, until stopped")
	group.flags.DurationVar(&w.poll, "poll", 10*time.Second, "time between two looks for more")
	group.flags.StringArrayVarP(&w.devices, "devices", "d", nil, "translate on these `GPUS`: numbers beginning with 0, all, auto (or else on the CPU), cpu (the default); see docs/gpu.md")
	addGroups(command, group)
	return command
}

func (w *recipeWorker) work(command *cobra.Command, place string) (err error) {
	ctx := command.Context()
	if w.poll <= 0 {
		return usageErrorf("--poll %v: it must be longer than nothing", w.poll)
	}
	if err := w.checkDevices(); err != nil {
		return err
	}
	store, err := openHandOver(ctx, place, nil)
	if err != nil {
		return err
	}
	defer store.Client.Close()
	if w.folder == "" {
		if w.folder, err = os.MkdirTemp("", "sluice-work"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(w.folder)) }()
	}
	for {
		if err := w.round(command, store); err != nil || !w.stay {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // to be stopped is how staying ends
		case <-time.After(w.poll):
		}
	}
}

// round does all there is, and what comes meanwhile. What is left of a job that was done is for others: a worker may have a shard.
func (w *recipeWorker) round(command *cobra.Command, store *handover.Store) error {
	for done := map[string]bool{}; ; {
		pending, err := store.Pending(command.Context())
		if err != nil {
			return inputError{err}
		}
		before := len(done)
		for _, folder := range pending {
			if done[folder] {
				continue
			}
			if err := w.do(command, store, folder); err != nil {
				return err
			}
			done[folder] = true
		}
		if len(done) == before {
			return nil
		}
	}
}

// do runs the job of a translation in a process of its own, whose folder is that of the files.
func (w *recipeWorker) do(command *cobra.Command, store *handover.Store, folder string) error {
	ctx := command.Context()
	if ctx.Err() != nil {
		return errInterrupted
	}
	local, err := store.Fetch(ctx, folder, w.folder)
	if err != nil {
		return inputError{err}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	arguments, err := w.arguments(local)
	if err != nil {
		return err
	}
	run := exec.CommandContext(ctx, program, arguments...)
	run.Dir, run.Stdout, run.Stderr = local, command.OutOrStdout(), command.ErrOrStderr()
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.WaitDelay = time.Minute
	err = run.Run()
	var exit *exec.ExitError
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%w: workers may come and go", errInterrupted)
	case errors.As(err, &exit):
		return fmt.Errorf("the job %s ended with code %d", s3client.URI(store.Bucket, folder+"job.yml"), exit.ExitCode())
	}
	return err
}

// checkDevices says at once what is wrong with --devices, which of the GPUs is not there, or that none of all is.
func (w *recipeWorker) checkDevices() error {
	choice, err := readDevices(w.devices, "sluice run gives it several workers")
	if err != nil {
		return err
	}
	if choice.all && choice.demanded {
		if _, err := openDriver(); err != nil {
			return demandedError(err)
		}
	}
	return checkGPUs(choice.numbers)
}

// arguments are those with which sluice run does the job in a folder.
func (w *recipeWorker) arguments(folder string) ([]string, error) {
	arguments := []string{"run"}
	if len(w.devices) > 0 {
		job, _, err := readJob(filepath.Join(folder, "job.yml"))
		if err != nil {
			return nil, err
		}
		if !saysWhere(job.Translate) {
			for _, device := range w.devices {
				arguments = append(arguments, "--devices="+device)
			}
		}
	}
	return append(arguments, "job.yml"), nil
}
