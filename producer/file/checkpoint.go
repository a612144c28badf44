package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

const checkpointVersion = 1

// A checkpoint is what is known of an output that is not complete.
type checkpoint struct {
	Version  int               `json:"version"`
	Position job.Position      `json:"position"`          // where the input continues
	Length   int64             `json:"length"`            // bytes of the partial file that count
	Letters  int64             `json:"letters,omitempty"` // bytes of the file of dead letters that count
	Replaces bool              `json:"replaces"`          // the output takes the place of one that was there before
	Inode    uint64            `json:"inode,omitempty"`   // of the file that will have the name
	Input    json.RawMessage   `json:"input,omitempty"`   // identity
	MadeWith map[string]string `json:"made_with"`         // model and options
}

// maxCheckpoint bounds what is read of a checkpoint file.
const maxCheckpoint = 16 << 20

// loadCheckpoint returns nil if there is none. An empty file says only that the output was begun: the first checkpoint
// is not synced, since there is nothing yet that it could save, and may lose its content with the machine.
func loadCheckpoint(path string) (saved *checkpoint, began bool, err error) {
	data, err := readBounded(path, maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if len(data) == 0 {
		return nil, true, nil
	}
	if saved, err = parseCheckpoint(data); err != nil {
		return nil, false, fmt.Errorf("%s: %w, so that %w: overwrite the output to begin afresh", path, err, ErrNotContinued)
	}
	return saved, true, nil
}

func parseCheckpoint(data []byte) (*checkpoint, error) {
	c := new(checkpoint)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("not a checkpoint: %w", err)
	}
	if c.Version != checkpointVersion {
		return nil, fmt.Errorf("a checkpoint of version %d, and this program knows %d", c.Version, checkpointVersion)
	}
	if at := c.Position; c.Length < 0 || c.Letters < 0 || at.Record < 0 || at.Input < 0 || at.Offset < 0 {
		return nil, errors.New("a checkpoint with negative numbers")
	}
	return c, nil
}

// save writes the checkpoint such that there is always a whole one. Without sync it survives a crash of the process,
// not of the machine.
func (c *checkpoint) save(path string, sync bool, step func(string)) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return writeWhole(path, append(data, '\n'), sync, step)
}

// removeCheckpoint removes a checkpoint, and one that was being written when a process ended.
func removeCheckpoint(path string) error {
	return errors.Join(remove(temporary(path)), remove(path))
}

// A ChangedError says that an output cannot be continued, or passed over, because it was begun with something else.
type ChangedError = producer.ChangedError

// changes compares what was stored with what is there now.
func (s *Sink) changes(lane, output string, input json.RawMessage, madeWith map[string]string) error {
	changes := producer.MadeWithChanges(madeWith, s.config.MadeWith)
	if s.config.Input != nil && len(input) > 0 {
		more, err := s.config.Input.Changes(lane, input)
		if err != nil {
			return fmt.Errorf("%s: %w", output, err)
		}
		changes = append(changes, more...)
	}
	if len(changes) > 0 {
		return &ChangedError{Output: output, Changes: changes}
	}
	return nil
}

// identity returns the identity of the lane's input, nil if it has none.
func (s *Sink) identity(lane string) (json.RawMessage, error) {
	if s.config.Input == nil {
		return nil, nil
	}
	return s.config.Input.Identity(lane)
}

func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than it can have", path, info.Size())
	}
	return os.ReadFile(path)
}
