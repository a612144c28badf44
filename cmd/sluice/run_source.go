package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/sluice-mt/sluice/consumer"
	filesource "github.com/sluice-mt/sluice/consumer/file"
	kafkasource "github.com/sluice-mt/sluice/consumer/kafka"
	s3source "github.com/sluice-mt/sluice/consumer/s3"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/shard"
)

// A jobSource is a source with what the rest of a job has to know of it.
type jobSource struct {
	consumer.Source
	description string
	endless     bool // it ends when it is told to
	shared      bool // its lanes are handed out by a group: to take one is to take it from others

	identity identifier                        // nil for topics
	relative func(lane string) (string, error) // where a lane's output lies, below a folder or prefix
	reads    func(fs.FileInfo) string          // names the input that a file is; nil where no files are read
	look     func(context.Context) error       // sees whether it is there without taking part; nil to connect
	lag      func() map[string]int64           // nil where nothing is known

	kafka *kafkasource.Source
	s3    *s3source.Source
}

// An identifier recognises the inputs of lanes.
type identifier interface {
	Identity(lane string) (json.RawMessage, error)
	Changes(lane string, stored json.RawMessage) ([]string, error)
}

// source makes the source of a job. Messages are read with codec.
func (j *streamingJob) source(records recordio.Options, codec kafkasource.Codec) (*jobSource, error) {
	switch s := &j.job.Source; {
	case s.Files != nil:
		return j.fileSource(s.Files, records)
	case s.S3 != nil:
		return j.s3Source(s.S3, records)
	default:
		return j.kafkaSource("source.kafka", s.Kafka, codec, !j.transactional())
	}
}

func (j *streamingJob) fileSource(s *jobfile.FileSource, records recordio.Options) (*jobSource, error) {
	part, err := j.shard()
	if err != nil {
		return nil, err
	}
	config := filesource.Config{Paths: s.Paths, Records: records}
	if folder := j.job.Sink.Files; folder != nil {
		config.Exclude = []string{folder.Folder, j.job.DeadLetters}
	}
	files := filesource.New(config)
	return &jobSource{
		Source: &shardedFiles{files, part}, description: strings.Join(s.Paths, " "), identity: files, relative: files.Relative, reads: files.Reads,
	}, nil
}

// shardedFiles gives the lanes of one worker.
type shardedFiles struct {
	*filesource.Source
	shard shard.Shard
}

// Next returns the next lane that belongs to the worker.
func (s *shardedFiles) Next(ctx context.Context) (consumer.Lane, error) {
	for {
		lane, err := s.Source.Next(ctx)
		if err != nil || s.shard.Has(lane.Name()) {
			return lane, err
		}
		if err := lane.Close(); err != nil {
			return nil, err
		}
	}
}

// shard finds the part of all lanes that this worker takes.
func (j *streamingJob) shard() (shard.Shard, error) {
	if j.job.Shard != "auto" {
		part, err := shard.Parse(j.job.Shard)
		if err != nil {
			return part, usageErrorf("shard: %v", err)
		}
		return part, nil
	}
	part, where, err := shard.Detect(os.Getenv, 0)
	if err != nil {
		return part, usageErrorf("shard: %v", err)
	}
	if where != "" {
		j.logger.Info("part of the lanes", "shard", part.String(), "found in", where)
	}
	return part, nil
}

