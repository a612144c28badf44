package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/obs"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/pipeline/monitor"
	"github.com/sluice-mt/sluice/pipeline/page"
	"github.com/sluice-mt/sluice/pipeline/tracing"
	"github.com/sluice-mt/sluice/producer"
	filesink "github.com/sluice-mt/sluice/producer/file"
	"github.com/sluice-mt/sluice/translator"
)

// A streamingJob is one run of "sluice run".
type streamingJob struct {
	path          string
	dryRun        bool
	acceptChanges bool
	http          string
	devices       []string // in place of those that the job names; none: as it says
	overtaken     int64    // by how many later records one may be

	job    *jobfile.Job
	logger *slog.Logger
	stderr io.Writer
	start  time.Time

	begin    func(translator.Config) (liveTranslator, error)
	present  atomic.Pointer[presentPass]
	server   *monitor.Server   // nil if nobody wants to look
	page     *page.Page        // nil if there is none
	traces   *tracing.Exporter // nil if nobody collects them
	clusters []openCluster
	closers  []func() // of clients, in the order in which they were opened
}

// A liveTranslator is an engine, or what tests put in its place.
type liveTranslator interface {
	pipeline.Translator
	Close()
}

func beginEngine(config translator.Config) (liveTranslator, error) { return translator.New(config) }

func newRunCommand(begin func(translator.Config) (liveTranslator, error)) *cobra.Command {
	j := &streamingJob{begin: begin}
	command := &cobra.Command{
		Annotations: finishes(),
		Use:         "run [flags] JOB.yml",
		Short:       "Run a streaming job: from Kafka, S3 or files to Kafka, S3 or files",
		Long: `Run the job that a file describes. Every record of the source gives one record in the sink, in the order of its
partition, object or file, or a dead letter, exactly once, whatever crashes when: the same command continues.

The file's settings are in docs/job.schema.json, which editors can use, and "sluice lint" checks it.

SIGTERM ends a job: what is in flight is finished and committed within the grace period. A second one stops at once.`,
		Example: `  sluice run reviews.yml
  sluice run --http localhost:9090 reviews.yml
  sluice run --dry-run reviews.yml
  sluice run --devices auto reviews.yml
  sluice lint reviews.yml`,
		Args: exactArguments(1, "a job file"),
		RunE: func(command *cobra.Command, arguments []string) error {
			j.path, j.start, j.stderr = arguments[0], time.Now(), command.ErrOrStderr()
			return j.run(command.Context(), command.OutOrStdout())
		},
	}
	command.Flags().BoolVar(&j.dryRun, "dry-run", false, "open the model, connect to source and sink, and say what would be done")
	command.Flags().BoolVar(&j.acceptChanges, "accept-changes", false, "continue work that was begun with another model or other options")
	command.Flags().StringArrayVarP(&j.devices, "devices", "d", nil, "translate on these `GPUS`, whatever the job says under translate: numbers beginning with 0, all, auto (or else on the CPU), cpu; see docs/gpu.md")
	command.Flags().StringVar(&j.http, "http", "", "serve metrics, probes and the status page at this `ADDRESS`, such as localhost:9090, whatever the job's observe.listen says")
	return command
}

// readJob reads and checks a job file. What is wrong with it is a usageError with one line for each problem.
func readJob(path string) (*jobfile.Job, *jobOptions, error) {
	content, err := readSettings(path)
	if err != nil {
		return nil, nil, usageError{err}
	}
	job, err := jobfile.Parse(content, os.LookupEnv)
	if err != nil {
		return nil, nil, jobProblems(path, err)
	}
	options, err := newJobOptions(job)
	if err != nil {
		return nil, nil, jobProblems(path, err)
	}
	return job, options, nil
}

// jobProblems puts the file's name before each problem, in the form that editors jump to.
func jobProblems(path string, err error) error {
	var problems jobfile.Problems
	if !errors.As(err, &problems) {
		return usageErrorf("%s: %v", path, err)
	}
	var lines []error
	for _, problem := range problems {
		lines = append(lines, fmt.Errorf("%s:%w", path, problem))
	}
	return usageError{errors.Join(lines...)}
}

