package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	filesource "github.com/sluice-mt/sluice/consumer/file"
	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/obs"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/pipeline"
	filesink "github.com/sluice-mt/sluice/producer/file"
	"github.com/sluice-mt/sluice/translator"
)

// translation is one run of "sluice translate".
type translation struct {
	model  modelFlags
	search searchFlags
	batch  batchFlags
	input  inputFlags
	output outputFlags
	log    logFlags

	logger *slog.Logger
	groups []flagGroup
	stderr io.Writer
	start  time.Time
	begin  func(translator.Config) (liveTranslator, error)
}

func newTranslateCommand(begin func(translator.Config) (liveTranslator, error)) *cobra.Command {
	return (&translation{begin: begin}).command()
}

// command is the command that sets the translation's flags and runs it.
func (t *translation) command() *cobra.Command {
	command := &cobra.Command{
		Annotations: finishes(),
		Use:         "translate -m MODEL [flags] [FILE...]",
		Short:       "Translate files, folders or standard input",
		Long: `Translate text with Marian models: one output record for every input record, in order.

An output file appears under its name when it is complete. If the run is stopped, even by force, the same
command continues where it was, and the result is that of an undisturbed run.`,
		Example: `  sluice translate -m models/ende-tiny < corpus.en > corpus.de
  sluice translate -m models/ende-tiny -i corpus.en.gz -o corpus.de.zst
  sluice translate -m models/ende-tiny -i news/ --output-dir news.de
  sluice translate -c decoder.yml -b 4 --n-best --alignment hard -i test.en
  sluice translate -m backward.npz --output-sampling full -i mono.de -o synthetic.en
  sluice translate -m models/ende-tiny --format jsonl --field title --target-field title_de -i items.jsonl -o out.jsonl`,
		RunE: func(command *cobra.Command, arguments []string) error {
			t.start, t.stderr = time.Now(), command.ErrOrStderr()
			t.input.inputs = append(t.input.inputs, arguments...)
			return t.run(command)
		},
	}
	t.groups = []flagGroup{t.model.group(), t.search.group(), t.batch.group(), t.input.group(), t.output.group(), t.log.group()}
	addGroups(command, t.groups...)
	addMarianFlags(command.Flags())
	return command
}

// run does everything from settings to summary.
func (t *translation) run(command *cobra.Command) error {
	closeLog, err := t.settle(command)
	if err != nil {
		return err
	}
	defer closeLog()
	if t.output.dump != "" {
		return t.dumpConfig(command)
	}
	if err := t.flagged(nil); err != nil {
		return err // a name that is wrong is better told before the work than behind it
	}
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of the write, not the end of the process
	defer endAfter(command.Context(), t.output.grace)()
	parts, err := buildEngine(command.Context(), &t.model, &t.search, &t.batch, runtime.GOMAXPROCS(0), t.logger)
	if err != nil {
		return err
	}
	defer parts.models.close()
	fitMemory(rootOfSystem, &t.batch, parts, t.logger)
	source, sink, err := t.ends(parts)
	if err != nil {
		return err
	}
	engine, err := t.begin(parts.config)
	if err != nil {
		return usageError{err}
	}
	defer parts.closeEngine(engine, t.logger)
	t.logger.Debug("ready", "after", time.Since(t.start).Round(time.Millisecond))
	return t.stream(command.Context(), parts, source, sink, engine)
}

// settle combines command line, environment and configuration file, and sets up the messages.
func (t *translation) settle(command *cobra.Command) (closeLog func(), err error) {
	flags := command.Flags()
	if err := applyEnvironment(flags, os.LookupEnv); err != nil {
		return nil, err
	}
	warnings, err := t.model.applyConfig(flags)
	if err != nil {
		return nil, err
	}
	t.standardStreams()
	if err := t.output.check(); err != nil {
		return nil, err
	}
	if err := t.checkPlaces(); err != nil {
		return nil, err
	}
	level, err := t.log.threshold()
	if err != nil {
		return nil, err
	}
	w, closeLog, err := t.logWriter()
	if err != nil {
		return nil, err
	}
	if t.logger, err = obs.NewLogger(w, t.log.format, level); err != nil {
		return nil, usageError{err}
	}
	for _, warning := range warnings {
		t.logger.Warn(warning)
	}
	return closeLog, nil
}

// standardStreams gives the standard streams our name where they have Marian's.
func (t *translation) standardStreams() {
	for i, path := range t.input.inputs {
		if path == "stdin" {
			t.input.inputs[i] = "-"
		}
	}
	if t.output.output == "stdout" {
		t.output.output = filesink.Stdout
	}
}

