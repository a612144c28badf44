package file

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// An inputIdentity is what an input is recognised by.
type inputIdentity struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`              // -1 for a pipe
	ModTime int64  `json:"mod_time"`          // nanoseconds since 1970; 0 for a pipe
	Hashed  int    `json:"hashed"`            // number of the first bytes that were hashed
	Hash    string `json:"hash"`              // SHA-256 of them
	Inputs  int    `json:"inputs,omitempty"`  // the summary stands for so many inputs
	Summary string `json:"summary,omitempty"` // SHA-256 of their identities
}

// mostNamed is how many inputs of a lane are named one by one in its identity; of more there is a summary, for the
// identity is stored with every checkpoint.
const mostNamed = 64

// Identity describes the inputs of a lane as they are now: size, time of change and a hash of the first 64 KiB. Of a
// pipe it knows what has been read so far.
func (s *Source) Identity(lane string) (json.RawMessage, error) {
	l, ok := s.byName[lane]
	if !ok {
		return nil, fmt.Errorf("there is no input %s", lane)
	}
	list := make([]inputIdentity, len(l.inputs))
	for i, in := range l.inputs {
		var err error
		if list[i], err = in.identity(headSize, false); err != nil {
			return nil, err
		}
	}
	return json.Marshal(summarise(list))
}

func summarise(list []inputIdentity) []inputIdentity {
	if len(list) <= mostNamed {
		return list
	}
	hash := sha256.New()
	encoder := json.NewEncoder(hash)
	for i := range list {
		list[i].Path = ""
		_ = encoder.Encode(&list[i]) // a hash takes everything
	}
	return []inputIdentity{{Inputs: len(list), Summary: hex.EncodeToString(hash.Sum(nil))}}
}

// Changes compares the inputs of a lane with an identity that was stored, and says of every difference what it is.
// It is called before the lane starts. Of a pipe it reads as much as was hashed then.
func (s *Source) Changes(lane string, stored json.RawMessage) ([]string, error) {
	var old []inputIdentity
	if err := json.Unmarshal(stored, &old); err != nil || len(old) == 0 {
		return nil, errors.New("the stored identity of the input cannot be read")
	}
	l, ok := s.byName[lane]
	if !ok {
		return nil, fmt.Errorf("there is no input %s", lane)
	}
	if old[0].Summary != "" {
		return summaryChanges(l, old[0])
	}
	if len(old) != len(l.inputs) {
		return []string{fmt.Sprintf("there were %d inputs and are now %d", len(old), len(l.inputs))}, nil
	}
	var changes []string
	for i, in := range l.inputs {
		now, err := in.identity(old[i].Hashed, true)
		if err != nil {
			return nil, err
		}
		changes = append(changes, now.changes(&old[i])...)
	}
	return changes, nil
}

func summaryChanges(l *lane, old inputIdentity) ([]string, error) {
	list := make([]inputIdentity, len(l.inputs))
	for i, in := range l.inputs {
		var err error
		if list[i], err = in.identity(headSize, false); err != nil {
			return nil, err
		}
	}
	now := summarise(list)[0]
	switch {
	case len(list) != old.Inputs:
		return []string{fmt.Sprintf("there were %d inputs and are now %d", old.Inputs, len(list))}, nil
	case now.Summary != old.Summary:
		return []string{fmt.Sprintf("at least one of the %d inputs was changed", len(list))}, nil
	default:
		return nil, nil
	}
}

// changes says in words what differs. The path does not count: the same file may be found elsewhere.
func (now *inputIdentity) changes(old *inputIdentity) []string {
	var changes []string
	add := func(format string, values ...any) {
		changes = append(changes, now.Path+" "+fmt.Sprintf(format, values...))
	}
	switch {
	case (now.Size < 0) != (old.Size < 0):
		add("was %s and is now %s", kind(old.Size), kind(now.Size))
	case now.Size != old.Size:
		add("had %d bytes and has now %d", old.Size, now.Size)
	case now.ModTime != old.ModTime:
		add("was last changed at %s, and at %s before", stamp(now.ModTime), stamp(old.ModTime))
	}
	if now.Hash != old.Hash {
		add("begins with other bytes (the first %d were compared)", old.Hashed)
	}
	return changes
}

func kind(size int64) string {
	if size < 0 {
		return "a pipe"
	}
	return "a file"
}

func stamp(nanoseconds int64) string {
	return time.Unix(0, nanoseconds).UTC().Format(time.RFC3339Nano)
}

// identity looks at an input and hashes the given number of its first bytes, or all if there are fewer. Of a pipe it
// hashes those that have been read, unless it is to wait.
func (in *input) identity(most int, wait bool) (inputIdentity, error) {
	if in.pipe != nil {
		head, err := in.pipe.peek(in, most, wait)
		return inputIdentity{Path: in.path, Size: -1, Hashed: len(head), Hash: hashOf(head)}, err
	}
	if known := in.known.Load(); known != nil && known.Hashed == int(min(known.Size, int64(most))) {
		return *known, nil
	}
	file, err := in.open()
	if err != nil {
		return inputIdentity{}, err
	}
	defer func() { _ = in.release(file) }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return inputIdentity{}, err
	}
	head := make([]byte, max(0, min(int64(most), headSize, info.Size())))
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, info.Size()), head); err != nil {
		return inputIdentity{}, fmt.Errorf("%s: %w", in.path, err)
	}
	identity := inputIdentity{Path: in.path, Size: info.Size(), ModTime: info.ModTime().UnixNano(), Hashed: len(head), Hash: hashOf(head)}
	in.known.Store(&identity)
	return identity, nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
