package s3

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// An Event says that there is a new object.
type Event struct {
	Bucket, Key string
}

// ParseEvents reads a notification of the kind that Amazon S3 and stores like it send to a queue or a topic, and
// returns the objects that were created. Those of other events, such as removals, and the message by which S3 tries
// out a queue, give none. It may lie in an envelope of SNS, or be of EventBridge.
func ParseEvents(body []byte) ([]Event, error) {
	var message notification
	if err := json.Unmarshal(body, &message); err != nil {
		return nil, fmt.Errorf("not a notification of S3: %w", err)
	}
	if message.Type == "Notification" && message.Message != "" {
		inner := message.Message
		message = notification{}
		if err := json.Unmarshal([]byte(inner), &message); err != nil {
			return nil, fmt.Errorf("not a notification of S3, in an envelope of SNS: %w", err)
		}
	}
	switch {
	case message.Event == "s3:TestEvent":
		return nil, nil
	case message.DetailType != "":
		return message.bridged()
	case message.Records != nil:
		return message.recorded()
	default:
		return nil, errors.New("not a notification of S3: it has no Records")
	}
}

type notification struct {
	Type, Message string // of SNS
	Event         string // of the message that tries out a queue
	Records       []struct {
		EventName string `json:"eventName"`
		S3        struct {
			Bucket struct{ Name string }
			Object struct{ Key string }
		}
	}
	DetailType string `json:"detail-type"` // of EventBridge
	Detail     struct {
		Bucket struct{ Name string }
		Object struct{ Key string }
	}
}

// recorded reads the records of S3. Keys are escaped as in a form: a space is a plus sign.
func (n *notification) recorded() ([]Event, error) {
	var events []Event
	for i := range n.Records {
		record := &n.Records[i]
		name := strings.TrimPrefix(record.EventName, "s3:")
		if !strings.HasPrefix(name, "ObjectCreated:") && !strings.HasPrefix(name, "ObjectRestore:Completed") {
			continue
		}
		key, err := url.QueryUnescape(record.S3.Object.Key)
		if err != nil {
			return nil, fmt.Errorf("record %d of a notification of S3: key %q: %w", i+1, record.S3.Object.Key, err)
		}
		if record.S3.Bucket.Name == "" || key == "" {
			return nil, fmt.Errorf("record %d of a notification of S3 names no object", i+1)
		}
		events = append(events, Event{record.S3.Bucket.Name, key})
	}
	return events, nil
}

// bridged reads an event of EventBridge, whose keys are not escaped.
func (n *notification) bridged() ([]Event, error) {
	if n.DetailType != "Object Created" && n.DetailType != "Object Restore Completed" {
		return nil, nil
	}
	if n.Detail.Bucket.Name == "" || n.Detail.Object.Key == "" {
		return nil, errors.New("an event of EventBridge names no object")
	}
	return []Event{{n.Detail.Bucket.Name, n.Detail.Object.Key}}, nil
}
