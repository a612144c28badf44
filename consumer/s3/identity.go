package s3

import (
	"encoding/json"
	"errors"
	"fmt"
)

// An identity is what an object is recognised by.
type identity struct {
	Object string `json:"object"` // its name
	ETag   string `json:"etag"`
	Size   int64  `json:"size"`
	Index  int    `json:"index,omitempty"` // of a range
	Count  int    `json:"count,omitempty"` // of ranges; 0 for a whole object
}

func (l *lane) identity() identity {
	info := &l.object.info
	id := identity{Object: info.URI(), ETag: info.ETag, Size: info.Size}
	if l.part.count > 1 {
		id.Index, id.Count = l.part.index, l.part.count
	}
	return id
}

// Identity describes the object of an open lane: the version that was found.
func (s *Source) Identity(lane string) (json.RawMessage, error) {
	l, err := s.lane(lane)
	if err != nil {
		return nil, err
	}
	return json.Marshal(l.identity())
}

// Changes compares the object of an open lane with an identity that was stored, and says of every difference what it
// is. The name does not count: the same object may be found elsewhere. Nor does it count that the object is
// divided now and was whole.
func (s *Source) Changes(lane string, stored json.RawMessage) ([]string, error) {
	var old identity
	if err := json.Unmarshal(stored, &old); err != nil || old.ETag == "" {
		return nil, errors.New("the stored identity of the input cannot be read")
	}
	l, err := s.lane(lane)
	if err != nil {
		return nil, err
	}
	now := l.identity()
	var changes []string
	switch {
	case now.Size != old.Size:
		changes = append(changes, fmt.Sprintf("%s had %d bytes and has now %d", now.Object, old.Size, now.Size))
	case now.ETag != old.ETag:
		changes = append(changes, fmt.Sprintf("%s was replaced: its ETag was %s and is now %s", now.Object, old.ETag, now.ETag))
	}
	if old.Count > 0 && (now.Index != old.Index || now.Count != old.Count) {
		changes = append(changes, fmt.Sprintf("%s was range %d of %d and is now %d of %d", now.Object, old.Index, old.Count, now.Index, max(1, now.Count)))
	}
	return changes, nil
}
