package kafkaclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/job"
)

var codecs = []Compression{None, Gzip, Snappy, LZ4, Zstd}

func drawRecord(r *rapid.T) Record {
	data := rapid.SliceOfN(rapid.Byte(), 0, 300)
	record := Record{Time: timeOf(rapid.Int64Range(0, 1<<45).Draw(r, "time")), Key: data.Draw(r, "key"), Value: data.Draw(r, "value")}
	if rapid.IntRange(0, 3).Draw(r, "no key") == 0 {
		record.Key = nil
	}
	if rapid.IntRange(0, 3).Draw(r, "tombstone") == 0 {
		record.Value = nil
	}
	for range rapid.IntRange(0, 3).Draw(r, "headers") {
		header := job.Header{Key: rapid.String().Draw(r, "header"), Value: data.Draw(r, "header value")}
		if rapid.Bool().Draw(r, "no header value") {
			header.Value = nil
		}
		record.Headers = append(record.Headers, header)
	}
	return record
}

func build(t testing.TB, records []Record, codec Compression, s stamp) []byte {
	t.Helper()
	var b Builder
	for i := range records {
		before := b.Size()
		b.Add(&records[i])
		if i > 0 && b.Size()-before > SizeOf(&records[i]) {
			t.Fatalf("a record takes %d bytes, and SizeOf says %d", b.Size()-before, SizeOf(&records[i]))
		}
	}
	data, err := b.finish(codec, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := binary.BigEndian.Uint32(data); int(got) != len(data)-4 {
		t.Fatalf("the size is %d, and there are %d bytes", got, len(data)-4)
	}
	return bytes.Clone(data)
}

func TestBatchesComeBackAsTheyWere(t *testing.T) {
	var inflater Inflater
	rapid.Check(t, func(r *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(drawRecord), 1, 20).Draw(r, "records")
		codec := rapid.SampledFrom(codecs).Draw(r, "codec")
		s := stamp{producerID: 7, epoch: 3, sequence: 11, inside: rapid.Bool().Draw(r, "transaction")}
		data := build(t, records, codec, s)
		binary.BigEndian.PutUint64(data[4:], 1000) // as a broker does; it is not part of the checksum
		batch, rest, err := NextBatch(append(data[4:], "next"...))
		if err != nil || string(rest) != "next" {
			r.Fatalf("%v, %q is left", err, rest)
		}
		if batch.FirstOffset != 1000 || batch.LastOffset != 999+int64(len(records)) || batch.ProducerID != 7 || batch.IsTransactional() != s.inside || batch.IsControl() {
			r.Fatalf("%+v", batch)
		}
		got, err := batch.Records(nil, &inflater, 1<<20)
		if err != nil {
			r.Fatal(err)
		}
		for i := range records {
			records[i].Offset = 1000 + int64(i)
		}
		if !reflect.DeepEqual(got, records) {
			r.Fatalf("got %+v\nwant %+v", got, records)
		}
	})
}

// The decoder of kafka-go reads what is written here.
func TestBatchesAreReadByKafkaGo(t *testing.T) {
	records := []Record{
		{Time: time.UnixMilli(1700000000000), Key: []byte("k"), Value: []byte("value"), Headers: []job.Header{{Key: "h", Value: []byte("x")}}},
		{Time: time.UnixMilli(1700000000005)},
	}
	for _, codec := range codecs {
		data := build(t, records, codec, stamp{producerID: 9, epoch: 1, sequence: 5, inside: true})
		var set protocol.RecordSet
		if _, err := set.ReadFrom(bytes.NewReader(data)); err != nil {
			t.Fatalf("%v: %v", codec, err)
		}
		if set.Attributes.Compression() != codecNumber(codec) || !set.Attributes.Transactional() {
			t.Errorf("%v: the attributes are %v", codec, set.Attributes)
		}
		first, err := set.Records.ReadRecord()
		if err != nil {
			t.Fatal(err)
		}
		value, _ := protocol.ReadAll(first.Value)
		if string(value) != "value" || !first.Time.Equal(records[0].Time) || first.Headers[0].Key != "h" {
			t.Errorf("%v: %q, %+v", codec, value, first)
		}
		second, err := set.Records.ReadRecord()
		if err != nil || second.Key != nil || second.Value != nil || !second.Time.Equal(records[1].Time) {
			t.Errorf("%v: %+v, %v", codec, second, err)
		}
		if _, err := set.Records.ReadRecord(); err != io.EOF {
			t.Errorf("%v: %v behind the last record", codec, err)
		}
	}
}

