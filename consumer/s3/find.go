package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
)

// An input is a name that was given: of one object, or of all that begin so.
type input struct {
	bucket, prefix string
	exact          bool // prefix is a whole key
}

func parseInputs(names []string) ([]input, error) {
	inputs := make([]input, len(names))
	for i, name := range names {
		bucket, key, err := s3client.ParseURI(name)
		if err != nil {
			return nil, err
		}
		prefix, star := strings.CutSuffix(key, "*")
		inputs[i] = input{bucket, prefix, !star && prefix != "" && !strings.HasSuffix(prefix, "/")}
	}
	return inputs, nil
}

func (in input) has(bucket, key string) bool {
	return in.bucket == bucket && (in.exact && in.prefix == key || !in.exact && strings.HasPrefix(key, in.prefix))
}

// folder is the part of the prefix up to its last slash.
func (in input) folder() string { return in.prefix[:strings.LastIndexByte(in.prefix, '/')+1] }

// An object is one version of an object that was found.
type object struct {
	info     s3client.Info
	relative string
	delivery *delivery // the notification that told of it; nil if it was found otherwise
}

// counts says whether an object is to be read, and where its output goes.
func (s *Source) counts(info *s3client.Info) (relative string, ok bool) {
	if strings.HasSuffix(info.Key, "/") && info.Size == 0 {
		return "", false
	}
	for element := range strings.SplitSeq(info.Key, "/") {
		if element == "_sluice" {
			return "", false
		}
		if strings.HasPrefix(element, ".") {
			s.hidden.Do(func() {
				s.config.Logger.Info("s3: objects are passed over whose names, or folders, begin with a dot", "first", info.URI())
			})
			return "", false
		}
	}
	for _, in := range s.exclude {
		if in.has(info.Bucket, info.Key) {
			return "", false
		}
	}
	return s.relative(info), true
}

func (s *Source) relative(info *s3client.Info) string {
	if len(s.inputs) == 1 && len(s.config.Manifests) == 0 {
		return strings.TrimPrefix(info.Key, s.inputs[0].folder())
	}
	for _, in := range s.inputs {
		if in.bucket != s.inputs[0].bucket {
			return info.Bucket + "/" + info.Key
		}
	}
	return info.Key
}

// list finds the objects of inputs and manifests, once or again and again.
func (s *Source) list(ctx context.Context) error {
	for {
		for _, in := range s.inputs {
			if err := s.listInput(ctx, in); err != nil {
				return err
			}
		}
		for _, name := range s.config.Manifests {
			if err := s.listManifest(ctx, name); err != nil {
				return fmt.Errorf("manifest %s: %w", name, err)
			}
		}
		if s.config.Poll == 0 {
			return nil
		}
		select {
		case <-time.After(s.config.Poll):
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Source) listInput(ctx context.Context, in input) error {
	if in.exact {
		info, err := s.config.Client.Head(ctx, in.bucket, in.prefix)
		if errors.Is(err, s3client.ErrNotFound) && s.config.Poll > 0 {
			return nil // it may still come
		}
		if err != nil {
			return err
		}
		return s.offer(ctx, info)
	}
	return s.config.Client.List(ctx, in.bucket, in.prefix, "", func(info *s3client.Info) (bool, error) {
		return true, s.offer(ctx, info)
	})
}

func (s *Source) listManifest(ctx context.Context, name string) error {
	names, err := s.readManifest(ctx, name)
	if err != nil {
		return err
	}
	for _, name := range names {
		bucket, key, err := s3client.ParseURI(name)
		if err != nil {
			return err
		}
		if err := s.listInput(ctx, input{bucket, key, true}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) readManifest(ctx context.Context, name string) ([]string, error) {
	var in io.ReadCloser
	bucket, key, err := s3client.ParseURI(name)
	if err == nil {
		in, err = s.config.Client.Open(ctx, bucket, key, "")
	} else {
		in, err = os.Open(name)
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	plain, err := compress.NewReader(in)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	return ParseManifest(plain)
}

// offer hands out the lanes of an object that a listing gave.
func (s *Source) offer(ctx context.Context, info *s3client.Info) error {
	relative, ok := s.counts(info)
	if !ok || s.known(info) {
		return nil
	}
	return s.hand(ctx, &object{info: *info, relative: relative})
}

// known says whether this version of an object has been handed out. An older one must be finished first, since both
// would have the same name.
func (s *Source) known(info *s3client.Info) bool {
	if s.config.Poll == 0 {
		return false
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := info.URI()
	if s.seen[name] == info.ETag {
		return true
	}
	for open := range s.open {
		if s.open[open].object.info.URI() == name {
			return true // for this time
		}
	}
	s.seen[name] = info.ETag
	return false
}

// hand gives the lanes of an object to whoever calls Next. It returns nil when the source is closed.
func (s *Source) hand(ctx context.Context, o *object) error {
	parts, err := s.divide(ctx, o)
	if err != nil {
		return err
	}
	lanes := make([]*lane, 0, len(parts))
	for _, p := range parts {
		l := newLane(s, o, p)
		if s.config.Shard.Has(l.name) {
			lanes = append(lanes, l)
		}
	}
	if o.delivery != nil {
		o.delivery.expect(len(lanes)) // all at once, or the first could end before the second is counted
	}
	for i, l := range lanes {
		s.mutex.Lock()
		s.open[l.name] = l
		s.mutex.Unlock()
		select {
		case s.found <- l:
		case <-ctx.Done():
			for _, rest := range lanes[i:] {
				rest.forget()
			}
			return nil
		}
	}
	return nil
}

// A part is a range of the bytes of an object. A line belongs to the part that its first byte lies in.
type part struct {
	index, count int
	from, to     int64 // to is behind the last byte
}

// divide cuts a large object of plain lines into ranges.
func (s *Source) divide(ctx context.Context, o *object) ([]part, error) {
	size, split := o.info.Size, s.config.Split
	whole := []part{{0, 1, 0, size}}
	lines := s.config.Records.Format != recordio.Parquet && !s.config.Records.Header
	if split == 0 || size <= split || !lines {
		return whole, nil
	}
	plain, err := s.isPlain(ctx, &o.info)
	if err != nil || !plain {
		return whole, err
	}
	count := int((size + split - 1) / split)
	parts := make([]part, count)
	for i := range parts {
		parts[i] = part{i, count, int64(i) * split, min(size, int64(i+1)*split)}
	}
	return parts, nil
}

// isPlain looks at the first bytes of an object. One that was replaced meanwhile is not divided; its lane will say so.
func (s *Source) isPlain(ctx context.Context, info *s3client.Info) (bool, error) {
	head := make([]byte, min(16, info.Size))
	_, err := s.config.Client.At(ctx, &s3client.Info{Bucket: info.Bucket, Key: info.Key, ETag: info.ETag, Size: int64(len(head))}).ReadAt(head, 0)
	if errors.Is(err, s3client.ErrReplaced) || errors.Is(err, s3client.ErrNotFound) || errors.Is(err, s3client.ErrArchived) {
		return false, nil
	}
	if err != nil && err != io.EOF {
		return false, err
	}
	format, _ := compress.Detect(head)
	return format == compress.Plain && !bytes.HasPrefix(head, []byte("PAR1")), nil
}
