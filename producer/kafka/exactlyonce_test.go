package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/internal/kafkatest"
)

func TestTopicToTopic(t *testing.T) {
	cluster := kafkatest.StartProcess(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	testCodecs(t, cluster)
}

func testCodecs(t *testing.T, cluster *kafkatest.Cluster) {
	for _, codec := range []kafkaclient.Compression{kafkaclient.None, kafkaclient.Gzip, kafkaclient.Snappy, kafkaclient.LZ4, kafkaclient.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			s := newSetup(t, cluster, 3)
			s.sink.Compression = codec
			for p := range 3 {
				cluster.Write(t, kafkatest.Numbers(s.in(), p, 0, 1000)...)
			}
			if err := s.run(t); err != nil {
				t.Fatal(err)
			}
			s.oracle(t, cluster, 3, 1000)
			for p := range 3 {
				cluster.Write(t, kafkatest.Numbers(s.in(), p, 1000, 1500)...)
			}
			if err := s.run(t); err != nil {
				t.Fatal(err)
			}
			s.oracle(t, cluster, 3, 1500)
		})
	}
}

// Workers come and go, politely and not, while records arrive.
func TestWorkersComeAndGo(t *testing.T) {
	testComeAndGo(t, kafkatest.StartFake(t, kfake.NumBrokers(3)))
}

func testComeAndGo(t *testing.T, cluster *kafkatest.Cluster) {
	s := newSetup(t, cluster, 4)
	s.source.Session = 1500 * time.Millisecond
	s.translator = restless{5 * time.Millisecond}
	a := s.start(t)
	for p := range 4 {
		cluster.Write(t, kafkatest.Numbers(s.in(), p, 0, 1000)...)
	}
	b := s.start(t)
	time.Sleep(300 * time.Millisecond)
	c := s.start(t)
	if err := a.end(t); err == nil {
		t.Error("a worker that was stopped says that it is done")
	}
	for p := range 4 {
		cluster.Write(t, kafkatest.Numbers(s.in(), p, 1000, 2000)...)
	}
	time.Sleep(200 * time.Millisecond)
	b.kill()
	if !s.awaitOffsets(t, cluster, 4, 2000, 30*time.Second) {
		t.Error("the job does not go on")
	}
	c.end(t)
	b.end(t)
	s.oracle(t, cluster, 4, 2000)
}
