// Package kafkaclient is what the Kafka source and the Kafka sink share: calls with deadlines and retries, fetching of
// one partition with what was aborted left out, batches of records, and transactions.
//
// It stands on the low-level Client of segmentio/kafka-go, whose Reader and Writer give neither transactions nor a
// true read of committed records. What it adds to the protocol is in three places: batches are encoded and decoded
// here (batch.go), for the header fields of transactions and for a bound on what is inflated; fetch responses are
// read here (fetch.go), for the same bound; and every call is repeated until its outcome is known (retry.go).
package kafkaclient

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// A Partition is one of a topic.
type Partition struct {
	Topic string
	ID    int
}

// Config says how the brokers are reached. Zero values are replaced by the defaults named.
type Config struct {
	Brokers  []string // host:port of some of them
	ClientID string   // told to the brokers; "sluice"

	TLS  *tls.Config // nil for connections in the clear
	SASL SASL

	// Topics are the only ones that metadata are asked for; none at all stands for every topic of the cluster.
	Topics []string

	// RequestTimeout is the deadline of a call; 10 s.
	RequestTimeout time.Duration

	// Patience is how long a call is repeated while brokers are out of reach or move; 2 min.
	Patience time.Duration

	// TopicPatience is how long a topic may be unknown before it counts as missing, and how long the first contact
	// may take; 15 s.
	TopicPatience time.Duration

	// Dial opens connections; nil means a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger *slog.Logger // nil is silent
}

func (c Config) withDefaults() Config {
	if c.ClientID == "" {
		c.ClientID = "sluice"
	}
	setDefault(&c.RequestTimeout, 10*time.Second)
	setDefault(&c.Patience, 2*time.Minute)
	setDefault(&c.TopicPatience, 15*time.Second)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.RequestTimeout / 2}).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault(value *time.Duration, otherwise time.Duration) {
	if *value <= 0 {
		*value = otherwise
	}
}

// metadataAge is how old the picture of the cluster may be: which topics there are and who leads what.
const metadataAge = 2 * time.Second

// A Client speaks to one cluster. It may be used by several goroutines; one is enough for a process.
type Client struct {
	config    Config
	transport *kafka.Transport
	kafka     *kafka.Client
	outage    outage
}

// New returns a Client. It connects when it is first used.
func New(config Config) (*Client, error) {
	if len(config.Brokers) == 0 {
		return nil, errors.New("kafka: no brokers are given")
	}
	config = config.withDefaults()
	mechanism, err := config.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	transport := &kafka.Transport{
		Dial: config.Dial, DialTimeout: config.RequestTimeout / 2, MetadataTTL: metadataAge,
		MetadataTopics: config.Topics, ClientID: config.ClientID, TLS: config.TLS, SASL: mechanism,
	}
	return &Client{
		config: config, transport: transport,
		kafka: &kafka.Client{Addr: kafka.TCP(config.Brokers...), Transport: transport},
	}, nil
}

// Close closes the connections. Calls that are going on end at their deadline.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Partitions returns how many partitions a topic has. It never creates the topic. A topic that stays unknown is
// ErrNoTopic.
func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	count := 0
	err := c.retry(ctx, "look up topic "+topic, c.config.TopicPatience, func(ctx context.Context) error {
		var err error
		count, err = c.partitions(ctx, topic)
		return err
	})
	return count, err
}

func (c *Client) partitions(ctx context.Context, topic string) (int, error) {
	message, err := c.transport.RoundTrip(ctx, c.kafka.Addr, &metadata.Request{TopicNames: []string{topic}})
	if err != nil {
		return 0, err
	}
	response, ok := message.(*metadata.Response)
	if !ok || len(response.Topics) != 1 {
		return 0, errMalformed
	}
	if code := response.Topics[0].ErrorCode; code != 0 {
		return 0, kafka.Error(code)
	}
	if len(response.Topics[0].Partitions) == 0 {
		return 0, kafka.UnknownTopicOrPartition
	}
	return len(response.Topics[0].Partitions), nil
}

// KnownPartitions returns how many partitions a topic has as far as is known without waiting, 0 if it is not known. The topic
// may be one that is not among Config.Topics: other members of a group may read others.
func (c *Client) KnownPartitions(ctx context.Context, topic string) int {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	if len(c.config.Topics) > 0 && !slices.Contains(c.config.Topics, topic) {
		config := c.config
		config.Topics = []string{topic}
		other, err := New(config) // this one's picture of the cluster will never have the topic
		if err != nil {
			return 0
		}
		defer other.Close()
		c = other
	}
	count, err := c.partitions(ctx, topic)
	if err != nil {
		return 0
	}
	return count
}

// MostMessage returns the size of the largest batch that a topic takes, 0 if that cannot be told: it takes a permission
// that writing does not.
func (c *Client) MostMessage(ctx context.Context, topic string) int {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	const setting = "max.message.bytes"
	response, err := c.kafka.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{setting},
	}}})
	if err != nil {
		return 0
	}
	for _, resource := range response.Resources {
		for _, entry := range resource.ConfigEntries {
			if size, err := strconv.Atoi(entry.ConfigValue); entry.ConfigName == setting && err == nil && resource.Error == nil {
				return max(0, size)
			}
		}
	}
	return 0
}
