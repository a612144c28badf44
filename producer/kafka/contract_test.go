package kafka

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/producer"
	"github.com/sluice-mt/sluice/producer/contract"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// process is a sink with a client of its own, as a process has it.
type process struct {
	*Sink
	client *kafkaclient.Client
}

func (p *process) Close(ctx context.Context) error {
	defer p.client.Close()
	return p.Sink.Close(ctx)
}

func newClient(t testing.TB, brokers []string) *kafkaclient.Client {
	t.Helper()
	client, err := kafkaclient.New(kafkaclient.Config{Brokers: brokers, RequestTimeout: 5 * time.Second, TopicPatience: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newProcess(t testing.TB, brokers []string, config Config) *process {
	t.Helper()
	client := newClient(t, brokers)
	config.Client = client
	if config.Job == "" {
		config.Job = "job"
	}
	if config.Encoder == nil {
		config.Encoder = recordio.NewTextEncoder()
		config.TrimLineFeed = true
	}
	return &process{New(config), client}
}

// names gives every topic of a test a name of its own.
var names atomic.Int64

func newName(kind string) string { return fmt.Sprintf("%s-%d", kind, names.Add(1)) }

// ofLane returns what the records of a partition that were made from a lane hold.
func ofLane(records []*kgo.Record, lane string) []string {
	texts := []string{}
	for _, record := range records {
		for _, header := range record.Headers {
			if header.Key == SourceHeader && strings.HasPrefix(string(header.Value), lane+"@") {
				texts = append(texts, string(record.Value))
			}
		}
	}
	return texts
}

func runContract(t *testing.T, cluster *kafkatest.Cluster, config Config) {
	contract.RunTests(t, contract.Config{
		Incremental: true,
		New: func(t testing.TB) contract.Place {
			config := config
			config.Topic, config.Job = newName("out"), newName("job")
			cluster.CreateTopic(t, config.Topic, 3)
			if config.Markers != "" {
				config.Markers = newName("markers")
				cluster.CreateTopic(t, config.Markers, 2, "cleanup.policy", "compact")
			}
			return contract.Place{
				Sink: func() producer.Sink { return newProcess(t, cluster.Brokers, config) },
				Published: func(t testing.TB, lane string) []string {
					var texts []string
					for partition := range 3 {
						texts = append(texts, ofLane(cluster.Committed(t, config.Topic, partition), lane)...)
					}
					return texts
				},
			}
		},
	})
}

func TestContract(t *testing.T) {
	cluster := kafkatest.StartProcess(t)
	checks(t, 20)
	t.Run("Offsets", func(t *testing.T) { runContract(t, cluster, Config{}) })
	t.Run("Markers", func(t *testing.T) {
		runContract(t, cluster, Config{Markers: "yes", Compression: kafkaclient.Zstd, BatchBytes: 10_000})
	})
}

// checks sets how many cases of a property are tried during a test: each takes a while here.
func checks(t *testing.T, n int) {
	value := flag.Lookup("rapid.checks").Value
	before := value.String()
	t.Cleanup(func() { _ = value.Set(before) })
	if err := value.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
}

func TestContractOfRealKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka")
	}
	checks(t, 20)
	runContract(t, kafkatest.StartReal(t, 1).Cluster, Config{Markers: "yes"})
}
