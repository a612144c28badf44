package kafkaclient

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

// correlation numbers the requests that are sent here. There is one at a time on a connection.
const correlation = 0x736c7563

// exchange sends a request in a version and returns the bytes of the answer, at most limit, behind its header. It is
// for answers that kafka-go does not read as they are meant. The version must be one without tagged fields.
func exchange(connection io.ReadWriter, version int16, clientID string, message protocol.Message, limit int) ([]byte, error) {
	if err := protocol.WriteRequest(connection, version, correlation, clientID, message); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(connection, size[:]); err != nil {
		return nil, err
	}
	n := int64(int32(binary.BigEndian.Uint32(size[:])))
	if n < 4 || n > int64(limit) {
		return nil, fmt.Errorf("the broker sends an answer of %d bytes, and the limit is %d: %w", n, limit, errPermanent)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(connection, data); err != nil {
		return nil, err
	}
	if got := binary.BigEndian.Uint32(data); got != correlation {
		return nil, fmt.Errorf("the broker answers another request, %d", got)
	}
	return data[4:], nil
}

// A groupExchange is a request to the coordinator of a group, of whose answer only the error matters. The types of
// kafka-go for heartbeats and for leaving have the answer's first two fields in the wrong order, so that no error is
// ever seen, and heartbeats are not sent to the coordinator.
type groupExchange struct {
	message  protocol.Message
	group    string
	clientID string
	version  int16
}

// mostGroupVersion is the last version of both requests that has no tagged fields.
const mostGroupVersion = 3

// mostGroupAnswer is the longest answer that is read.
const mostGroupAnswer = 64 << 10

func (g *groupExchange) ApiKey() protocol.ApiKey { return g.message.ApiKey() }

// Group makes the transport find the coordinator.
func (g *groupExchange) Group() string { return g.group }

// Prepare is told the version that was agreed with the broker.
func (g *groupExchange) Prepare(version int16) { g.version = min(version, mostGroupVersion) }

// Required makes the transport leave the exchange to RawExchange.
func (g *groupExchange) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange sends the request and reads the answer.
func (g *groupExchange) RawExchange(connection io.ReadWriter) (protocol.Message, error) {
	if prepared, ok := g.message.(protocol.PreparedMessage); ok {
		prepared.Prepare(g.version)
	}
	data, err := exchange(connection, g.version, g.clientID, g.message, mostGroupAnswer)
	if err != nil {
		return nil, err
	}
	p := parser{data: data}
	if g.version >= 1 {
		p.int32() // how long the broker throttled the request
	}
	answer := &groupAnswer{key: g.ApiKey(), code: p.int16()}
	if p.bad {
		return nil, errMalformed
	}
	return answer, nil
}

// A groupAnswer is what a coordinator says.
type groupAnswer struct {
	key  protocol.ApiKey
	code int16
}

func (g *groupAnswer) ApiKey() protocol.ApiKey { return g.key }

// A parser reads the fixed parts of an answer. bad is set when it ends too early.
type parser struct {
	data []byte
	bad  bool
}

func (p *parser) bytes(n int64) []byte {
	if n < 0 || n > int64(len(p.data)) {
		p.bad, p.data = true, nil
		return nil
	}
	part := p.data[:n:n]
	p.data = p.data[n:]
	return part
}

func (p *parser) int16() int16 {
	if part := p.bytes(2); part != nil {
		return int16(binary.BigEndian.Uint16(part))
	}
	return 0
}

func (p *parser) int32() int32 {
	if part := p.bytes(4); part != nil {
		return int32(binary.BigEndian.Uint32(part))
	}
	return 0
}

func (p *parser) int64() int64 {
	if part := p.bytes(8); part != nil {
		return int64(binary.BigEndian.Uint64(part))
	}
	return 0
}

// count reads the length of an array whose elements have a fixed size; a missing array has none.
func (p *parser) count(size int) int {
	n := int(p.int32())
	if n > len(p.data)/size {
		p.bad, p.data = true, nil
		return 0
	}
	return max(0, n)
}
