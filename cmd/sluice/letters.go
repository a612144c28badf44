package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/obs"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/pipeline"
)

func newLettersCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "dlq",
		Short: "Look at the dead letters of a job, or send them again",
	}
	command.AddCommand(newLettersListCommand(), newLettersReplayCommand())
	return command
}

func newLettersListCommand() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "list [--jsonl] JOB.yml",
		Short: "List the records of a job that could not be translated, and why",
		Args:  exactArguments(1, "a job file"),
		RunE: func(command *cobra.Command, arguments []string) error {
			j := &streamingJob{path: arguments[0], stderr: command.ErrOrStderr()}
			defer j.close()
			if _, err := j.readLetterJob("list"); err != nil {
				return err
			}
			source, err := j.letterSource()
			if err != nil {
				return err
			}
			show := showLetter
			if asJSON {
				show = showLetterAsJSON
			}
			return eachLetter(command.Context(), source, func(letter *deadletter.Letter) error {
				return show(command.OutOrStdout(), letter)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "jsonl", false, "print letters as they are stored, a line of JSON each")
	return command
}

func showLetter(w io.Writer, letter *deadletter.Letter) error {
	original := []rune(strings.ToValidUTF8(string(letter.Original), "\ufffd"))
	const most = 100
	if len(original) > most {
		original = append(original[:most], '…')
	}
	_, err := fmt.Fprintf(w, "%s record %d: %s: %q\n", letter.Lane, letter.Record, letter.Reason, string(original))
	return err
}

func showLetterAsJSON(w io.Writer, letter *deadletter.Letter) error {
	line, err := deadletter.Append(nil, letter)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

// readLetterJob reads the job file and makes of it a job that reads the dead letters and has no sink yet. The purpose becomes
// part of its name. It returns the job of the file.
func (j *streamingJob) readLetterJob(purpose string) (*jobfile.Job, error) {
	job, _, err := readJob(j.path)
	if err != nil {
		return nil, err
	}
	if job.DeadLetters == "" {
		return nil, usageErrorf("%s: the job keeps no dead letters", j.path)
	}
	if j.logger, err = obs.NewLogger(j.stderr, job.Observe.LogFormat, "warn"); err != nil {
		return nil, usageError{err}
	}
	j.job = &jobfile.Job{
		Name: job.Name + "." + purpose, Shard: "0/1", Grace: job.Grace, CommitEvery: job.CommitEvery, Memory: job.Memory,
		Records: jobfile.Records{Format: "text", MaxSize: 4 * job.Records.MaxSize}, Observe: job.Observe,
	}
	switch source, sink := &j.job.Source, &job.Sink; {
	case sink.Kafka != nil:
		source.Kafka = &jobfile.KafkaSource{
			Topics: []string{job.DeadLetters}, Begin: "first", StopAtEnd: true, KafkaCluster: sink.Kafka.KafkaCluster,
		}
		j.job.Lanes = 1 << 20
	case sink.S3 != nil:
		source.S3 = &jobfile.S3Source{Inputs: []string{job.DeadLetters}, S3Store: sink.S3.S3Store}
	default:
		source.Files = &jobfile.FileSource{Paths: []string{job.DeadLetters}}
	}
	return job, nil
}

// letterSource opens the place of the dead letters as a source of letters.
func (j *streamingJob) letterSource() (*jobSource, error) {
	records, err := j.records()
	if err != nil {
		return nil, err
	}
	if topic := j.job.Source.Kafka; topic != nil {
		topic.Group = j.job.Name
	}
	return j.source(records, letterCodec{})
}

// eachLetter reads all letters there are.
func eachLetter(ctx context.Context, source *jobSource, show func(*deadletter.Letter) error) (err error) {
	if err := source.Connect(ctx); err != nil {
		return inputError{err}
	}
	defer func() { err = errors.Join(err, source.Close(context.WithoutCancel(ctx))) }()
	for {
		lane, err := source.Next(ctx)
		if errors.Is(err, consumer.ErrEndOfInput) {
			return nil
		}
		if err != nil {
			return inputError{err}
		}
		err = lettersOfLane(ctx, lane, show)
		if closeErr := lane.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return inputError{fmt.Errorf("%s: %w", lane.Name(), err)}
		}
	}
}

func lettersOfLane(ctx context.Context, lane consumer.Lane, show func(*deadletter.Letter) error) error {
	if err := lane.Start(ctx, job.Position{}); err != nil {
		return err
	}
	for {
		records, err := lane.Read(ctx)
		for i := range records {
			letter, err := letterOf(&records[i])
			if err != nil {
				return err
			}
			if err := show(letter); err != nil {
				return outputError{err}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A letterCodec takes letters out of messages, and makes again of a letter the record that it tells of.
type letterCodec struct{}

// Decode gives a record whose text is the letter, so that lines and messages are read alike.
func (letterCodec) Decode(value []byte, record *job.Record) {
	record.Text = strings.TrimSuffix(string(value), "\n")
}

func letterOf(record *job.Record) (*deadletter.Letter, error) {
	if record.Err != nil {
		return nil, record.Err
	}
	letter, err := deadletter.Parse([]byte(record.Text))
	if err != nil {
		return nil, fmt.Errorf("record %d is no dead letter: %w", record.Seq, err)
	}
	return &letter, nil
}

// Append appends the record that a letter tells of, as it was read.
func (letterCodec) Append(dst []byte, output *job.Output) ([]byte, error) {
	letter, err := letterOf(&output.Record)
	if err != nil {
		return dst, err
	}
	if len(letter.Original) == 0 {
		return dst, fmt.Errorf("the letter of %s record %d does not hold the original, which was too large: send it again yourself",
			letter.Lane, letter.Record)
	}
	return append(dst, letter.Original...), nil
}

// PartitionOf is the partition that a record without a key was read from: it goes back there.
func (letterCodec) PartitionOf(output *job.Output) (int, bool) {
	letter, err := letterOf(&output.Record)
	if err != nil {
		return 0, false
	}
	id, err := strconv.Atoi(letter.Lane[strings.LastIndexByte(letter.Lane, '/')+1:])
	return id, err == nil && id >= 0
}

// letterLines writes originals as lines.
type letterLines struct{ letterCodec }

// Append appends an original and a line feed.
func (l letterLines) Append(dst []byte, output *job.Output) ([]byte, error) {
	dst, err := l.letterCodec.Append(dst, output)
	return append(dst, '\n'), err
}

// A passThrough stands in the place of an engine where nothing is to be translated.
type passThrough struct{}

// Submit answers at once.
func (passThrough) Submit(segment job.Segment) {
	segment.Done(job.Result{Hypotheses: []job.Hypothesis{{Text: segment.Text}}})
}

// Flush does nothing: nothing waits.
func (passThrough) Flush() {}

// Close does nothing.
func (passThrough) Close() {}

func newLettersReplayCommand() *cobra.Command {
	var to string
	command := &cobra.Command{
		Annotations: finishes(),
		Use:         "replay [--to PLACE] JOB.yml",
		Short:       "Send the records of dead letters again, each once",
		Long: `Send the records that could not be translated again, as they were read. Each is sent once, whatever crashes when:
the same command continues, and letters that were sent to the same place before are passed over.

They go to the topic that they came from, with their keys and headers, or to another place of the same kind as the
job's source: a topic, a prefix such as s3://bucket/again/ or a folder. A record without a key goes to the partition of
the number that it came from.`,
		Args: exactArguments(1, "a job file"),
		RunE: func(command *cobra.Command, arguments []string) error {
			j := &streamingJob{path: arguments[0], stderr: command.ErrOrStderr()}
			defer j.close()
			return j.replay(command.Context(), to)
		},
	}
	command.Flags().StringVar(&to, "to", "", "where to send them: a topic, a prefix or a folder, as the job's source is one")
	return command
}

// replay carries the letters to the source that they came from.
func (j *streamingJob) replay(ctx context.Context, to string) error {
	original, err := j.readLetterJob("replay")
	if err != nil {
		return err
	}
	switch s := &original.Source; {
	case s.Kafka != nil:
		if to == "" && len(s.Kafka.Topics) > 1 {
			return usageErrorf("the job reads several topics: name one with --to")
		}
		if to == "" {
			to = s.Kafka.Topics[0]
		}
		if len(s.Kafka.Topics) > 1 || to != s.Kafka.Topics[0] { // how far it has come is remembered for each place
			j.job.Name += "." + to
		}
		j.job.Sink.Kafka = &jobfile.KafkaSink{Topic: to, Partition: "key", Guarantee: "exactly-once", KafkaCluster: s.Kafka.KafkaCluster}
	case to == "":
		return usageErrorf("--to is needed: a prefix or a folder for the records of dead letters")
	case s.S3 != nil:
		j.job.Sink.S3 = &jobfile.S3Sink{Prefix: to, S3Store: s.S3.S3Store}
	default:
		j.job.Sink.Files = &jobfile.FileSink{Folder: to}
	}
	source, err := j.letterSource()
	if err != nil {
		return err
	}
	sink, err := j.sink(source, recordio.Options{}, letterLines{}, letterCodec{}, nil)
	if err != nil {
		return err
	}
	p := pipeline.New(pipeline.Config{
		Memory: int64(j.job.Memory), Lanes: j.job.Lanes, CommitEvery: j.job.CommitEvery, Grace: j.job.Grace, Logger: j.logger, Shared: true,
	}, source, sink, passThrough{})
	err = p.Run(ctx)
	fmt.Fprintf(j.stderr, "%d records were sent again\n", p.Stats().Records)
	return j.explain(err, false)
}
