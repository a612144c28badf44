package s3client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ErrNoConditions says that a store ignores the conditions of writes, on which exactly-once rests.
var ErrNoConditions = errors.New("the store ignores conditional writes, so that two writers could overwrite each other: exactly-once cannot be had on it")

// NewToken returns a name that nobody else has.
func NewToken() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// Probe writes an object below prefix and checks that the store keeps the conditions which the sink relies on: that
// neither a second write nor a completed upload replaces it if it was to be absent, and that a write which is to
// replace another version fails. It leaves nothing behind.
func (c *Client) Probe(ctx context.Context, bucket, prefix string) (err error) {
	key := prefix + ".sluice-probe-" + NewToken()
	etag, err := c.Put(ctx, bucket, key, []byte("probe"), Condition{Absent: true}, nil)
	if err != nil && !errors.Is(err, ErrExists) { // an answer may have been lost
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, c.Delete(clean, bucket, key))
	}()
	if etag == "" {
		info, err := c.Head(ctx, bucket, key)
		if err != nil {
			return err
		}
		etag = info.ETag
	}
	for _, test := range []struct {
		what  string
		write func() error
	}{
		{"a write that was to create an object replaced one", func() error {
			_, err := c.Put(ctx, bucket, key, []byte("other"), Condition{Absent: true}, nil)
			return err
		}},
		{"an upload that was to create an object replaced one", func() error { return c.probeUpload(ctx, bucket, key) }},
		{"a write that was to replace another version replaced this one", func() error {
			_, err := c.Put(ctx, bucket, key, []byte("other"), Condition{ETag: `"00000000000000000000000000000000"`}, nil)
			return err
		}},
	} {
		if err := test.write(); err == nil {
			return &Error{Operation: "probing", Bucket: bucket, Key: prefix, Kind: ErrNoConditions, Err: errors.New(test.what)}
		} else if !errors.Is(err, ErrExists) {
			return fmt.Errorf("finding out whether the store keeps conditions: %w", err)
		}
	}
	if info, err := c.Head(ctx, bucket, key); err != nil {
		return err
	} else if info.ETag != etag {
		return &Error{Operation: "probing", Bucket: bucket, Key: prefix, Kind: ErrNoConditions, Err: errors.New("a write that was refused took place")}
	}
	return nil
}

func (c *Client) probeUpload(ctx context.Context, bucket, key string) error {
	u, err := c.BeginUpload(ctx, bucket, key, nil)
	if err != nil {
		return err
	}
	part, err := c.PutPart(ctx, u, 1, []byte("other"))
	if err == nil {
		_, err = c.Complete(ctx, u, []Part{part}, Condition{Absent: true})
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if abortErr := c.Abort(clean, u); abortErr != nil {
			return fmt.Errorf("%w; %w", err, abortErr)
		}
	}
	return err
}