// logWriter is where messages go: standard error, and the file of --log as well.
func (t *translation) logWriter() (io.Writer, func(), error) {
	if t.log.file == "" {
		return t.stderr, func() {}, nil
	}
	file, err := os.OpenFile(t.log.file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return nil, nil, outputError{fmt.Errorf("--log: %w", err)}
	}
	return io.MultiWriter(t.stderr, file), func() { file.Close() }, nil
}

// ends makes the source and the sink.
func (t *translation) ends(parts *engineParts) (*filesource.Source, *filesink.Sink, error) {
	records, err := t.input.records(t.output.target)
	if err != nil {
		return nil, nil, err
	}
	beside, err := t.input.sources(1+len(parts.config.Text.Further), &records)
	if err != nil {
		return nil, nil, err
	}
	encoder, err := t.encoder(parts, records)
	if err != nil {
		return nil, nil, err
	}
	config := filesource.Config{Paths: t.input.inputs, Join: t.output.outputDir == "", Beside: beside, Records: records}
	config.Exclude = t.unfinished()
	source := filesource.New(config)
	madeWith, err := t.madeWith(parts, records)
	if err != nil {
		return nil, nil, err
	}
	sinkConfig := filesink.Config{
		Path:    func(string) (string, error) { return t.output.output, nil },
		Encoder: encoder, Input: source, Reads: source.Reads, MadeWith: madeWith, Overwrite: t.output.overwrite, Folder: t.output.outputDir,
	}
	if t.output.outputDir != "" {
		sinkConfig.Path = func(lane string) (string, error) { return t.output.pathFor(source, lane) }
	}
	if records.Format == recordio.Parquet && !t.plainOutput() {
		if len(t.input.inputs) > 1 && t.output.outputDir == "" {
			return nil, nil, usageErrorf("several Parquet files cannot be joined into one: use --output-dir")
		}
		sinkConfig.Assemble = recordio.AssembleParquet(records, func(lane string) string { return lane })
	}
	return source, filesink.New(sinkConfig), nil
}

// unfinished are the places of what the run makes before it is complete, which are not among the inputs where these are a folder or a
// pattern: they would be there only when it is continued.
func (t *translation) unfinished() []string {
	if t.output.outputDir != "" {
		return []string{t.output.outputDir}
	}
	paths := filesink.Files(t.output.output)
	if _, err := os.Stat(t.output.output + filesink.CheckpointSuffix); err != nil {
		paths = paths[1:] // the output itself is there, but the run has not put it there: it is an input
	}
	return paths
}

// plainOutput says whether the output has a format of its own, whatever the input's is.
func (t *translation) plainOutput() bool { return t.output.jsonl || t.search.nBest }

// madeWith lists what the output's bytes depend on, for the checkpoint.
func (t *translation) madeWith(parts *engineParts, records recordio.Options) (map[string]string, error) {
	if t.output.output == filesink.Stdout && t.output.outputDir == "" {
		return nil, nil // nothing to resume, and no time to spend on a fingerprint
	}
	made, err := parts.ingredients()
	if err != nil {
		return nil, err
	}
	maps.Copy(made, map[string]string{
		"format": records.Format.String(), "field": records.Field, "target-field": records.Target,
		"force-decode": records.Prefix, "tsv-fields": fmt.Sprint(records.Columns), "tsv": fmt.Sprint(t.input.tsv),
		"header": fmt.Sprint(records.Header), "max-record": fmt.Sprint(records.MaxLine), "n-best": fmt.Sprint(t.search.nBest),
		"jsonl": fmt.Sprint(t.output.jsonl), "alignment": t.search.alignment, "no-spm-decode": fmt.Sprint(t.search.noSPMDecode),
	})
	if len(records.Further) > 0 {
		made["further-field"] = strings.Join(records.Further, "\n")
	}
	return made, nil
}

// stream runs the pipeline and reports on it.
func (t *translation) stream(ctx context.Context, parts *engineParts, source *filesource.Source, sink *filesink.Sink, engine liveTranslator) error {
	config := pipeline.Config{Memory: int64(t.batch.memory) << 20, Grace: t.output.grace, CommitEvery: t.output.commit, Logger: t.logger}
	p := pipeline.New(config, source, sink, engine)
	progress, err := t.newProgress(source, p)
	if err != nil {
		return err
	}
	progress.begin()
	err = p.Run(ctx)
	progress.end()
	stats := p.Stats()
	summary := newSummary(stats, time.Since(t.start), parts)
	if e, ok := engine.(*translator.Engine); ok {
		summary.Seconds.ofWorkers(e.Stats())
	}
	if reportErr := t.writeReport(summary, parts, err); reportErr != nil && err == nil {
		err = reportErr
	}
	if err != nil {
		return t.explain(err)
	}
	if !t.log.quiet {
		summary.log(t.logger)
	}
	return t.flagged(stats.Flags)
}

