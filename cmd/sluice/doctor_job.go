package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/s3client"
)

// What the buffers of a lane take, about.
const (
	partitionBuffers = 2 << 20 // of a partition: what is read ahead, and a batch of the usual size
	uploadBuffer     = 8 << 20 // of an object that is written: a part
)

// source tries what a job reads.
func (e *examination) source(ctx context.Context, j *streamingJob) {
	switch s := &j.job.Source; {
	case s.Kafka != nil:
		e.lanes += int64(e.topics(ctx, j, "source.kafka", s.Kafka)) * partitionBuffers
	case s.S3 != nil:
		e.objects(ctx, j, s.S3)
		if s.S3.Topic != nil {
			e.topics(ctx, j, "source.s3.topic", s.S3.Topic)
		}
		if s.S3.Queue != "" {
			e.skip("queue", "to look for a message would take it from a worker")
		}
	default:
		e.inputFiles(ctx, j, s.Files)
	}
}

// sink tries where a job writes.
func (e *examination) sink(ctx context.Context, j *streamingJob) {
	switch s := &j.job.Sink; {
	case s.Kafka != nil:
		e.outputTopics(ctx, j, s.Kafka)
	case s.S3 != nil:
		e.lanes += int64(orDefault(j.job.Lanes, 32, 32)) * uploadBuffer
		e.outputObjects(ctx, j, s.S3)
	default:
		e.outputFolder("sink", s.Files.Folder)
		if j.job.DeadLetters != "" {
			e.outputFolder("dead letters", j.job.DeadLetters)
		}
	}
}

// orDefault is a number, at most most, or what stands for 0.
func orDefault(n, otherwise, most int) int {
	if n == 0 {
		return otherwise
	}
	return min(n, most)
}

// topics tries the topics and the group of a source. It returns how many partitions there are.
func (e *examination) topics(ctx context.Context, j *streamingJob, path string, s *jobfile.KafkaSource) (partitions int) {
	client, err := j.kafkaClient(path, &s.KafkaCluster)
	if err != nil {
		e.fail(exitCode(err), path, reasonOf(err), "")
		return 0
	}
	for _, topic := range s.Topics {
		partitions += e.topic(ctx, client, exitInput, topic, kafkaclient.MayRead|kafkaclient.MayDescribe)
	}
	if partitions > 0 {
		e.group(ctx, client, s.Group)
	}
	return partitions
}

// operationNames are what permissions are called where they are given.
var operationNames = []struct {
	operation kafkaclient.Operations
	name      string
}{{kafkaclient.MayRead, "READ"}, {kafkaclient.MayWrite, "WRITE"}, {kafkaclient.MayDescribe, "DESCRIBE"}}

// lacking names the operations that are needed and not allowed.
func lacking(allowed, needed kafkaclient.Operations) string {
	var names []string
	for _, o := range operationNames {
		if needed&o.operation != 0 && allowed&o.operation == 0 {
			names = append(names, o.name)
		}
	}
	return strings.Join(names, " and ")
}

// topic tries a topic. It returns how many partitions it has, 0 if it cannot be used.
func (e *examination) topic(ctx context.Context, client *kafkaclient.Client, code int, topic string, needed kafkaclient.Operations) (partitions int) {
	name := "topic " + topic
	var allowed kafkaclient.Operations
	var known bool
	err := within(ctx, func(ctx context.Context) (err error) {
		if partitions, err = client.Partitions(ctx, topic); err != nil {
			return err
		}
		allowed, known, err = client.TopicOperations(ctx, topic)
		return err
	})
	switch {
	case errors.Is(err, kafkaclient.ErrNoTopic):
		e.fail(code, name, reasonOf(err), "create it, or allow DESCRIBE on it (infra/kafka/acls.sh prints what a job needs)")
		return 0
	case err != nil:
		e.fail(code, name, reasonOf(err), "see that brokers, tls and sasl are right, and that the brokers can be reached by the names that they give themselves")
		return 0
	}
	if known {
		if missing := lacking(allowed, needed); missing != "" {
			e.fail(code, name, fmt.Sprintf("%d partitions; %s is not allowed", partitions, missing), "allow it: infra/kafka/acls.sh prints what a job needs")
			return partitions
		}
		e.ok(name, "%d partitions, permissions suffice", partitions)
		return partitions
	}
	e.ok(name, "%d partitions; the brokers do not tell what is allowed", partitions)
	return partitions
}

