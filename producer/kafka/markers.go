package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluice-mt/sluice/internal/kafkaclient"
	"github.com/sluice-mt/sluice/producer"
)

// A marker is what the topic of markers says of a lane. Its key is job/lane.
type marker struct {
	Done  bool              `json:"done"` // otherwise the lane was begun
	Made  map[string]string `json:"made_with,omitempty"`
	Input json.RawMessage   `json:"input,omitempty"`
}

func (w *writer) markerKey() []byte { return []byte(w.sink.config.Job + "/" + w.lane) }

func (w *writer) markerPartition() kafkaclient.Partition {
	topic := w.sink.config.Markers
	return kafkaclient.Partition{Topic: topic, ID: byKey(w.markerKey(), numbers(w.sink.partitions[topic]))}
}

// mark writes, inside the transaction, that a lane was begun, once, or that it is complete.
func (w *writer) mark(ctx context.Context, done bool) error {
	if w.sink.config.Markers == "" || !w.place.pseudo || w.begun && !done {
		return nil
	}
	value, err := json.Marshal(marker{Done: done, Made: w.sink.madeWith, Input: w.storedIdentity()})
	if err != nil {
		return err
	}
	var batch kafkaclient.Builder
	batch.Add(&kafkaclient.Record{Key: w.markerKey(), Value: value, Time: time.Now()})
	if err := w.producer.Produce(ctx, w.markerPartition(), &batch, kafkaclient.None); err != nil {
		return err
	}
	w.begun = true
	return nil
}

// consultMarkers is for a lane of which the group knows nothing: it is new, or the offset was forgotten.
func (w *writer) consultMarkers(ctx context.Context) error {
	if w.sink.config.Markers == "" {
		return nil
	}
	found, err := w.lastMarker(ctx)
	if err != nil || found == nil {
		return err
	}
	if !found.Done {
		return fmt.Errorf("kafka: lane %s was begun, but the brokers have forgotten how far it came (offsets.retention.minutes): outputs of it are in the topic already; give the job another name to begin afresh", w.lane)
	}
	return w.resume(kafkaclient.Progress{Done: true, MadeWith: found.Made, Input: found.Input})
}

// lastMarker reads the partition of the lane's marker to its end.
func (w *writer) lastMarker(ctx context.Context) (*marker, error) {
	var last *marker
	key := w.markerKey()
	err := w.scan(ctx, w.markerPartition(), 0, func(record *kafkaclient.Record) error {
		if !bytes.Equal(record.Key, key) {
			return nil
		}
		last = nil
		if record.Value == nil {
			return nil
		}
		last = &marker{}
		if err := json.Unmarshal(record.Value, last); err != nil {
			return fmt.Errorf("kafka: the marker of lane %s at offset %d cannot be read: %w", w.lane, record.Offset, err)
		}
		return nil
	})
	return last, err
}

// storedIdentity is the identity of the input as it is stored, or a hash of one that is too long for that.
func (w *writer) storedIdentity() json.RawMessage {
	if len(w.identity) <= mostIdentity {
		return w.identity
	}
	return hashedIdentity(w.identity)
}

// hashedIdentity is a JSON string, which no identity is.
func hashedIdentity(identity json.RawMessage) json.RawMessage {
	return json.RawMessage(`"` + producer.Hashed(string(identity)) + `"`)
}

// changes says what is different between the input and one that was stored.
func (w *writer) changes(stored json.RawMessage) ([]string, error) {
	if len(stored) == 0 || stored[0] != '"' {
		return w.sink.config.Input.Changes(w.lane, stored)
	}
	if bytes.Equal(stored, hashedIdentity(w.identity)) {
		return nil, nil
	}
	return []string{"at least one of its many inputs was changed"}, nil
}
