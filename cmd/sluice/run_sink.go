package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/producer"
	filesink "github.com/sluice-mt/sluice/producer/file"
	kafkasink "github.com/sluice-mt/sluice/producer/kafka"
	s3sink "github.com/sluice-mt/sluice/producer/s3"
)

// ends makes the source and the sink of a job.
func (j *streamingJob) ends(parts *engineParts) (*jobSource, producer.Sink, error) {
	count, fields := 1+len(parts.config.Text.Further), 1+len(j.job.Records.Further)
	if fields > 1 && fields != count {
		return nil, nil, usageErrorf("records: the models read %d, but field and further name %d: they must be as many", count, fields)
	}
	records, err := j.records()
	if err != nil {
		return nil, nil, err
	}
	value, err := j.value()
	if err != nil {
		return nil, nil, err
	}
	source, err := j.source(records, value)
	if err != nil {
		return nil, nil, err
	}
	madeWith, err := j.madeWith(parts)
	if err != nil {
		return nil, nil, err
	}
	var lines, messages encoder = recordio.NewEncoder(records), value
	switch {
	case value != nil:
		lines = recordio.NewValueLines(value)
	case j.job.Records.NBest:
		list, err := newListEncoder(parts)
		if err != nil {
			return nil, nil, err
		}
		lines = list
	}
	sink, err := j.sink(source, records, lines, messages, madeWith)
	return source, sink, err
}

// An encoder makes the bytes of an output: a line, or the value of a message.
type encoder interface {
	Append(dst []byte, output *job.Output) ([]byte, error)
}

// sink makes the sink of a job, with encoders for lines and, where the source has messages, for these.
func (j *streamingJob) sink(source *jobSource, records recordio.Options, lines, messages encoder, madeWith map[string]string) (producer.Sink, error) {
	switch s := &j.job.Sink; {
	case s.Files != nil:
		return j.fileSink(s.Files, source, records, lines, madeWith)
	case s.S3 != nil:
		return j.s3Sink(s.S3, source, records, lines, madeWith)
	default:
		return j.kafkaSink(s.Kafka, source, lines, messages, madeWith)
	}
}

// records are the options of files and objects.
func (j *streamingJob) records() (recordio.Options, error) {
	r := &j.job.Records
	options := recordio.Options{Field: r.Field, Further: r.Further, Header: r.Header, MaxLine: int(r.MaxSize)}
	if len(r.Targets) == 1 {
		options.Target = r.Targets[0]
	}
	var err error
	if options.Format, err = recordio.ParseFormat(r.Format); err != nil {
		return options, usageErrorf("records.format: %v", err)
	}
	if j.job.Source.Kafka != nil {
		return options, nil // which is checked as the layout of messages
	}
	if err := options.Check(); err != nil {
		return options, usageErrorf("records: %v", err)
	}
	return options, nil
}

// madeWith lists what outputs depend on, by name.
func (j *streamingJob) madeWith(parts *engineParts) (map[string]string, error) {
	made, err := parts.ingredients()
	if err != nil {
		return nil, err
	}
	r := &j.job.Records
	made["format"], made["field"], made["targets"] = r.Format, r.Field, strings.Join(r.Targets, " ")
	if len(r.Further) > 0 {
		made["further"] = strings.Join(r.Further, "\n")
	}
	if r.NBest {
		made["n-best"] = "true"
	}
	made["header"], made["sentences"] = fmt.Sprint(r.Header), fmt.Sprint(j.job.Sentences)
	made["max-record"], made["dead-letters"] = fmt.Sprint(r.MaxSize), fmt.Sprint(j.job.DeadLetters != "")
	return made, nil
}

func (j *streamingJob) fileSink(s *jobfile.FileSink, source *jobSource, records recordio.Options, lines encoder, madeWith map[string]string) (producer.Sink, error) {
	if source.kafka != nil {
		return j.fileChain(s, lines, madeWith), nil
	}
	config := filesink.Config{
		Path: func(lane string) (string, error) {
			relative, err := source.relative(lane)
			return filepath.Join(s.Folder, filepath.FromSlash(withSuffix(relative, s.Suffix))), err
		},
		Encoder: lines, Input: source.identity, Reads: source.reads, MadeWith: madeWith, Overwrite: s.Overwrite, Folder: s.Folder,
	}
	if letters := j.job.DeadLetters; letters != "" {
		config.DeadLetters = func(lane string) (string, error) {
			relative, err := source.relative(lane)
			return filepath.Join(letters, filepath.FromSlash(relative)+".jsonl"), err
		}
	}
	if records.Format == recordio.Parquet {
		if source.s3 != nil {
			return nil, usageErrorf("records.format: Parquet objects can be translated to S3 or Parquet files to files, not from one to the other")
		}
		config.Assemble = recordio.AssembleParquet(records, func(lane string) string { return lane })
	}
	return filesink.New(config), nil
}

