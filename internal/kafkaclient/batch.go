package kafkaclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/compress"

	"github.com/sluice-mt/sluice/internal/job"
)

// A Record is one message. A nil Key is no key, a nil Value is a tombstone.
type Record struct {
	Offset  int64
	Time    time.Time // to the millisecond
	Key     []byte
	Value   []byte
	Headers []job.Header
}

// Where the fields of a batch lie (message format 2, https://kafka.apache.org/documentation/#recordbatch).
const (
	atBaseOffset  = 0
	atLength      = 8 // of what follows it
	atLeaderEpoch = 12
	atMagic       = 16
	atChecksum    = 17 // CRC-32C of what follows it
	atAttributes  = 21
	atLastDelta   = 23
	atFirstTime   = 27
	atMaxTime     = 35
	atProducerID  = 43
	atEpoch       = 51
	atSequence    = 53
	atCount       = 57
	headerSize    = 61

	lengthCounts = 12 // the length field counts what stands behind this byte

	codecBits     = 7
	logAppendTime = 1 << 3
	transactional = 1 << 4
	control       = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrBatchTooLarge says that a batch is larger than the limit when it is inflated.
var ErrBatchTooLarge = errors.New("the batch is too large when it is inflated")

// A Batch is a group of records as it lies in the log, its records not yet decoded.
type Batch struct {
	FirstOffset int64
	LastOffset  int64 // the log goes on behind it, even where compaction has taken the last records away
	ProducerID  int64
	Count       int // as the header says; nothing may be allocated for it before the records are seen

	attributes         int16
	firstTime, maxTime int64
	payload            []byte
}

// IsControl says that the batch holds a marker of a transaction instead of records.
func (b *Batch) IsControl() bool { return b.attributes&control != 0 }

// IsTransactional says that the batch counts only if its transaction is committed.
func (b *Batch) IsTransactional() bool { return b.attributes&transactional != 0 }

// NextBatch takes the first batch from data, which a fetch returned. A batch that is cut off, as the last one of a
// response may be, is io.ErrUnexpectedEOF.
func NextBatch(data []byte) (batch Batch, rest []byte, err error) {
	if len(data) < headerSize {
		return Batch{}, nil, io.ErrUnexpectedEOF
	}
	if magic := data[atMagic]; magic != 2 {
		return Batch{}, nil, fmt.Errorf("message format %d, of before Kafka 0.11, is not supported: %w", magic, errPermanent)
	}
	length := int64(int32(binary.BigEndian.Uint32(data[atLength:])))
	if length < headerSize-lengthCounts {
		return Batch{}, nil, fmt.Errorf("a batch of %d bytes is none", length)
	}
	if length > int64(len(data)-lengthCounts) {
		return Batch{}, nil, io.ErrUnexpectedEOF
	}
	whole, rest := data[:lengthCounts+length], data[lengthCounts+length:]
	if crc32.Checksum(whole[atAttributes:], castagnoli) != binary.BigEndian.Uint32(whole[atChecksum:]) {
		return Batch{}, nil, errors.New("the checksum of a batch is wrong")
	}
	batch = Batch{
		FirstOffset: int64(binary.BigEndian.Uint64(whole[atBaseOffset:])),
		ProducerID:  int64(binary.BigEndian.Uint64(whole[atProducerID:])),
		Count:       int(int32(binary.BigEndian.Uint32(whole[atCount:]))),
		attributes:  int16(binary.BigEndian.Uint16(whole[atAttributes:])),
		firstTime:   int64(binary.BigEndian.Uint64(whole[atFirstTime:])),
		maxTime:     int64(binary.BigEndian.Uint64(whole[atMaxTime:])),
		payload:     whole[headerSize:],
	}
	delta := int32(binary.BigEndian.Uint32(whole[atLastDelta:]))
	batch.LastOffset = batch.FirstOffset + int64(delta)
	if batch.FirstOffset < 0 || delta < 0 || batch.LastOffset < 0 || batch.Count < 0 {
		return Batch{}, nil, errors.New("the header of a batch makes no sense")
	}
	return batch, rest, nil
}

// Records decodes the records of a batch and appends them to dst. Keys and values are parts of the batch or of the
// Inflater, so they have to be copied before either is used again. More than limit bytes, inflated, are
// ErrBatchTooLarge.
func (b *Batch) Records(dst []Record, inflater *Inflater, limit int) ([]Record, error) {
	data, err := inflater.inflate(int(b.attributes&codecBits), b.payload, limit)
	if err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, min(b.Count, len(data)/leastRecord))
	for i := range b.Count {
		size, n := binary.Varint(data)
		if n <= 0 || size < 0 || size > int64(len(data)-n) {
			return dst, fmt.Errorf("record %d of the batch at offset %d is cut off", i, b.FirstOffset)
		}
		record, err := b.record(data[n : n+int(size)])
		if err != nil {
			return dst, fmt.Errorf("record %d of the batch at offset %d: %w", i, b.FirstOffset, err)
		}
		dst = append(dst, record)
		data = data[n+int(size):]
	}
	return dst, nil
}