func (j *streamingJob) s3Source(s *jobfile.S3Source, records recordio.Options) (*jobSource, error) {
	client, clientConfig, err := j.s3Client("source.s3", &s.S3Store)
	if err != nil {
		return nil, err
	}
	config := s3source.Config{
		Client: client, Inputs: s.Inputs, Manifests: s.Manifests, Exclude: s.Exclude, Poll: s.Poll, Split: int64(s.Split),
		Records: records, Logger: j.logger,
	}
	if s.Topic != nil {
		if config.Feed, err = j.topicFeed(s.Topic); err != nil {
			return nil, err
		}
	} else if s.Queue != "" {
		if config.Feed, err = s3source.NewQueue(context.Background(), clientConfig, s3source.SQS{URL: s.Queue}); err != nil {
			return nil, usageErrorf("source.s3.queue: %v", err)
		}
	} else if config.Shard, err = j.shard(); err != nil {
		return nil, err
	}
	if sink := j.job.Sink.S3; sink != nil {
		config.Exclude = append(config.Exclude, sink.Prefix)
		if j.job.DeadLetters != "" {
			config.Exclude = append(config.Exclude, j.job.DeadLetters)
		}
	}
	source := s3source.New(config)
	return &jobSource{
		Source: source, description: strings.Join(append(s.Inputs, s.Manifests...), " "), endless: s.Poll > 0 || config.Feed != nil,
		identity: source, relative: source.Relative, s3: source,
	}, nil
}

// topicFeed reads the notifications that a store writes to a topic.
func (j *streamingJob) topicFeed(s *jobfile.KafkaSource) (s3source.Feed, error) {
	plain, err := recordio.NewValue(recordio.ValueOptions{})
	if err != nil {
		return nil, err
	}
	source, err := j.kafkaSource("source.s3.topic", s, plain, true)
	if err != nil {
		return nil, err
	}
	feed := s3source.NewRecordFeed(source, j.logger)
	j.closers = append(j.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), j.job.Grace)
		defer cancel()
		if err := feed.Close(ctx); err != nil {
			j.logger.Warn("the group of the notifications could not be left", "error", err)
		}
	})
	return feed, nil
}

// s3Client opens the client of a store. It returns its configuration as well, for services beside the store.
func (j *streamingJob) s3Client(path string, s *jobfile.S3Store) (*s3client.Client, s3client.Config, error) {
	config, err := s3Config(s)
	if err != nil {
		return nil, config, err
	}
	client, err := s3client.New(context.Background(), config)
	if err != nil {
		return nil, config, usageErrorf("%s: %v", path, err)
	}
	j.closers = append(j.closers, client.Close)
	return client, config, nil
}

// s3Config turns settings into a client's configuration.
func s3Config(s *jobfile.S3Store) (s3client.Config, error) {
	secret, err := secret(s.SecretKey, s.SecretKeyFile)
	config := s3client.Config{
		Endpoint: s.Endpoint, Region: s.Region, PathStyle: s.PathStyle, AccessKey: s.AccessKey, SecretKey: secret,
		Profile: s.Profile, Anonymous: s.Anonymous, RequesterPays: s.RequesterPays, Owner: s.Owner, Encryption: s.Encryption,
		KMSKey: s.KMSKey, Checksums: s.Checksums,
	}
	return config, err
}

