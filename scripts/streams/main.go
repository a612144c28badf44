// Streams writes to topics and reads from them, for scripts that try jobs out. It reads as a consumer has to that must not see
// outputs of aborted transactions.
//
//	streams topics BROKER NAME:PARTITIONS...    creates topics
//	streams write BROKER TOPIC                  writes a message for each line of standard input: KEY, a tab, the value
//	streams read BROKER TOPIC COUNT             waits for so many messages, and prints partition, offset, key and value of each,
//	                                            separated by tabs; a COUNT of 0 prints what is there
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	patience = 5 * time.Minute // for everything
	quiet    = 2 * time.Second // without a message, after which all that is there has been read
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "streams:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, in io.Reader, out io.Writer) error {
	if len(arguments) < 3 {
		return errors.New("expected topics, write or read, a broker, and topics")
	}
	what, broker, rest := arguments[0], arguments[1], arguments[2:]
	switch what {
	case "topics":
		return create(ctx, broker, rest)
	case "write":
		return write(ctx, broker, rest[0], in)
	case "read":
		if len(rest) != 2 {
			return errors.New("read needs a topic and a number")
		}
		count, err := strconv.Atoi(rest[1])
		if err != nil {
			return err
		}
		return show(ctx, broker, rest[0], count, out)
	}
	return fmt.Errorf("%q is none of topics, write and read", what)
}

func create(ctx context.Context, broker string, topics []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 30_000
	for _, text := range topics {
		name, partitions, _ := strings.Cut(text, ":")
		topic := kmsg.NewCreateTopicsRequestTopic()
		count, err := strconv.ParseInt(partitions, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not of the form NAME:PARTITIONS", text)
		}
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(count), -1
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("topic %s: %w", topic.Topic, err)
		}
	}
	return nil
}

func write(ctx context.Context, broker, topic string, in io.Reader) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed error // the client calls back from one goroutine, and Flush returns after the last call
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		key, value, found := strings.Cut(lines.Text(), "\t")
		if !found {
			return fmt.Errorf("%q has no tab between key and value", lines.Text())
		}
		client.Produce(ctx, kgo.KeyStringRecord(key, value), func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	return errors.Join(lines.Err(), client.Flush(ctx), failed)
}

func show(ctx context.Context, broker, topic string, count int, out io.Writer) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer client.Close()
	printer := bufio.NewWriter(out)
	for seen := 0; count == 0 || seen < count; {
		waiting, stop := ctx, func() {}
		if count == 0 {
			waiting, stop = context.WithTimeout(ctx, quiet)
		}
		fetches := client.PollFetches(waiting)
		ended := waiting.Err()
		stop()
		if ended != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%d of %d messages came within %v", seen, count, patience)
			}
			break
		}
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("%s/%d: %w", failed.Topic, failed.Partition, failed.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			fmt.Fprintf(printer, "%d\t%d\t%s\t%s\n", r.Partition, r.Offset, r.Key, r.Value)
			seen++
		})
	}
	return printer.Flush()
}