// leastRecord is the size of an empty record: its length, its attributes and five numbers of one byte each.
const leastRecord = 7

// record decodes one record.
func (b *Batch) record(data []byte) (Record, error) {
	f := fields{data: data}
	f.take(1) // attributes, which are not used
	time, offset := f.varint(), f.varint()
	if b.attributes&logAppendTime != 0 {
		time = b.maxTime - b.firstTime
	}
	record := Record{Offset: b.FirstOffset + offset, Time: timeOf(b.firstTime + time)}
	record.Key, record.Value = f.bytes(), f.bytes()
	count := f.varint()
	if count < 0 || count > int64(len(f.data)/2) { // a header has two lengths at least
		f.bad = true
		count = 0
	}
	if count > 0 {
		record.Headers = make([]job.Header, count)
		for i := range record.Headers {
			record.Headers[i] = job.Header{Key: string(f.bytes()), Value: f.bytes()}
		}
	}
	if f.bad || offset < 0 || record.Offset > b.LastOffset || record.Offset < 0 {
		return Record{}, errors.New("it makes no sense")
	}
	return record, nil
}

// timeOf returns the time of a timestamp in milliseconds; a negative one is none.
func timeOf(milliseconds int64) time.Time {
	if milliseconds < 0 {
		return time.Time{}
	}
	return time.UnixMilli(milliseconds).UTC()
}

// EndsInAbort says of a control batch whether it marks its producer's transaction as aborted.
func (b *Batch) EndsInAbort() (bool, error) {
	records, err := b.Records(nil, &Inflater{}, len(b.payload))
	if err != nil {
		return false, err
	}
	if len(records) != 1 || len(records[0].Key) < 4 {
		return false, nil // a marker of a kind that is not known, or one that compaction has emptied
	}
	return binary.BigEndian.Uint16(records[0].Key[2:]) == 0, nil
}

// fields reads the parts of a record. bad is set when they do not fit.
type fields struct {
	data []byte
	bad  bool
}

func (f *fields) varint() int64 {
	value, n := binary.Varint(f.data)
	if n <= 0 {
		f.bad, f.data = true, nil
		return 0
	}
	f.data = f.data[n:]
	return value
}

func (f *fields) take(n int64) []byte {
	if n > int64(len(f.data)) {
		f.bad, f.data = true, nil
		return nil
	}
	part := f.data[:n:n]
	f.data = f.data[n:]
	return part
}

// bytes reads a length and as many bytes; the length -1 is nil.
func (f *fields) bytes() []byte {
	n := f.varint()
	if n < 0 {
		f.bad = f.bad || n < -1
		return nil
	}
	return f.take(n)
}

// A Builder makes a batch of records that are to be written.
type Builder struct {
	buffer    []byte // size prefix, header, records
	packed    []byte // the same, compressed
	count     int
	firstTime int64
	maxTime   int64
}

// sizePrefix stands before the batches of a request.
const sizePrefix = 4

// Reset makes the Builder empty.
func (b *Builder) Reset() {
	b.buffer = append(b.buffer[:0], make([]byte, sizePrefix+headerSize)...)
	b.count = 0
}

// Len returns how many records there are.
func (b *Builder) Len() int { return b.count }

// Size returns how many bytes the batch has before compression.
func (b *Builder) Size() int {
	if b.count == 0 {
		return 0
	}
	return len(b.buffer) - sizePrefix
}