// secret returns a secret that is given itself or lies in a file. A line feed at its end, which editors add, does not count.
func secret(text, path string) (string, error) {
	if path == "" {
		return text, nil
	}
	content, err := readSettings(path)
	if err != nil {
		return "", usageErrorf("secret: %v", err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// kafkaSource reads topics. commit says that nobody else stores in the group what is done.
func (j *streamingJob) kafkaSource(path string, s *jobfile.KafkaSource, codec kafkasource.Codec, commit bool) (*jobSource, error) {
	client, err := j.kafkaClient(path, &s.KafkaCluster)
	if err != nil {
		return nil, err
	}
	begin := kafkasource.Earliest
	if s.Begin == "last" {
		begin = kafkasource.Latest
	}
	source := kafkasource.New(kafkasource.Config{
		Client: client, Topics: s.Topics, Group: s.Group, Values: codec, Instance: s.Instance, Begin: begin, SkipLost: s.SkipLost,
		CommitOffsets: commit, StopAtEnd: s.StopAtEnd, Session: s.Session, Rebalance: s.Rebalance, MaxBatch: int(s.MaxBatch), Logger: j.logger,
	})
	look := func(ctx context.Context) error {
		for _, topic := range s.Topics {
			if _, err := client.Partitions(ctx, topic); err != nil {
				return err
			}
		}
		return nil
	}
	return &jobSource{
		look:   look,
		Source: source, description: fmt.Sprintf("%s (group %s)", strings.Join(s.Topics, " "), s.Group), endless: !s.StopAtEnd, shared: true,
		relative: func(lane string) (string, error) { return lane, nil }, lag: source.Lag, kafka: source,
	}, nil
}

// value is the layout of messages; nil where the source has none.
func (j *streamingJob) value() (*recordio.Value, error) {
	if j.job.Source.Kafka == nil {
		return nil, nil
	}
	format, err := recordio.ParseFormat(j.job.Records.Format)
	if err != nil {
		return nil, usageErrorf("records.format: %v", err)
	}
	value, err := recordio.NewValue(recordio.ValueOptions{Format: format, Field: j.job.Records.Field, Further: j.job.Records.Further, Targets: j.job.Records.Targets, MaxSize: int(j.job.Records.MaxSize)})
	if err != nil {
		return nil, usageErrorf("records: %v", err)
	}
	return value, nil
}

// sameCluster says whether source and sink are topics of one cluster.
func (j *streamingJob) sameCluster() bool {
	source, sink := j.job.Source.Kafka, j.job.Sink.Kafka
	return source != nil && sink != nil && reflect.DeepEqual(source.KafkaCluster, sink.KafkaCluster)
}

// transactional says whether the sink commits the source's offsets.
func (j *streamingJob) transactional() bool {
	return j.sameCluster() && j.job.Sink.Kafka.Guarantee == "exactly-once"
}

// An openCluster is a cluster whose client is open.
type openCluster struct {
	settings *jobfile.KafkaCluster
	client   *kafkaclient.Client
}

// kafkaClient opens the client of a cluster, which source and sink share where it is the same.
func (j *streamingJob) kafkaClient(path string, c *jobfile.KafkaCluster) (*kafkaclient.Client, error) {
	for _, open := range j.clusters {
		if reflect.DeepEqual(open.settings, c) {
			return open.client, nil
		}
	}
	config := kafkaclient.Config{Brokers: c.Brokers, ClientID: "sluice-" + j.job.Name, Topics: j.topics(c), Logger: j.logger}
	var err error
	if config.TLS, err = kafkaTLS(c.TLS); err != nil {
		return nil, usageErrorf("%s.tls: %v", path, err)
	}
	if s := c.SASL; s != nil {
		password, err := secret(s.Password, s.PasswordFile)
		if err != nil {
			return nil, err
		}
		config.SASL = kafkaclient.SASL{Mechanism: s.Mechanism, User: s.User, Password: password}
	}
	client, err := kafkaclient.New(config)
	if err != nil {
		return nil, usageErrorf("%s: %v", path, err)
	}
	j.clusters = append(j.clusters, openCluster{c, client})
	j.closers = append(j.closers, client.Close)
	return client, nil
}

// topics lists the topics of the job in a cluster.
func (j *streamingJob) topics(c *jobfile.KafkaCluster) []string {
	var topics []string
	if source := j.job.Source.Kafka; source != nil && reflect.DeepEqual(&source.KafkaCluster, c) {
		topics = append(topics, source.Topics...)
	}
	if s3 := j.job.Source.S3; s3 != nil && s3.Topic != nil && reflect.DeepEqual(&s3.Topic.KafkaCluster, c) {
		topics = append(topics, s3.Topic.Topics...)
	}
	if sink := j.job.Sink.Kafka; sink != nil && reflect.DeepEqual(&sink.KafkaCluster, c) {
		topics = append(topics, sink.Topic)
		for _, more := range []string{j.job.DeadLetters, sink.Markers} {
			if more != "" {
				topics = append(topics, more)
			}
		}
	}
	return topics
}

func kafkaTLS(t *jobfile.KafkaTLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	return kafkaclient.TLSFiles{CA: t.CA, Certificate: t.Certificate, Key: t.Key, ServerName: t.ServerName}.Load()
}