func (j *streamingJob) run(ctx context.Context, out io.Writer) error {
	job, options, err := readJob(j.path)
	if err != nil {
		return err
	}
	j.job = job
	if j.http != "" {
		if _, _, err := net.SplitHostPort(j.http); err != nil {
			return usageErrorf("--http: %v: expected one such as localhost:9090", err)
		}
		job.Observe.Listen = j.http
	}
	if j.logger, err = obs.NewLogger(j.stderr, job.Observe.LogFormat, job.Observe.LogLevel); err != nil {
		return usageError{err}
	}
	if err := options.useDevices(j.devices); err != nil {
		return err
	}
	if err := options.complete(j.logger); err != nil {
		return err
	}
	defer endAfter(ctx, job.Grace)()
	parts, err := buildEngine(ctx, &options.model, &options.search, &options.batch, runtime.GOMAXPROCS(0), j.logger)
	if err != nil {
		return err
	}
	defer parts.models.close()
	// The engine lets a maxi-batch go before a sentence, and while it decodes a long one, many short ones.
	j.overtaken = 1<<15 + 4*int64(parts.config.Batching.MaxiBatch)
	if j.dryRun {
		defer j.close()
		source, sink, err := j.ends(parts)
		if err != nil {
			return err
		}
		return j.rehearse(ctx, out, source, sink, parts)
	}
	engine, err := j.begin(parts.config)
	if err != nil {
		return usageError{err}
	}
	defer parts.closeEngine(engine, j.logger)
	if err := j.trace(ctx); err != nil {
		return err
	}
	defer j.endTraces()
	return j.passes(ctx, parts, engine)
}

// passes runs the job, and runs it again as long as lanes went to other workers, which may have given them up since: two
// workers that begin a lane at the same moment can each end the other's work on it. What is complete is passed over, so a
// pass that finds nothing to do is short. A consumer group sees to that itself.
func (j *streamingJob) passes(ctx context.Context, parts *engineParts, engine liveTranslator) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer j.unobserve()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		lost, err := j.pass(ctx, stop, parts, engine)
		if err != nil || lost == 0 {
			return err
		}
		j.logger.Info("looking again at the lanes that went to others", "lanes", lost, "within", 2*pause)
		select {
		case <-time.After(pause + rand.N(pause)): // at another time than the others
		case <-ctx.Done():
			return fmt.Errorf("%w: run the same command again to continue", errInterrupted)
		}
	}
}

// How long others are left alone with the lanes that they have taken.
const (
	firstPause = 3 * time.Second
	lastPause  = time.Minute
)

// pass runs the job once. It returns how many lanes it has lost to workers that nobody keeps an eye on. stop ends the job, which
// who looks at it may do.
func (j *streamingJob) pass(ctx context.Context, stop func(), parts *engineParts, engine liveTranslator) (lost int64, err error) {
	defer j.close()
	source, sink, err := j.ends(parts)
	if err != nil {
		return 0, err
	}
	watch := func() error { return j.observe(ctx, stop, source, parts, engine) }
	lost, err = j.stream(ctx, source, sink, engine, watch)
	if source.shared || source.endless {
		lost = 0
	}
	return lost, err
}

func (j *streamingJob) close() {
	for i := len(j.closers) - 1; i >= 0; i-- {
		j.closers[i]()
	}
	j.closers, j.clusters = nil, nil
}

// stream runs the pipeline. It returns how many lanes went to other workers. watch is called before the first record is read.
func (j *streamingJob) stream(ctx context.Context, source *jobSource, sink producer.Sink, engine liveTranslator, watch func() error) (lost int64, err error) {
	job := j.job
	var t pipeline.Translator = engine
	if job.Sentences {
		t = translator.NewDocuments(engine)
	}
	config := pipeline.Config{
		Memory: int64(job.Memory), Lanes: job.Lanes, CommitEvery: job.CommitEvery, Grace: job.Grace, Logger: j.logger,
		Shared: true, Stall: job.Stall, Overtaken: j.overtaken, MaxFailed: job.MaxFailed, Notable: j.notable,
	}
	if j.traces != nil {
		config.Trace = j.traces.Run
	}
	p := pipeline.New(config, source, sink, t)
	j.present.Store(&presentPass{p, source})
	if err := watch(); err != nil {
		return 0, err
	}
	j.logger.Info("running", "job", job.Name, "source", source.description, "sink", describeSink(&job.Sink),
		"ready after", time.Since(j.start).Round(time.Millisecond))
	err = p.Run(ctx)
	stats := p.Stats()
	j.summarise(stats, err)
	return stats.LanesLost, j.explain(err, source.endless)
}

// trace starts the export of traces, if they are wanted.
func (j *streamingJob) trace(ctx context.Context) (err error) {
	o := &j.job.Observe
	if o.Traces == "" {
		return nil
	}
	j.traces, err = tracing.Start(ctx, tracing.Config{
		Endpoint: o.Traces, Share: o.TraceShare, Job: j.job.Name, Version: buildVersion(), Logger: j.logger,
	})
	if err != nil {
		return usageErrorf("observe.traces: %v", err)
	}
	return nil
}

// endTraces sends the traces that are left.
func (j *streamingJob) endTraces() {
	if j.traces == nil {
		return
	}
	if err := j.traces.Close(); err != nil {
		j.logger.Debug("traces", "error", err)
	}
}