// group looks at whether we may be a member of a group, without joining it: that would stop its members for a moment.
func (e *examination) group(ctx context.Context, client *kafkaclient.Client, group string) {
	name := "group " + group
	var allowed kafkaclient.Operations
	var known bool
	err := within(ctx, func(ctx context.Context) (err error) {
		allowed, known, err = client.GroupOperations(ctx, group)
		return err
	})
	switch {
	case err != nil:
		e.fail(exitInput, name, reasonOf(err), "allow READ on it: infra/kafka/acls.sh prints what a job needs")
	case known && lacking(allowed, kafkaclient.MayRead) != "":
		e.fail(exitInput, name, "READ is not allowed", "allow it: infra/kafka/acls.sh prints what a job needs")
	case known:
		e.ok(name, "permissions suffice")
	default:
		e.ok(name, "the coordinator answers, and does not tell what is allowed")
	}
}

// outputTopics tries the topics of a sink, and whether it may write in transactions.
func (e *examination) outputTopics(ctx context.Context, j *streamingJob, s *jobfile.KafkaSink) {
	client, err := j.kafkaClient("sink.kafka", &s.KafkaCluster)
	if err != nil {
		e.fail(exitCode(err), "sink.kafka", reasonOf(err), "")
		return
	}
	needed := kafkaclient.MayWrite | kafkaclient.MayDescribe | kafkaclient.MayRead
	partitions := e.topic(ctx, client, exitOutput, s.Topic, needed)
	for _, more := range []string{j.job.DeadLetters, s.Markers} {
		if more != "" {
			e.topic(ctx, client, exitOutput, more, needed)
		}
	}
	if partitions == 0 {
		return
	}
	e.enoughPartitions(ctx, j, s, partitions)
	if s.Guarantee != "exactly-once" {
		return
	}
	err = within(ctx, client.NewProducer(j.job.Name+"/doctor", time.Minute).Init)
	if err != nil {
		e.fail(exitOutput, "transactions", reasonOf(err),
			"allow WRITE and DESCRIBE on transactional ids that begin with "+j.job.Name+"/; brokers without transactions need guarantee: at-least-once")
		return
	}
	e.ok("transactions", "can be begun")
}

// enoughPartitions sees that each partition of the source has one of the sink, where it goes to that of the same number.
func (e *examination) enoughPartitions(ctx context.Context, j *streamingJob, s *jobfile.KafkaSink, partitions int) {
	source := j.job.Source.Kafka
	if source == nil || s.Partition != "" && s.Partition != "same" {
		return
	}
	client, err := j.kafkaClient("source.kafka", &source.KafkaCluster)
	if err != nil {
		return // which has been told
	}
	for _, topic := range source.Topics {
		ctx, cancel := context.WithTimeout(ctx, trialPatience)
		n := client.KnownPartitions(ctx, topic)
		cancel()
		if n > partitions {
			e.fail(exitOutput, "partitions", fmt.Sprintf("%s has %d, and %s has %d", topic, n, s.Topic, partitions),
				"give the topic of the sink as many, or say partition: key")
		}
	}
}

// objects tries the inputs of a job: the first of each prefix is looked for and read from.
func (e *examination) objects(ctx context.Context, j *streamingJob, s *jobfile.S3Source) {
	client, _, err := j.s3Client("source.s3", &s.S3Store)
	if err != nil {
		e.fail(exitCode(err), "source.s3", reasonOf(err), "")
		return
	}
	for _, input := range append(append([]string{}, s.Inputs...), s.Manifests...) {
		if !strings.HasPrefix(input, "s3://") {
			continue // a list in a file
		}
		var found string
		err := within(ctx, func(ctx context.Context) (err error) {
			found, err = readSome(ctx, client, input)
			return err
		})
		switch {
		case err != nil:
			e.fail(exitInput, "input", reasonOf(err), adviceOnStore(err))
		case found == "":
			e.warn("input", input+" holds nothing yet", "see that the prefix is right, if there should be something")
		default:
			e.ok("input", "%s can be listed, and %s be read", input, found)
		}
	}
}

