package kafkaclient

import (
	"context"
	"io"
	"math"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Operations are what one may do with a topic or a group, a bit for each.
type Operations uint32

// The operations that jobs need, by their numbers in the protocol (KIP-430).
const (
	MayRead     Operations = 1 << 3
	MayWrite    Operations = 1 << 4
	MayDescribe Operations = 1 << 8
)

// operationsOf reads the field of an answer. Brokers that do not know, or where nobody is asked for permissions, leave out the
// field.
func operationsOf(field int32) (operations Operations, known bool) {
	return Operations(field), field != math.MinInt32
}

// TopicOperations returns what we may do with a topic; known is false where brokers do not tell.
func (c *Client) TopicOperations(ctx context.Context, topic string) (operations Operations, known bool, err error) {
	request := &topicExchange{topic: topic, clientID: c.config.ClientID}
	err = c.retry(ctx, "ask for permissions on topic "+topic, c.config.TopicPatience, func(ctx context.Context) error {
		message, err := c.transport.RoundTrip(ctx, c.kafka.Addr, request)
		if err != nil {
			return err
		}
		answer, ok := message.(*topicAnswer)
		if !ok {
			return errMalformed
		}
		if answer.code != 0 {
			return kafka.Error(answer.code)
		}
		operations, known = operationsOf(answer.operations)
		return nil
	})
	return operations, known, err
}

// GroupOperations returns what we may do with a consumer group, whether it exists or not.
func (c *Client) GroupOperations(ctx context.Context, group string) (operations Operations, known bool, err error) {
	err = c.retry(ctx, "ask for permissions on group "+group, c.config.TopicPatience, func(ctx context.Context) error {
		message, err := c.transport.RoundTrip(ctx, c.kafka.Addr, &describegroups.Request{Groups: []string{group}, IncludeAuthorizedOperations: true})
		if err != nil {
			return err
		}
		response, ok := message.(*describegroups.Response)
		if !ok || len(response.Groups) != 1 {
			return errMalformed
		}
		if code := response.Groups[0].ErrorCode; code != 0 {
			return kafka.Error(code)
		}
		operations, known = operationsOf(response.Groups[0].AuthorizedOperations)
		return nil
	})
	return operations, known, err
}

// A topicExchange asks a broker for one topic and what we may do with it. The transport of kafka-go answers requests for metadata
// out of its memory, which does not hold that.
type topicExchange struct {
	topic    string
	clientID string
}

// topicVersion is the only version of the request that holds permissions and has no tagged fields, or is close to one.
const topicVersion = 8

// mostTopicAnswer is the longest answer that is read: a topic may have many partitions.
const mostTopicAnswer = 16 << 20

// ApiKey is that of requests for metadata.
func (t *topicExchange) ApiKey() protocol.ApiKey { return protocol.Metadata }

// Required makes the transport leave the exchange to RawExchange.
func (t *topicExchange) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange sends the request and reads the answer.
func (t *topicExchange) RawExchange(connection io.ReadWriter) (protocol.Message, error) {
	request := &metadata.Request{TopicNames: []string{t.topic}, IncludeTopicAuthorizedOperations: true}
	data, err := exchange(connection, topicVersion, t.clientID, request, mostTopicAnswer)
	if err != nil {
		return nil, err
	}
	return parseTopic(data)
}

// A topicAnswer is what a broker says of a topic.
type topicAnswer struct {
	code       int16
	operations int32
}

// ApiKey is that of requests for metadata.
func (*topicAnswer) ApiKey() protocol.ApiKey { return protocol.Metadata }

// parseTopic reads an answer about one topic.
func parseTopic(data []byte) (*topicAnswer, error) {
	p := parser{data: data}
	p.int32()                          // how long the broker throttled the request
	for range p.count(4 + 2 + 4 + 2) { // brokers
		p.int32()
		p.text()
		p.int32()
		p.text()
	}
	p.text()  // cluster
	p.int32() // controller
	if p.count(2+2+1+4+4) != 1 || p.bad {
		return nil, errMalformed
	}
	answer := &topicAnswer{code: p.int16()}
	p.text()
	p.bytes(1) // whether it is internal
	for range p.count(2 + 4 + 4 + 4 + 3*4) {
		p.bytes(2 + 4 + 4 + 4)
		for range 3 { // replicas, those in sync, those out of reach
			p.bytes(4 * int64(p.count(4)))
		}
	}
	answer.operations = p.int32()
	if p.bad {
		return nil, errMalformed
	}
	return answer, nil
}

// text skips a string, which may be missing.
func (p *parser) text() { p.bytes(max(0, int64(p.int16()))) }