// Add appends a record. Its Offset is not used. The time must be set.
func (b *Builder) Add(record *Record) {
	if b.count == 0 {
		b.Reset()
		b.firstTime = record.Time.UnixMilli()
		b.maxTime = b.firstTime
	}
	milliseconds := record.Time.UnixMilli()
	b.maxTime = max(b.maxTime, milliseconds)
	delta := milliseconds - b.firstTime
	b.buffer = binary.AppendVarint(b.buffer, int64(recordSize(record, delta, int64(b.count))))
	b.buffer = append(b.buffer, 0)
	b.buffer = binary.AppendVarint(b.buffer, delta)
	b.buffer = binary.AppendVarint(b.buffer, int64(b.count))
	b.buffer = appendBytes(b.buffer, record.Key)
	b.buffer = appendBytes(b.buffer, record.Value)
	b.buffer = binary.AppendVarint(b.buffer, int64(len(record.Headers)))
	for _, header := range record.Headers {
		b.buffer = binary.AppendVarint(b.buffer, int64(len(header.Key)))
		b.buffer = append(b.buffer, header.Key...)
		b.buffer = appendBytes(b.buffer, header.Value)
	}
	b.count++
}

func appendBytes(dst, value []byte) []byte {
	if value == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(value)))
	return append(dst, value...)
}

func recordSize(record *Record, timeDelta, offsetDelta int64) int {
	size := 1 + varintSize(timeDelta) + varintSize(offsetDelta) + bytesSize(record.Key) + bytesSize(record.Value) + varintSize(int64(len(record.Headers)))
	for _, header := range record.Headers {
		size += varintSize(int64(len(header.Key))) + len(header.Key) + bytesSize(header.Value)
	}
	return size
}

func bytesSize(value []byte) int {
	if value == nil {
		return 1
	}
	return varintSize(int64(len(value))) + len(value)
}

func varintSize(value int64) int {
	size := 1
	for zigzag := uint64(value<<1) ^ uint64(value>>63); zigzag >= 0x80; zigzag >>= 7 {
		size++
	}
	return size
}

// SizeOf returns at most how many bytes a record takes in a batch of its own, the batch's header included.
func SizeOf(record *Record) int {
	return headerSize + binary.MaxVarintLen32 + recordSize(record, 0, 0)
}

// A stamp is what a producer puts into the header of a batch.
type stamp struct {
	producerID int64 // -1 for none
	epoch      int16
	sequence   int32
	inside     bool // of a transaction
}

// finish compresses the records and writes the header. The result begins with its size, as a request wants it, and
// is valid until the next call of Add or Reset.
func (b *Builder) finish(codec Compression, s stamp) ([]byte, error) {
	whole := b.buffer
	if codec != None {
		var err error
		if whole, err = b.compress(codec); err != nil {
			return nil, err
		}
	}
	attributes := uint16(codec)
	if s.inside {
		attributes |= transactional
	}
	batch := whole[sizePrefix:]
	binary.BigEndian.PutUint32(whole, uint32(len(batch)))
	binary.BigEndian.PutUint64(batch[atBaseOffset:], 0)
	binary.BigEndian.PutUint32(batch[atLength:], uint32(len(batch)-lengthCounts))
	binary.BigEndian.PutUint32(batch[atLeaderEpoch:], ^uint32(0))
	batch[atMagic] = 2
	binary.BigEndian.PutUint16(batch[atAttributes:], attributes)
	binary.BigEndian.PutUint32(batch[atLastDelta:], uint32(b.count-1))
	binary.BigEndian.PutUint64(batch[atFirstTime:], uint64(b.firstTime))
	binary.BigEndian.PutUint64(batch[atMaxTime:], uint64(b.maxTime))
	binary.BigEndian.PutUint64(batch[atProducerID:], uint64(s.producerID))
	binary.BigEndian.PutUint16(batch[atEpoch:], uint16(s.epoch))
	binary.BigEndian.PutUint32(batch[atSequence:], uint32(s.sequence))
	binary.BigEndian.PutUint32(batch[atCount:], uint32(b.count))
	binary.BigEndian.PutUint32(batch[atChecksum:], crc32.Checksum(batch[atAttributes:], castagnoli))
	return whole, nil
}

func (b *Builder) compress(codec Compression) ([]byte, error) {
	packed := appender{append(b.packed[:0], make([]byte, sizePrefix+headerSize)...)}
	writer := compress.Compression(codec).Codec().NewWriter(&packed)
	_, err := writer.Write(b.buffer[sizePrefix+headerSize:])
	if err := errors.Join(err, writer.Close()); err != nil {
		return nil, fmt.Errorf("compress a batch: %w", err)
	}
	b.packed = packed.bytes
	return b.packed, nil
}

type appender struct{ bytes []byte }

func (a *appender) Write(data []byte) (int, error) {
	a.bytes = append(a.bytes, data...)
	return len(data), nil
}
