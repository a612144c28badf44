package kafkaclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

var (
	// ErrFenced says that the transactional id is used by another producer now, or that the broker has given up the
	// transaction. Nothing of the transaction becomes visible.
	ErrFenced = errors.New("the broker has fenced this producer")

	// ErrNoTopic says that a topic or partition does not exist.
	ErrNoTopic = errors.New("the topic or partition does not exist")

	// ErrOffsetOutOfRange says that there is nothing at this offset of a partition: its log begins later, or ends
	// before it.
	ErrOffsetOutOfRange = errors.New("the offset is out of range")

	errMalformed = errors.New("the broker's answer lacks what was asked for")
)

// transient are the codes that are answered by sending the same request again.
var transient = []kafka.Error{
	kafka.InvalidMessage, // damaged on its way
	kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.RequestTimedOut,
	kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable, kafka.NetworkException, kafka.GroupLoadInProgress,
	kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.NotEnoughReplicas,
	kafka.NotEnoughReplicasAfterAppend, kafka.ConcurrentTransactions, kafka.KafkaStorageError, kafka.FencedLeaderEpoch,
	kafka.UnknownLeaderEpoch, kafka.OffsetNotAvailable, kafka.UnstableOffsetCommit, kafka.ThrottlingQuotaExceeded,
}

// fencing are the codes that say that a producer is not to go on.
var fencing = []kafka.Error{
	kafka.ProducerFenced, kafka.InvalidProducerEpoch, kafka.InvalidTransactionState, kafka.InvalidProducerIDMapping,
	kafka.TransactionCoordinatorFenced, kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId,
}

// isTransient says whether the same call may succeed later. What is no code of Kafka's is trouble on the way to the
// broker, except for a certificate that is not trusted and a broker that does not speak TLS.
func isTransient(err error) bool {
	var code kafka.Error
	if errors.As(err, &code) {
		return slices.Contains(transient, code)
	}
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	if errors.As(err, &certificate) || errors.As(err, &notTLS) || errors.Is(err, errPermanent) {
		return false
	}
	return true
}

// errPermanent marks errors of our own that do not go away.
var errPermanent = errors.New("permanent")

// isMissing says that the brokers do not know a topic or partition, as far as their picture of the cluster goes.
func isMissing(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition)
}

// isFencing says whether a producer that was answered so is not to go on.
func isFencing(err error) bool {
	var code kafka.Error
	return errors.As(err, &code) && slices.Contains(fencing, code)
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// retry makes a call until it succeeds, fails for good, ctx ends, or patience is at an end. Each attempt has the
// request timeout as its deadline. The error names the operation.
func (c *Client) retry(ctx context.Context, operation string, patience time.Duration, call func(context.Context) error) error {
	begin := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		attempt, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
		err := call(attempt)
		cancel()
		if err == nil {
			c.Recovered(operation, begin)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("kafka: %s: %w", operation, ctx.Err())
		}
		limit := patience
		if isMissing(err) {
			limit = min(limit, c.config.TopicPatience)
		}
		if !isTransient(err) || time.Since(begin) > limit {
			return c.failed(operation, err)
		}
		c.Failing(operation, begin, err)
		if err := sleep(ctx, pause/2+rand.N(pause/2+1)); err != nil {
			return fmt.Errorf("kafka: %s: %w", operation, err)
		}
	}
}

// failed says what failed, and of what kind the failure is.
func (c *Client) failed(operation string, err error) error {
	switch {
	case isMissing(err):
		return fmt.Errorf("kafka: %s: %w (topics are not created by themselves, nor seen without permission): %w", operation, ErrNoTopic, err)
	case errors.Is(err, kafka.OffsetOutOfRange):
		return fmt.Errorf("kafka: %s: %w", operation, ErrOffsetOutOfRange)
	case isFencing(err):
		return fmt.Errorf("kafka: %s: %w: %w", operation, ErrFenced, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("kafka: %s: %w (the broker closes the connection: is the port the right one for TLS and SASL, and the password?)", operation, err)
	default:
		return fmt.Errorf("kafka: %s: %w", operation, err)
	}
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
