package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/consumer/contract"
	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/recordio"
)

// plain is the layout of values that are text.
func plain(t testing.TB) *recordio.Value {
	t.Helper()
	codec, err := recordio.NewValue(recordio.ValueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// process is a source with a client of its own, as a process has it. It knows how many lanes there are, so that it
// says that no other will come; a source on its own cannot know that before all have ended.
type process struct {
	*Source
	client *kafkaclient.Client
	lanes  int
}

func newProcess(t testing.TB, brokers []string, lanes int, config Config) *process {
	t.Helper()
	client, err := kafkaclient.New(kafkaclient.Config{Brokers: brokers, Topics: config.Topics, RequestTimeout: 5 * time.Second, TopicPatience: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	config.Client = client
	if config.Values == nil {
		config.Values = plain(t)
	}
	if config.Session == 0 {
		config.Session = 6 * time.Second
	}
	return &process{Source: New(config), client: client, lanes: lanes}
}

func (p *process) Next(ctx context.Context) (consumer.Lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.lanes == 0 {
		return nil, consumer.ErrEndOfInput
	}
	lane, err := p.Source.Next(ctx)
	if err == nil {
		p.lanes--
	}
	return lane, err
}

func (p *process) Close(ctx context.Context) error {
	defer p.client.Close()
	return p.Source.Close(ctx)
}

// names gives every topic and group of a test a name of its own.
var names atomic.Int64

func newName(kind string) string { return fmt.Sprintf("%s-%d", kind, names.Add(1)) }

func runContract(t *testing.T, cluster *kafkatest.Cluster) {
	contract.RunTests(t, contract.Config{
		Store: func(t *testing.T, lanes [][]string) func() consumer.Source {
			topic, group := newName("in"), newName("group")
			cluster.CreateTopic(t, topic, len(lanes))
			for i, lane := range lanes {
				cluster.Write(t, kafkatest.Texts(topic, i, lane...)...)
			}
			return func() consumer.Source {
				return newProcess(t, cluster.Brokers, len(lanes), Config{Topics: []string{topic}, Group: group, CommitOffsets: true, StopAtEnd: true})
			}
		},
		Live: func(t *testing.T) (consumer.Source, func(string), func()) {
			topic := newName("live")
			cluster.CreateTopic(t, topic, 1)
			source := newProcess(t, cluster.Brokers, 1, Config{Topics: []string{topic}, Group: newName("group")})
			return source, func(text string) { cluster.Write(t, kafkatest.Texts(topic, 0, text)...) }, source.StopAtEnd
		},
	})
}

func TestContract(t *testing.T) {
	runContract(t, kafkatest.StartProcess(t))
}

func TestMain(m *testing.M) { kafkatest.Main(m) }

func TestContractOfRealKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka")
	}
	cluster := kafkatest.StartReal(t, 1).Cluster
	runContract(t, cluster)
	t.Run("AbortedRecordsAreNotRead", func(t *testing.T) { testAborted(t, cluster) })
}