func (j *streamingJob) summarise(stats pipeline.Stats, err error) {
	elapsed := time.Since(j.start).Seconds()
	attributes := append([]any{"job", j.job.Name}, throughput(stats.Records, stats.SourceWords, elapsed)...)
	attributes = append(attributes, "lanes", stats.Lanes)
	if stats.LanesAlreadyDone > 0 {
		attributes = append(attributes, "lanes done before", stats.LanesAlreadyDone)
	}
	if stats.LanesLost > 0 {
		attributes = append(attributes, "lanes that went to others", stats.LanesLost)
	}
	if len(stats.Flags) > 0 {
		attributes = append(attributes, "flags", flagCounts(stats.Flags))
	}
	j.logger.Info("ended", attributes...)
	if err == nil && stats.Lanes+stats.LanesAlreadyDone+stats.LanesLost+stats.Admitted == 0 {
		j.logger.Warn("nothing was found to translate: is the source what was meant?")
	}
}

// explain sorts an error by what the user has to look at. To interrupt an endless job is the way to end it; one that has an
// end was interrupted before it.
func (j *streamingJob) explain(err error, endless bool) error {
	var changed *producer.ChangedError
	var stage *pipeline.StageError
	switch {
	case errors.Is(err, pipeline.ErrStalled), errors.Is(err, pipeline.ErrTooManyFailed):
		return err
	case errors.Is(err, pipeline.ErrInterrupted) && endless:
		return nil
	case errors.Is(err, pipeline.ErrInterrupted):
		return fmt.Errorf("%w: run the same command again to continue", errInterrupted)
	case errors.As(err, &changed):
		return usageError{fmt.Errorf("%w (%s)", err, j.waysOn())}
	case errors.Is(err, filesink.ErrIsRead):
		return usageError{err}
	case errors.Is(err, producer.ErrNoPlace):
		return usageError{fmt.Errorf("%w (dead-letters in the job sets such records aside)", err)}
	case errors.As(err, &stage) && stage.Stage == "read":
		return inputError{err}
	case errors.As(err, &stage) && (stage.Stage == "write" || stage.Stage == "commit"):
		return outputError{err}
	}
	return err
}

// waysOn says how work goes on that was begun with something else.
func (j *streamingJob) waysOn() string {
	if j.job.Source.Kafka != nil || j.job.Sink.Kafka != nil {
		return "--accept-changes continues with what there is now"
	}
	return "overwrite: true in the sink does that for all outputs"
}

// rehearse connects to both ends and says what would be done.
func (j *streamingJob) rehearse(ctx context.Context, out io.Writer, source *jobSource, sink producer.Sink, parts *engineParts) error {
	if source.look != nil {
		if err := source.look(ctx); err != nil {
			return inputError{fmt.Errorf("source: %w", err)}
		}
	} else {
		if err := source.Connect(ctx); err != nil {
			return inputError{fmt.Errorf("source: %w", err)}
		}
		defer source.Close(context.WithoutCancel(ctx))
	}
	if err := sink.Connect(ctx); err != nil {
		return outputError{fmt.Errorf("sink: %w", err)}
	}
	defer sink.Close(context.WithoutCancel(ctx))
	fingerprint, err := parts.fingerprint()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "job      %s\nsource   %s\nsink     %s\nmodel    %s, %s\nmade of  %s\nworkers  %d\n", j.job.Name, source.description,
		describeSink(&j.job.Sink), parts.models.files[0].Path, parts.models.arithmetic(), short(fingerprint), parts.workers())
	for _, g := range parts.gpusInUse() {
		fmt.Fprintf(out, "%-8s %v\n", g.Name, g)
	}
	if !source.endless && !source.shared {
		lanes := 0
		for ; ; lanes++ {
			lane, err := source.Next(ctx)
			if errors.Is(err, consumer.ErrEndOfInput) {
				break
			}
			if err != nil {
				return inputError{fmt.Errorf("source: %w", err)}
			}
			if err := lane.Close(); err != nil {
				return inputError{fmt.Errorf("source: %w", err)}
			}
		}
		fmt.Fprintf(out, "lanes    %d\n", lanes)
	}
	return nil
}

func newLintCommand() *cobra.Command {
	var schema bool
	command := &cobra.Command{
		Use:   "lint [--schema] JOB.yml...",
		Short: "Check job files, every mistake with its line and column",
		RunE: func(command *cobra.Command, arguments []string) error {
			if schema {
				text, err := jobfile.Schema()
				if err != nil {
					return err
				}
				_, err = command.OutOrStdout().Write(text)
				return err
			}
			if len(arguments) == 0 {
				return usageErrorf("sluice lint takes job files (see sluice lint --help)")
			}
			var errs []error
			for _, path := range arguments {
				if _, _, err := readJob(path); err != nil {
					errs = append(errs, err)
				}
			}
			if err := errors.Join(errs...); err != nil {
				return usageError{err}
			}
			return nil
		},
	}
	command.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of job files")
	return command
}
