package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-mt/sluice/internal/s3client"
)

// An entry notes an upload of parts, in an object in the job's folder, before it is begun, so that the job knows its
// own uploads after a crash: a list of uploads does not say whose they are, and two jobs may write below one prefix.
type entry struct {
	sink     *Sink
	token    string
	modified time.Time // by the store's clock

	Bucket   string `json:"bucket"`
	Key      string `json:"key"`
	Upload   string `json:"upload,omitempty"`   // "" before it is known
	Doubtful bool   `json:"doubtful,omitempty"` // an answer was lost, so that there may be a second upload
}

func (s *Sink) entries() string { return s.work() + "uploads/" }

func (e *entry) put(ctx context.Context) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = e.sink.client.Put(ctx, e.sink.output.bucket, e.sink.entries()+e.token, data, s3client.Condition{}, nil)
	return err
}

// remove forgets the upload, unless there may be a second one that is still to be found.
func (e *entry) remove(ctx context.Context) error {
	if e.Doubtful {
		return nil
	}
	return e.sink.client.Delete(ctx, e.sink.output.bucket, e.sink.entries()+e.token)
}

// mostEntry bounds what is read of an entry.
const mostEntry = 64 << 10

// Clean drops the uploads that this job has begun and not completed, if they are older than a time. Those of other
// jobs are not touched.
func (s *Sink) Clean(ctx context.Context, age time.Duration) error {
	var entries []*entry
	err := s.client.List(ctx, s.output.bucket, s.entries(), "", func(info *s3client.Info) (bool, error) {
		e := &entry{sink: s, token: info.Key[len(s.entries()):], modified: info.Modified}
		data, _, err := s.client.ReadAll(ctx, s.output.bucket, info.Key, mostEntry)
		if errors.Is(err, s3client.ErrNotFound) {
			return true, nil // completed meanwhile
		}
		if err == nil {
			err = json.Unmarshal(data, e)
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", info.URI(), err)
		}
		entries = append(entries, e)
		return true, nil
	})
	if err != nil {
		return err
	}
	claimed := map[string]bool{}
	for _, e := range entries {
		claimed[e.Upload] = true
	}
	for _, e := range entries {
		if s.now().Sub(e.modified) < age {
			continue
		}
		if err := e.clean(ctx, claimed); err != nil {
			return err
		}
	}
	return nil
}

// beginning is how long the attempts to begin an upload may take.
const beginning = 10 * time.Minute

// clean drops the upload of an entry, and one that was begun without an answer: of the same key, around the time at
// which the entry was written, and known to no other entry.
func (e *entry) clean(ctx context.Context, claimed map[string]bool) error {
	if e.Upload != "" {
		if err := e.sink.client.Abort(ctx, &s3client.Upload{Bucket: e.Bucket, Key: e.Key, ID: e.Upload}); err != nil {
			return err
		}
	}
	if e.Upload == "" || e.Doubtful {
		uploads, err := e.sink.client.Uploads(ctx, e.Bucket, e.Key)
		if err != nil {
			return err
		}
		for i := range uploads {
			u := &uploads[i]
			apart := u.Began.Sub(e.modified)
			if u.Key != e.Key || claimed[u.ID] || apart < -beginning || apart > beginning {
				continue
			}
			e.sink.config.Logger.Info("dropping an upload that was begun and never completed", "object", s3client.URI(u.Bucket, u.Key))
			if err := e.sink.client.Abort(ctx, u); err != nil {
				return err
			}
		}
	}
	e.Doubtful = false
	return e.remove(ctx)
}