// fileChain writes messages to files, a folder for each partition.
func (j *streamingJob) fileChain(s *jobfile.FileSink, lines encoder, madeWith map[string]string) producer.Sink {
	below := func(folder string) func(string) (string, error) {
		return func(lane string) (string, error) { return filepath.Join(folder, filepath.FromSlash(lane)), nil }
	}
	config := filesink.ChainConfig{
		Folder: below(s.Folder), Suffix: j.chainSuffix(s.Suffix), Encoder: lines, MadeWith: madeWith, Continue: j.acceptChanges,
		Bytes: int64(s.RunSize), Age: s.RunAge,
	}
	if j.job.DeadLetters != "" {
		config.DeadLetters = below(j.job.DeadLetters)
	}
	return filesink.NewChain(config)
}

// withSuffix appends a suffix to a name, before that of a compression.
func withSuffix(name, suffix string) string {
	compression := compress.BySuffix(name).Suffix()
	return strings.TrimSuffix(name, compression) + suffix + compression
}

// chainSuffix is the ending of the files or objects that messages are written to.
func (j *streamingJob) chainSuffix(suffix string) string {
	if suffix != "" {
		return suffix
	}
	return map[string]string{"text": ".txt", "tsv": ".tsv", "jsonl": ".jsonl"}[j.job.Records.Format]
}

func (j *streamingJob) s3Sink(s *jobfile.S3Sink, source *jobSource, records recordio.Options, lines encoder, madeWith map[string]string) (producer.Sink, error) {
	client, _, err := j.s3Client("sink.s3", &s.S3Store)
	if err != nil {
		return nil, err
	}
	config := s3sink.Config{
		Client: client, Job: j.job.Name, Output: s.Prefix, Encoder: lines, MadeWith: madeWith,
		Overwrite: s.Overwrite, DeadLetters: j.job.DeadLetters, Logger: j.logger,
		Key: func(lane string) (string, error) {
			relative, err := source.relative(lane)
			return withSuffix(filepath.ToSlash(relative), s.Suffix), err
		},
	}
	if source.identity != nil {
		config.Input = source.identity
	}
	if source.kafka != nil {
		config.Key = source.relative
		config.Chain = &s3sink.Chain{Suffix: j.chainSuffix(s.Suffix), Bytes: int64(s.RunSize), Age: s.RunAge, Continue: j.acceptChanges}
	}
	if source.s3 != nil && j.job.Source.S3.Split > 0 {
		config.Range = func(lane string) (s3sink.Range, error) {
			r, err := source.s3.Range(lane)
			return s3sink.Range(r), err
		}
	}
	if records.Format == recordio.Parquet {
		if source.s3 == nil || j.job.Source.S3.Split > 0 {
			return nil, usageErrorf("records.format: Parquet objects are made of whole Parquet objects only")
		}
		config.Assemble = recordio.AssembleParquetFrom(records, source.s3.Parquet)
	}
	return s3sink.New(config), nil
}

func (j *streamingJob) kafkaSink(s *jobfile.KafkaSink, source *jobSource, lines, messages encoder, madeWith map[string]string) (producer.Sink, error) {
	client, err := j.kafkaClient("sink.kafka", &s.KafkaCluster)
	if err != nil {
		return nil, err
	}
	config := kafkasink.Config{
		Client: client, Job: j.job.Name, Topic: s.Topic, MadeWith: madeWith, AcceptChanges: j.acceptChanges,
		DeadLetters: j.job.DeadLetters, Markers: s.Markers, Logger: j.logger,
	}
	if source.kafka != nil {
		config.Encoder = messages
	} else {
		config.Encoder, config.TrimLineFeed, config.Input = lines, true, source.identity
	}
	if j.sameCluster() {
		config.Membership = source.kafka
	}
	if s.Guarantee == "at-least-once" {
		config.Delivery = kafkasink.AtLeastOnce
	}
	switch s.Partition {
	case "", "same":
	case "key":
		config.Partitioning = kafkasink.ByKey
	default:
		config.Partitioning = kafkasink.FixedPartition
		if config.Partition, err = strconv.Atoi(s.Partition); err != nil {
			return nil, usageErrorf("sink.kafka.partition: %v", err)
		}
	}
	if s.Compression != "" {
		if config.Compression, err = kafkaclient.ParseCompression(s.Compression); err != nil {
			return nil, usageErrorf("sink.kafka.compression: %v", err)
		}
	}
	return kafkasink.New(config), nil
}

// describeSink names a sink for messages.
func describeSink(s *jobfile.Sink) string {
	switch {
	case s.Files != nil:
		return s.Files.Folder
	case s.S3 != nil:
		return s.S3.Prefix
	}
	return s.Kafka.Topic
}
