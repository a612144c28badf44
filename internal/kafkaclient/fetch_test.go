package kafkaclient

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"pgregory.net/rapid"
)

// answer makes the answer of a broker about one partition.
func answer(version int16, code int16, topic string, id int32, aborted []aborted, batches []byte) []byte {
	data := binary.BigEndian.AppendUint32(nil, 0)
	if version >= 7 {
		data = append(data, 0, 0, 0, 0, 0, 0)
	}
	data = binary.BigEndian.AppendUint32(data, 1)
	data = binary.BigEndian.AppendUint16(data, uint16(len(topic)))
	data = append(data, topic...)
	data = binary.BigEndian.AppendUint32(data, 1)
	data = binary.BigEndian.AppendUint32(data, uint32(id))
	data = binary.BigEndian.AppendUint16(data, uint16(code))
	data = binary.BigEndian.AppendUint64(data, 100)
	data = binary.BigEndian.AppendUint64(data, 90)
	if version >= 5 {
		data = binary.BigEndian.AppendUint64(data, 10)
	}
	data = binary.BigEndian.AppendUint32(data, uint32(len(aborted)))
	for _, a := range aborted {
		data = binary.BigEndian.AppendUint64(data, uint64(a.producerID))
		data = binary.BigEndian.AppendUint64(data, uint64(a.firstOffset))
	}
	if version >= 11 {
		data = binary.BigEndian.AppendUint32(data, 0)
	}
	data = binary.BigEndian.AppendUint32(data, uint32(len(batches)))
	return append(data, batches...)
}

func TestAnswersOfAllVersions(t *testing.T) {
	for version := int16(leastFetchVersion); version <= 11; version++ {
		data := answer(version, 6, "topic", 3, []aborted{{1, 2}, {3, 4}}, []byte("batches"))
		got, err := parseFetch(data, version, Partition{"topic", 3})
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		r := got.result
		if got.code != 6 || r.HighWatermark != 100 || r.LastStable != 90 || string(r.Batches) != "batches" || !slices.Equal(r.aborted, []aborted{{1, 2}, {3, 4}}) {
			t.Errorf("version %d: %+v", version, got)
		}
		for n := range data {
			if _, err := parseFetch(data[:n], version, Partition{"topic", 3}); err == nil {
				t.Fatalf("version %d: %d of %d bytes are enough", version, n, len(data))
			}
		}
		for _, other := range []Partition{{"topic", 2}, {"other", 3}} {
			if _, err := parseFetch(data, version, other); err == nil {
				t.Errorf("version %d: an answer about another partition is taken", version)
			}
		}
	}
}

func FuzzFetchAnswer(f *testing.F) {
	f.Add(answer(11, 0, "t", 0, []aborted{{1, 2}}, []byte("x")), int16(11))
	f.Add(answer(4, 0, "t", 0, nil, nil), int16(4))
	f.Fuzz(func(t *testing.T, data []byte, version int16) {
		got, err := parseFetch(data, version, Partition{"t", 0})
		if err == nil && cap(got.result.aborted) > len(data) {
			t.Fatalf("%d transactions in %d bytes", cap(got.result.aborted), len(data))
		}
	})
}

// A log of transactions, and what a reader of committed records is to see of it.
func TestFilterSeesWhatIsCommitted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var log []Batch
		var list []aborted
		var want []int64
		open := map[int64]int64{}     // first offset of the open transaction of a producer
		inside := map[int64][]int64{} // its offsets
		next := int64(0)
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			producer := rapid.Int64Range(1, 4).Draw(r, "producer")
			switch action := rapid.IntRange(0, 3).Draw(r, "action"); {
			case action <= 1:
				n := rapid.Int64Range(1, 3).Draw(r, "records")
				batch := Batch{FirstOffset: next, LastOffset: next + n - 1, ProducerID: producer}
				if action == 1 {
					batch.attributes = transactional
					if _, is := open[producer]; !is {
						open[producer] = next
					}
					inside[producer] = append(inside[producer], next)
				} else {
					want = append(want, next)
				}
				log = append(log, batch)
				next += n
			default:
				first, is := open[producer]
				if !is {
					continue
				}
				kind := uint16(1)
				if action == 2 {
					list = append(list, aborted{producer, first})
					kind = 0
				} else {
					want = append(want, inside[producer]...)
				}
				log = append(log, marker(t, next, producer, kind))
				delete(open, producer)
				delete(inside, producer)
				next++
			}
		}
		// What is still open lies behind the last stable offset: brokers do not send it.
		stable := next
		for _, first := range open {
			stable = min(stable, first)
		}
		result := FetchResult{aborted: rapid.Permutation(list).Draw(r, "order")}
		filter := result.Filter()
		var got []int64
		for i := range log {
			if log[i].FirstOffset >= stable {
				break
			}
			counts, err := filter.Counts(&log[i])
			if err != nil {
				r.Fatal(err)
			}
			if counts {
				got = append(got, log[i].FirstOffset)
			}
		}
		slices.Sort(want)
		want = slices.DeleteFunc(want, func(offset int64) bool { return offset >= stable })
		if !slices.Equal(got, want) {
			r.Fatalf("the batches at %v count, want %v", got, want)
		}
	})
}

// marker makes a control batch.
func marker(t testing.TB, offset, producer int64, kind uint16) Batch {
	t.Helper()
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	data := build(t, []Record{{Time: time.UnixMilli(0), Key: key, Value: make([]byte, 6)}}, None, stamp{producerID: producer, inside: true})[4:]
	data[atAttributes+1] |= control
	binary.BigEndian.PutUint64(data[atBaseOffset:], uint64(offset))
	seal(data)
	batch, _, err := NextBatch(data)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func TestErrorsAreOfAKind(t *testing.T) {
	client, err := New(Config{Brokers: []string{"localhost:1"}})
	if err != nil {
		t.Fatal(err)
	}
	for err, want := range map[error]error{
		kafka.Error(90): ErrFenced, kafka.Error(47): ErrFenced, kafka.Error(48): ErrFenced, kafka.Error(45): ErrFenced,
		kafka.Error(3): ErrNoTopic, kafka.Error(1): ErrOffsetOutOfRange,
	} {
		if got := client.failed("x", err); !errors.Is(got, want) {
			t.Errorf("%v is %v", err, got)
		}
	}
	for code, transient := range map[int]bool{5: true, 6: true, 7: true, 14: true, 15: true, 16: true, 19: true, 20: true, 51: true, 10: false, 22: false, 29: false, 58: false, 90: false} {
		if isTransient(kafka.Error(code)) != transient {
			t.Errorf("code %d: may pass is %v", code, !transient)
		}
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	for _, config := range []Config{{}, {Brokers: []string{"a:1"}, SASL: SASL{Mechanism: "GSSAPI"}}, {Brokers: []string{"a:1"}, SASL: SASL{User: "x"}}} {
		if _, err := New(config); err == nil {
			t.Errorf("%+v is taken", config)
		}
	}
	for name, want := range map[string]Compression{"": None, "none": None, "gzip": Gzip, "snappy": Snappy, "lz4": LZ4, "zstd": Zstd} {
		if got, err := ParseCompression(name); err != nil || got != want {
			t.Errorf("%q is %v, %v", name, got, err)
		}
	}
	if _, err := ParseCompression("brotli"); err == nil {
		t.Error("brotli is taken")
	}
}
