// Package kafka writes the outputs of lanes to topics.
//
// With exactly-once, which is the default, what is written between two commits is one transaction of a producer whose
// transactional id is job/lane, and where the lane continues is committed in the same transaction as an offset of a
// consumer group. Whoever opens a lane takes the id over first, which ends whatever another had begun, and reads the
// offset then. So a reader of committed records sees every output once and in order, whatever crashes when.
//
// For a lane that is a partition of the same cluster the group is the source's own, and the offset is taken only from
// the member that has the partition. For every other lane the group is one that nobody joins, named after job and
// lane. Brokers forget its offset some days after the last commit; Config.Markers keeps what must not be forgotten.
//
// With at-least-once there are no transactions, for brokers that have none. A header of every output says what it was
// made from, and whoever opens a lane reads the end of the output and does not write again what is there. Duplicates
// remain possible where two processes believe to have the same lane, and where a broker answers too late.
package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/producer"
)

// An Encoder makes the value of an output's message. It is used by all lanes at once.
type Encoder interface {
	Append(dst []byte, output *job.Output) ([]byte, error)
}

// A Placer is an Encoder that knows the partition of an output without a key where partitions are chosen ByKey.
type Placer interface {
	// PartitionOf returns a partition's number, not negative, which the number of partitions divides; false leaves the output with its lane.
	PartitionOf(output *job.Output) (id int, known bool)
}

// A Membership knows as whom the source takes part in its consumer group. consumer/kafka.Source is one.
type Membership interface {
	// Member returns as whom the lane's offsets may be committed, and the partition that it is. ok is false if the
	// lane is not the source's now.
	Member(lane string) (member kafkaclient.Member, partition kafkaclient.Partition, ok bool)
}

// An Input knows what the input of a lane is, so that an output is continued on the input that it was begun on.
type Input interface {
	// Identity describes the input, to be stored.
	Identity(lane string) (json.RawMessage, error)

	// Changes compares the input with an identity that was stored, and says of every difference what it is.
	Changes(lane string, stored json.RawMessage) ([]string, error)
}

// Delivery says how often an output may be written.
type Delivery int

// The ways to deliver.
const (
	ExactlyOnce Delivery = iota
	AtLeastOnce
)

// OnFailure says what becomes of an output that failed, where there is no topic of dead letters.
type OnFailure int

// What becomes of failed outputs.
const (
	Stop       OnFailure = iota // the job fails
	WriteEmpty                  // a message with an empty value takes its place
)

// Partitioning says to which partition an output goes.
type Partitioning int

// The ways to choose a partition.
const (
	// SamePartition is the one that the record came from. A lane that is no partition has one of its own choice, by
	// a hash of its name.
	SamePartition Partitioning = iota

	// ByKey is the one that producers in Java choose by default for the key. Without a key it is SamePartition.
	ByKey

	// FixedPartition is always Config.Partition.
	FixedPartition
)

// Config says what is written where, and how. Zero values are replaced by the defaults named.
type Config struct {
	Client  *kafkaclient.Client
	Job     string // name of the job, the same in every run of it
	Topic   string
	Encoder Encoder

	// TrimLineFeed drops the line feed at the end of what an Encoder of lines makes.
	TrimLineFeed bool

	// Membership is the source, where it reads from topics of the same cluster; nil otherwise.
	Membership Membership

	// Input recognises the inputs of lanes that are no partitions; nil if that is not possible.
	Input Input

	// MadeWith is what outputs depend on beside the input, by name. A lane that was begun with others is not
	// continued unless AcceptChanges says so.
	MadeWith      map[string]string
	AcceptChanges bool

	Delivery     Delivery
	Partitioning Partitioning
	Partition    int // for FixedPartition

	// DeadLetters is the topic for outputs that failed, "" for none. What becomes of them then says OnFailure.
	DeadLetters string
	OnFailure   OnFailure

	// Markers is a compacted topic that remembers which lanes were begun and which are complete, for lanes that are
	// no partitions. "" relies on the offsets of groups alone, which brokers forget after
	// offsets.retention.minutes.
	Markers string

	Compression kafkaclient.Compression

	// StampNow gives outputs the time at which they are written instead of their record's.
	StampNow bool

	BatchBytes int // a batch is sent when it has so many bytes, before compression; 256 KiB

	// MaxMessage is the largest message that is written, in bytes; a larger output has failed. 0 is what the topics
	// take, or 1,000,000 where they do not say.
	MaxMessage int

	// TransactionTimeout is how long a transaction may be open before the broker aborts it; 60 s. It has to be longer
	// than the time between two commits.
	TransactionTimeout time.Duration

	Logger *slog.Logger // nil is silent
}

