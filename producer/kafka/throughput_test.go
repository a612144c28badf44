package kafka_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/pipeline"
)

const (
	throughputLanes = 4
	throughputSize  = 200 // bytes of a record's value
)

// BenchmarkTopicToTopic carries records from topic to topic of a real Kafka, exactly once, with a translator that
// costs nothing and transactions of one second:
//
//	go test ./producer/kafka -run '^$' -bench TopicToTopic -benchtime 1x
//
// One round is SLUICE_BENCH_RECORDS records, 1,000,000 if it is not set. Broker and worker share the machine.
func BenchmarkTopicToTopic(b *testing.B) {
	records := 1_000_000
	if text := os.Getenv("SLUICE_BENCH_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for _, nodes := range []int{1, 3} {
		brokers := kafkatest.StartReal(b, nodes)
		for _, codec := range []kafkaclient.Compression{kafkaclient.None, kafkaclient.Zstd} {
			b.Run(fmt.Sprintf("nodes=%d/codec=%v", nodes, codec), func(b *testing.B) {
				s := newSetup(b, brokers.Cluster, throughputLanes)
				fill(b, brokers.Cluster, s.in(), records)
				s.pipeline = pipeline.Config{CommitEvery: time.Second, Shared: true, Grace: time.Second, RunRecords: 4096}
				s.sink.Compression = codec
				s.client = kafkaclient.Config{}
				var took, cpu time.Duration
				for b.Loop() {
					s.source.Group, s.sink.Job = newName("group"), newName("job")
					begin, used := time.Now(), cputime.Process()
					if err := s.run(b); err != nil {
						b.Fatal(err)
					}
					took += time.Since(begin)
					cpu += cputime.Process() - used
				}
				b.ReportMetric(float64(records*b.N)/took.Seconds(), "records/s")
				b.ReportMetric(float64(cpu.Nanoseconds())/float64(records*b.N), "cpu-ns/record")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// fill writes records of words, the same number to each partition.
func fill(b *testing.B, cluster *kafkatest.Cluster, topic string, records int) {
	b.Helper()
	words := bytes.Repeat([]byte("translation of sentences in streams "), 10)
	const chunk = 20_000
	for done := 0; done < records; done += chunk {
		list := make([]*kgo.Record, 0, chunk)
		for i := done; i < min(records, done+chunk); i++ {
			value := fmt.Appendf(make([]byte, 0, throughputSize), "%d ", i)
			value = append(value, words[i%36:]...)[:throughputSize]
			list = append(list, &kgo.Record{Topic: topic, Partition: int32(i % throughputLanes), Value: value})
		}
		cluster.Write(b, list...)
	}
}