// explain sorts an error by what the user has to look at, and says how to go on after an interruption.
func (t *translation) explain(err error) error {
	if errors.Is(err, pipeline.ErrInterrupted) {
		hint := "nothing can be resumed on standard output"
		if t.output.output != filesink.Stdout || t.output.outputDir != "" {
			hint = "run the same command again to continue"
		}
		return fmt.Errorf("%w: %s", errInterrupted, hint)
	}
	var changed *filesink.ChangedError
	var stage *pipeline.StageError
	switch {
	case errors.Is(err, filesink.ErrIsRead):
		return usageError{err}
	case errors.Is(err, filesink.ErrExists), errors.As(err, &changed):
		return usageError{fmt.Errorf("%w (--overwrite does that)", err)}
	case errors.Is(err, filesink.ErrNotContinued):
		return outputError{fmt.Errorf("%w (--overwrite does that)", err)}
	case errors.As(err, &stage) && stage.Stage == "read":
		return inputError{err}
	case errors.As(err, &stage) && (stage.Stage == "write" || stage.Stage == "commit"):
		return outputError{err}
	}
	return err
}

// flagged returns errFlagged if there are flags that --tolerate does not name.
func (t *translation) flagged(flags map[string]int64) error {
	tolerated := map[string]bool{}
	for _, name := range t.output.tolerate {
		if _, ok := flagByName(name); !ok && name != "all" {
			return usageErrorf("--tolerate %s: there is no such flag", name)
		}
		tolerated[name] = true
	}
	for name, count := range flags {
		if count > 0 && !tolerated[name] && !tolerated["all"] {
			return errFlagged
		}
	}
	return nil
}

// flagByName finds a flag of job.Flags by its name.
func flagByName(name string) (job.Flags, bool) {
	for bit := job.Flags(1); bit <= job.Failed; bit <<= 1 {
		if bit.String() == name {
			return bit, true
		}
	}
	return 0, false
}

// maxMaxRecord bounds --max-record, in MiB: a record is kept in memory several times over.
const maxMaxRecord = 1024

// records turns the flags into options of the record format.
func (f *inputFlags) records(target string) (recordio.Options, error) {
	options := recordio.Options{Field: f.field, Further: f.further, Target: target, Header: f.header, MaxLine: f.maxRecord << 20, Columns: f.tsvFields}
	if f.maxRecord < 1 || f.maxRecord > maxMaxRecord {
		return options, usageErrorf("--max-record %d: from 1 to %d MiB", f.maxRecord, maxMaxRecord)
	}
	name := f.format
	if f.tsv {
		name = "tsv"
	}
	if name == "auto" {
		name = formatByName(f.inputs)
	}
	var err error
	if options.Format, err = recordio.ParseFormat(name); err != nil {
		return options, usageErrorf("--format: %v", err)
	}
	if f.tsvFields != 0 && options.Format != recordio.TSV {
		return options, usageErrorf("--tsv-fields is for --tsv and --format tsv")
	}
	if options.Prefix, err = f.prefix(options.Format); err != nil {
		return options, err
	}
	if err := options.Check(); err != nil {
		return options, usageError{err}
	}
	return options, nil
}

// sources settles where the texts for models with several sources come from: from as many inputs, of which a line each belongs
// together, or from the columns of one. It reports whether inputs are to be read side by side.
func (f *inputFlags) sources(count int, records *recordio.Options) (beside bool, err error) {
	if fields := 1 + len(records.Further); fields > 1 && fields != count {
		return false, usageErrorf("the models read %d, but --field and --further-field name %d: they must be as many", count, fields)
	}
	if count == 1 || len(records.Further) > 0 {
		return false, nil
	}
	columns := records.Format == recordio.TSV && records.Field == "" && records.Prefix == "" && !records.Header
	if columns {
		records.Format, records.Columns, records.Target = recordio.Text, 0, ""
	}
	switch {
	case records.Format == recordio.Text && len(f.inputs) == count:
		return true, nil
	case len(f.inputs) <= 1:
		return false, nil // tabs are between the texts of a record
	}
	return false, usageErrorf("the model reads %d sources, but there are %d inputs: give %d files of text, or one with a column for each source",
		count, len(f.inputs), count)
}