const (
	defaultBatch       = 256 << 10
	defaultMessage     = 1_000_000
	defaultTransaction = time.Minute
)

func (c Config) withDefaults() Config {
	if c.BatchBytes <= 0 {
		c.BatchBytes = defaultBatch
	}
	if c.TransactionTimeout <= 0 {
		c.TransactionTimeout = defaultTransaction
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c *Config) check() error {
	switch {
	case c.Client == nil || c.Encoder == nil:
		return errors.New("producer/kafka: Client and Encoder must be set")
	case c.Job == "":
		return errors.New("kafka: a job that writes to a topic needs a name")
	case c.Topic == "":
		return errors.New("kafka: no topic is given to write to")
	case c.DeadLetters == c.Topic, c.Markers == c.Topic, c.DeadLetters != "" && c.DeadLetters == c.Markers:
		return errors.New("kafka: outputs, dead letters and markers need topics of their own")
	case c.Delivery == AtLeastOnce && c.Membership == nil:
		return errors.New("kafka: at-least-once is for inputs that are topics of the same cluster")
	}
	return nil
}

// A Sink is a producer.Sink of topics.
type Sink struct {
	config     Config
	madeWith   map[string]string // Config.MadeWith as it is stored
	partitions map[string]int    // how many each topic has
	numbers    []int             // of the partitions of Config.Topic
	step       func(string)      // called between any two events that a crash may fall between; for tests
}

// New returns a Sink. Connect checks the configuration.
func New(config Config) *Sink {
	return &Sink{config: config.withDefaults(), madeWith: producer.ShortMadeWith(config.MadeWith), partitions: map[string]int{}, step: func(string) {}}
}

// Connect makes sure that the topics exist.
func (s *Sink) Connect(ctx context.Context) error {
	if err := s.config.check(); err != nil {
		return err
	}
	text, err := json.Marshal(s.madeWith)
	if err != nil {
		return err
	}
	if len(text) > mostMadeWith {
		return fmt.Errorf("kafka: what outputs are made with takes %d bytes beside each offset, and there is room for %d: %.200s…", len(text), mostMadeWith, text)
	}
	for _, topic := range []string{s.config.Topic, s.config.DeadLetters, s.config.Markers} {
		if topic == "" {
			continue
		}
		count, err := s.config.Client.Partitions(ctx, topic)
		if err != nil {
			return err
		}
		s.partitions[topic] = count
	}
	s.limitMessages(ctx)
	s.numbers = numbers(s.partitions[s.config.Topic])
	if s.config.Partitioning == FixedPartition && (s.config.Partition < 0 || s.config.Partition >= s.partitions[s.config.Topic]) {
		return fmt.Errorf("kafka: topic %s has no partition %d: it has %d", s.config.Topic, s.config.Partition, s.partitions[s.config.Topic])
	}
	return nil
}

// limitMessages makes sure that no message, and no batch, is larger than the topics take.
func (s *Sink) limitMessages(ctx context.Context) {
	config := &s.config
	limit := 0
	for _, topic := range []string{config.Topic, config.DeadLetters} {
		if topic == "" {
			continue
		}
		if most := config.Client.MostMessage(ctx, topic); most > 0 && (limit == 0 || most < limit) {
			limit = most
		}
	}
	switch {
	case config.MaxMessage > 0 && limit > 0:
		config.MaxMessage = min(config.MaxMessage, limit)
	case config.MaxMessage <= 0 && limit > 0:
		config.MaxMessage = limit
	case config.MaxMessage <= 0:
		config.MaxMessage = defaultMessage
	}
	config.BatchBytes = min(config.BatchBytes, config.MaxMessage)
}

// Open takes a lane over and tells where it continues.
func (s *Sink) Open(ctx context.Context, lane string) (producer.Writer, job.Position, error) {
	w := newWriter(s, lane)
	var err error
	if w.place, err = s.placeOf(lane); err != nil {
		return nil, job.Position{}, err
	}
	if w.home, err = s.homeOf(lane); err != nil {
		return nil, job.Position{}, err
	}
	if err := w.open(ctx); err != nil {
		return nil, job.Position{}, err
	}
	return w, w.committed, nil
}

// Close releases nothing: writers are closed by whoever opened them.
func (s *Sink) Close(context.Context) error { return nil }

// laneHash stands for a lane in the names of groups and transactional ids.
func laneHash(lane string) []byte {
	sum := sha256.Sum256([]byte(lane))
	return sum[:8]
}