// readSome reads the beginning of the first object of an input. It returns the object's name, "" if there is none.
func readSome(ctx context.Context, client *s3client.Client, input string) (string, error) {
	bucket, key, err := s3client.ParseURI(input)
	if err != nil {
		return "", err
	}
	if key == "" || strings.HasSuffix(key, "/") {
		if key, err = client.FirstAfter(ctx, bucket, key, ""); err != nil || key == "" {
			return "", err
		}
	}
	info, err := client.Head(ctx, bucket, key)
	if err != nil {
		return "", err
	}
	if info.Size > 0 {
		reader, err := client.OpenAt(ctx, info, 0)
		if err != nil {
			return "", err
		}
		_, err = reader.Read(make([]byte, 1))
		if closeErr := reader.Close(); err != nil {
			return "", errors.Join(err, closeErr)
		}
	}
	return info.URI(), nil
}

// outputObjects writes objects for a trial and removes them.
func (e *examination) outputObjects(ctx context.Context, j *streamingJob, s *jobfile.S3Sink) {
	client, _, err := j.s3Client("sink.s3", &s.S3Store)
	if err != nil {
		e.fail(exitCode(err), "sink.s3", reasonOf(err), "")
		return
	}
	for _, place := range []struct{ name, prefix string }{{"output", s.Prefix}, {"dead letters", j.job.DeadLetters}} {
		if place.prefix == "" {
			continue
		}
		err := within(ctx, func(ctx context.Context) error {
			bucket, key, err := s3client.ParseURI(place.prefix)
			if err != nil {
				return err
			}
			return client.Probe(ctx, bucket, key)
		})
		if err != nil {
			e.fail(exitOutput, place.name, reasonOf(err), adviceOnStore(err))
			continue
		}
		e.ok(place.name, "%s can be written, and the store keeps conditions", place.prefix)
	}
}

func adviceOnStore(err error) string {
	switch {
	case errors.Is(err, s3client.ErrDenied):
		return "allow it: infra/iam holds the policies that jobs need"
	case errors.Is(err, s3client.ErrNoConditions):
		return "take a store that keeps If-None-Match and If-Match, as Amazon's does"
	case errors.Is(err, s3client.ErrNotFound):
		return "see that the bucket, the region and path-style are right"
	}
	return "see that endpoint, region and keys are right, and that the store can be reached"
}

// inputFiles lists the files of a job.
func (e *examination) inputFiles(ctx context.Context, j *streamingJob, s *jobfile.FileSource) {
	lanes, err := countFiles(ctx, j, s)
	switch {
	case err != nil:
		e.fail(exitInput, "input", reasonOf(err), "see that the paths are right and may be read")
	case lanes == 0:
		e.warn("input", strings.Join(s.Paths, " ")+": nothing is there", "see that the paths are right")
	default:
		e.ok("input", "%d files", lanes)
	}
}

func countFiles(ctx context.Context, j *streamingJob, s *jobfile.FileSource) (lanes int, err error) {
	records, err := j.records()
	if err != nil {
		return 0, err
	}
	source, err := j.fileSource(s, records)
	if err != nil {
		return 0, err
	}
	if err := source.Connect(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close(ctx)) }()
	for ; ; lanes++ {
		lane, err := source.Next(ctx)
		if errors.Is(err, consumer.ErrEndOfInput) {
			return lanes, nil
		}
		if err != nil {
			return lanes, err
		}
		if err := lane.Close(); err != nil {
			return lanes, err
		}
	}
}

// leastSpace is less than what a disk should have for outputs.
const leastSpace = 1 << 30

// outputFolder writes a file where outputs will lie, or where their folder will, and removes it.
func (e *examination) outputFolder(name, folder string) {
	at, err := filepath.Abs(folder)
	for err == nil {
		if _, err = os.Stat(at); err == nil || !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at, err = filepath.Dir(at), nil
	}
	if err == nil {
		err = probeFolder(at)
	}
	if err != nil {
		e.fail(exitOutput, name, reasonOf(err), "see that the folder may be written")
		return
	}
	free, known := freeSpace(at)
	switch {
	case known && free < leastSpace:
		e.warn(name, fmt.Sprintf("%s can be written, and has room for %d MiB", folder, free>>20), "make room: outputs are as long as inputs")
	case known:
		e.ok(name, "%s can be written, and has room for %d GiB", folder, free>>30)
	default:
		e.ok(name, "%s can be written", folder)
	}
}