// prefix is the field that --force-decode takes the beginnings of translations from, "" for none.
func (f *inputFlags) prefix(format recordio.Format) (string, error) {
	switch {
	case !f.forceDecode && f.prefixField != "":
		return "", usageErrorf("--prefix-field needs --force-decode")
	case !f.forceDecode, f.prefixField != "":
		return f.prefixField, nil
	case format == recordio.TSV:
		return recordio.LastColumn, nil
	case format == recordio.JSONL:
		return "", usageErrorf("--force-decode needs --prefix-field, the path of the text that the translation begins with")
	}
	return "", usageErrorf("--force-decode needs rows of source and prefix: paste source.txt prefixes.txt | sluice translate --tsv --force-decode …")
}

// formatByName guesses the format from the names of the inputs, compression suffixes left out.
func formatByName(inputs []string) string {
	if len(inputs) == 0 {
		return "text"
	}
	name := strings.TrimSuffix(inputs[0], compress.BySuffix(inputs[0]).Suffix())
	switch strings.ToLower(filepath.Ext(name)) {
	case ".tsv":
		return "tsv"
	case ".jsonl", ".ndjson":
		return "jsonl"
	case ".parquet":
		return "parquet"
	}
	return "text"
}

// pathFor is where a lane's output goes under --output-dir: the tree of the inputs is kept.
func (f *outputFlags) pathFor(source *filesource.Source, lane string) (string, error) {
	relative, err := source.Relative(lane)
	if err != nil {
		return "", err
	}
	return filepath.Join(f.outputDir, withSuffix(relative, f.suffix)), nil
}

// check refuses options of which one would be passed over for another, and what cannot be written.
func (f *outputFlags) check() error {
	switch {
	case f.outputDir != "" && f.output != filesink.Stdout:
		return usageErrorf("--output %s and --output-dir %s: choose one", f.output, f.outputDir)
	case f.outputDir == "" && f.suffix != "":
		return usageErrorf("--output-suffix %s is for the names in --output-dir", f.suffix)
	case strings.ContainsAny(f.suffix, `/\`):
		return usageErrorf("--output-suffix %s: the end of a name, not a path", f.suffix)
	case f.jsonl && f.target != "":
		return usageErrorf("--target-field %s: records of --jsonl have fields of their own", f.target)
	case f.grace < 0:
		return usageErrorf("--grace-period %v: at least 0", f.grace)
	case f.commit <= 0:
		return usageErrorf("--commit-every %v: must be more than 0", f.commit)
	}
	return nil
}

// checkPlaces refuses outputs of which one would take the place of another, or of something that is read. What the inputs hold that are
// folders or patterns, and an output in the place of another run's, is seen to when they are opened.
func (t *translation) checkPlaces() error {
	if t.log.file == filesink.Stdout {
		return usageErrorf("--log -: messages go to standard error anyway; name a file that gets them as well")
	}
	outputs := []string{t.output.report, t.log.file}
	if t.output.outputDir == "" {
		outputs = append(outputs, t.output.output)
	}
	inputs := slices.Concat(t.input.inputs, t.model.models, t.model.vocabs, t.model.shortlist[:min(len(t.model.shortlist), 1)], t.model.configs)
	if err := checkDistinct(true, outputs, inputs); err != nil {
		return err
	}
	for _, path := range []string{t.output.report, t.log.file} {
		if input := t.input.readFrom(path); path != "" && path != filesink.Stdout && input != "" && !below(path, t.output.outputDir) {
			return usageErrorf("%s would be read with %s when the command is run again: put it elsewhere", path, input)
		}
	}
	return t.output.checkReport()
}

// readFrom returns the folder or the pattern among the inputs by which a file that may not be there yet would be read, "" if there is none.
func (f *inputFlags) readFrom(path string) string {
	for _, input := range f.inputs {
		if matched, err := filepath.Match(filepath.Clean(input), filepath.Clean(path)); below(path, input) || matched && err == nil {
			return input
		}
	}
	return ""
}

// checkReport finds out whether the report can be written before hours are spent on what it is to report.
func (f *outputFlags) checkReport() error {
	if f.report == "" || f.report == filesink.Stdout {
		return nil
	}
	file, err := os.OpenFile(f.report, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return outputError{fmt.Errorf("--report: %w", err)}
	}
	return file.Close()
}

// writeReport writes --report.
func (t *translation) writeReport(s summary, parts *engineParts, runErr error) error {
	if t.output.report == "" {
		return nil
	}
	s.Complete = runErr == nil
	var err error
	if s.Fingerprint, err = parts.fingerprint(); err != nil {
		return err
	}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	err = writeTo(os.Stdout, t.output.report, func(w io.Writer) error {
		_, err := w.Write(append(content, '\n'))
		return err
	})
	if err != nil {
		return outputError{fmt.Errorf("--report: %w", err)}
	}
	return nil
}