func codecNumber(codec Compression) compress.Compression {
	return compress.Compression(codec)
}

func TestACutBatchIsNoticed(t *testing.T) {
	data := build(t, []Record{{Time: time.UnixMilli(5), Value: []byte("value")}}, None, stamp{})[4:]
	for n := range data {
		if _, _, err := NextBatch(data[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
}

func TestADamagedBatchIsNoticed(t *testing.T) {
	data := build(t, []Record{{Time: time.UnixMilli(5), Value: []byte("value")}}, None, stamp{})[4:]
	for i := atMagic; i < len(data); i++ { // a broker may change what stands before it
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			if batch, _, err := NextBatch(damaged); err == nil {
				t.Fatalf("byte %d, bit %d: %+v", i, bit, batch)
			}
		}
	}
}

func TestInflationIsBounded(t *testing.T) {
	records := []Record{{Time: time.UnixMilli(0), Value: make([]byte, 20<<20)}}
	for _, codec := range codecs {
		batch, _, err := NextBatch(build(t, records, codec, stamp{})[4:])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := batch.Records(nil, &Inflater{}, 19<<20); !errors.Is(err, ErrBatchTooLarge) {
			t.Errorf("%v: %v", codec, err)
		}
		if got, err := batch.Records(nil, &Inflater{}, 21<<20); err != nil || len(got) != 1 {
			t.Errorf("%v: %d records, %v", codec, len(got), err)
		}
	}
}

// A header may claim any number of records.
func TestTheCountIsNotBelieved(t *testing.T) {
	data := build(t, []Record{{Time: time.UnixMilli(0), Value: []byte("x")}}, None, stamp{})[4:]
	binary.BigEndian.PutUint32(data[atCount:], 1<<31-1)
	seal(data)
	batch, _, err := NextBatch(data)
	if err != nil {
		t.Fatal(err)
	}
	if records, err := batch.Records(nil, &Inflater{}, 1000); err == nil || cap(records) > 1000 {
		t.Errorf("room for %d records, %v", cap(records), err)
	}
}

// seal makes the checksum right again.
func seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[atChecksum:], crc32.Checksum(batch[atAttributes:], castagnoli))
}

func TestOldFormatsAreRefused(t *testing.T) {
	data := build(t, []Record{{Time: time.UnixMilli(0)}}, None, stamp{})[4:]
	data[atMagic] = 1
	if _, _, err := NextBatch(data); !errors.Is(err, errPermanent) {
		t.Error(err)
	}
}

func FuzzBatch(f *testing.F) {
	for _, codec := range codecs {
		f.Add(build(f, []Record{{Time: time.UnixMilli(0), Key: []byte("k"), Value: []byte("v"), Headers: []job.Header{{Key: "a"}}}}, codec, stamp{inside: true})[4:])
	}
	var inflater Inflater
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		if len(data) > headerSize {
			data[atMagic] = 2
			binary.BigEndian.PutUint32(data[atLength:], uint32(len(data)-lengthCounts))
			seal(data) // or the fuzzer would never get beyond it
		}
		batch, rest, err := NextBatch(data)
		if err != nil {
			return
		}
		if len(rest) != 0 {
			t.Fatalf("%d bytes are left", len(rest))
		}
		records, _ := batch.Records(nil, &inflater, 1<<16)
		if cap(records) > 1<<16 {
			t.Fatalf("room for %d records", cap(records))
		}
		for _, record := range records {
			if record.Offset < batch.FirstOffset || record.Offset > batch.LastOffset {
				t.Fatalf("offset %d is not of %+v", record.Offset, batch)
			}
		}
		if batch.IsControl() {
			_, _ = batch.EndsInAbort()
		}
	})
}
