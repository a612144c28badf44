package kafkaclient

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicResponse is an answer as another client of Kafka writes it.
func topicResponse(brokers, partitions int) []byte {
	response := kmsg.NewPtrMetadataResponse()
	response.SetVersion(topicVersion)
	for i := range brokers {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = int32(i), "broker.example", 9092
		response.Brokers = append(response.Brokers, broker)
	}
	topic, name := kmsg.NewMetadataResponseTopic(), "reviews"
	topic.Topic, topic.AuthorizedOperations = &name, int32(MayRead|MayDescribe)
	for i := range partitions {
		partition := kmsg.NewMetadataResponseTopicPartition()
		partition.Partition, partition.Replicas, partition.ISR = int32(i), []int32{0, 1, 2}, []int32{0}
		topic.Partitions = append(topic.Partitions, partition)
	}
	response.Topics = append(response.Topics, topic)
	return response.AppendTo(nil)
}

func TestParseTopic(t *testing.T) {
	for _, partitions := range []int{0, 1, 100} {
		data := topicResponse(3, partitions)
		answer, err := parseTopic(data)
		if err != nil || answer.code != 0 || Operations(answer.operations) != MayRead|MayDescribe {
			t.Errorf("%d partitions: %+v, %v", partitions, answer, err)
		}
		for n := range len(data) - 4 { // the last field is not read
			if answer, err := parseTopic(data[:n]); err == nil {
				t.Fatalf("%d of %d bytes are %+v", n, len(data), answer)
			}
		}
	}
}

func FuzzParseTopic(f *testing.F) {
	f.Add(topicResponse(1, 2))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = parseTopic(data) // which must not panic, nor take more memory than there is data
	})
}
