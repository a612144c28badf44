package kafkaclient

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-mt/sluice/internal/job"
)

// Progress is what is stored beside a committed offset, as JSON. It has to be small: brokers take 4096 bytes.
type Progress struct {
	Record   int64             `json:"record"`             // number of the lane's next record
	Position *job.Position     `json:"position,omitempty"` // where a lane that is no partition continues
	MadeWith map[string]string `json:"made_with,omitempty"`
	Input    json.RawMessage   `json:"input,omitempty"` // what the lane was recognised by
	Done     bool              `json:"done,omitempty"`
}

// Metadata returns the progress as it is stored.
func (p Progress) Metadata() (string, error) {
	text, err := json.Marshal(p)
	return string(text), err
}

// ParseProgress reads what is stored beside an offset. What others have stored there is no progress of ours, and no
// error: ours is false then.
func ParseProgress(metadata string) (progress Progress, ours bool) {
	if json.Unmarshal([]byte(metadata), &progress) != nil || progress.Record < 0 {
		return Progress{}, false
	}
	return progress, true
}

// LaneName is what the lane of a partition is called.
func (p Partition) LaneName() string { return fmt.Sprintf("%s/%d", p.Topic, p.ID) }
