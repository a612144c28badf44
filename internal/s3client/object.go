package s3client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Info is what the store tells of an object.
type Info struct {
	Bucket, Key  string
	ETag         string // opaque: it is a hash of the content only sometimes
	Size         int64
	Modified     time.Time
	StorageClass string
	Encoding     string            // Content-Encoding; not in listings
	Metadata     map[string]string // not in listings
}

// URI returns the object's name.
func (i *Info) URI() string { return URI(i.Bucket, i.Key) }

func (c *Client) payer() types.RequestPayer {
	if c.config.RequesterPays {
		return types.RequestPayerRequester
	}
	return ""
}

func (c *Client) owner() *string {
	if c.config.Owner == "" {
		return nil
	}
	return &c.config.Owner
}

func (c *Client) kmsKey() *string {
	if c.config.KMSKey == "" {
		return nil
	}
	return &c.config.KMSKey
}

// Head returns what is known of an object, or ErrNotFound.
func (c *Client) Head(ctx context.Context, bucket, key string) (*Info, error) {
	out, err := c.api.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: &bucket, Key: &key, RequestPayer: c.payer(), ExpectedBucketOwner: c.owner(),
		SSECustomerAlgorithm: c.key.algorithm, SSECustomerKey: c.key.key, SSECustomerKeyMD5: c.key.digest,
	})
	if err != nil {
		return nil, wrap("looking at", bucket, key, err, ErrReplaced)
	}
	return &Info{
		Bucket: bucket, Key: key, ETag: aws.ToString(out.ETag), Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified),
		StorageClass: string(out.StorageClass), Encoding: aws.ToString(out.ContentEncoding), Metadata: out.Metadata,
	}, nil
}

// A Range is the bytes of an object that are asked for. Length 0 is all from From on.
type Range struct{ From, Length int64 }

func (r Range) header() *string {
	switch {
	case r.Length > 0:
		return aws.String(fmt.Sprintf("bytes=%d-%d", r.From, r.From+r.Length-1))
	case r.From > 0:
		return aws.String(fmt.Sprintf("bytes=%d-", r.From))
	default:
		return nil
	}
}

// Get begins to read an object. With an ETag it must be that version, or ErrReplaced is returned; a store that
// ignores the condition is found out by the ETag that it answers with.
func (c *Client) Get(ctx context.Context, bucket, key, etag string, r Range) (io.ReadCloser, *Info, error) {
	in := &s3.GetObjectInput{
		Bucket: &bucket, Key: &key, Range: r.header(), RequestPayer: c.payer(), ExpectedBucketOwner: c.owner(),
		SSECustomerAlgorithm: c.key.algorithm, SSECustomerKey: c.key.key, SSECustomerKeyMD5: c.key.digest,
	}
	if etag != "" {
		in.IfMatch = &etag
	}
	out, err := c.api.GetObject(ctx, in)
	if err != nil {
		return nil, nil, wrap("reading", bucket, key, err, ErrReplaced)
	}
	if found := aws.ToString(out.ETag); etag != "" && found != etag {
		out.Body.Close()
		return nil, nil, &Error{Operation: "reading", Bucket: bucket, Key: key, Kind: ErrReplaced, Err: fmt.Errorf("its ETag is %s and was %s", found, etag)}
	}
	if r.From > 0 && out.ContentRange == nil {
		out.Body.Close()
		return nil, nil, &Error{Operation: "reading", Bucket: bucket, Key: key, Kind: ErrNotOffered, Err: fmt.Errorf("it gives the whole object where byte %d and what follows was asked for", r.From)}
	}
	info := &Info{
		Bucket: bucket, Key: key, ETag: aws.ToString(out.ETag), Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified),
		StorageClass: string(out.StorageClass), Encoding: aws.ToString(out.ContentEncoding), Metadata: out.Metadata,
	}
	return out.Body, info, nil
}

// ReadAll reads a small object, of limit bytes at most.
func (c *Client) ReadAll(ctx context.Context, bucket, key string, limit int64) ([]byte, *Info, error) {
	r, err := c.Open(ctx, bucket, key, "")
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	if r.Info().Size > limit {
		return nil, nil, &Error{Operation: "reading", Bucket: bucket, Key: key, Err: fmt.Errorf("it has %d bytes, more than the %d it may have", r.Info().Size, limit)}
	}
	data, err := io.ReadAll(r)
	return data, r.Info(), err
}

// A Condition says what must hold for a write to take place.
type Condition struct {
	Absent bool   // there is no object of that name yet
	ETag   string // there is one, with this ETag
}

func (c Condition) headers() (ifNoneMatch, ifMatch *string) {
	if c.Absent {
		ifNoneMatch = aws.String("*")
	}
	if c.ETag != "" {
		ifMatch = &c.ETag
	}
	return ifNoneMatch, ifMatch
}

// Put writes an object in one request and returns its ETag. An object that the condition forbids is ErrExists.
func (c *Client) Put(ctx context.Context, bucket, key string, data []byte, condition Condition, metadata map[string]string) (string, error) {
	in := &s3.PutObjectInput{
		Bucket: &bucket, Key: &key, Body: bytes.NewReader(data), Metadata: metadata, RequestPayer: c.payer(), ExpectedBucketOwner: c.owner(),
		ServerSideEncryption: types.ServerSideEncryption(c.config.Encryption), SSEKMSKeyId: c.kmsKey(),
		SSECustomerAlgorithm: c.key.algorithm, SSECustomerKey: c.key.key, SSECustomerKeyMD5: c.key.digest,
	}
	in.IfNoneMatch, in.IfMatch = condition.headers()
	out, err := c.api.PutObject(ctx, in, c.body...)
	if err != nil {
		return "", wrap("writing", bucket, key, err, ErrExists)
	}
	return aws.ToString(out.ETag), nil
}

// Delete removes an object. One that is not there is no error.
func (c *Client) Delete(ctx context.Context, bucket, key string) error {
	_, err := c.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key, RequestPayer: c.payer(), ExpectedBucketOwner: c.owner()})
	if isCode(err, "NoSuchKey", "NotFound") {
		return nil
	}
	return wrap("removing", bucket, key, err, ErrReplaced)
}

// List calls visit for the objects whose keys begin with prefix and come after a given one ("" is all), in the order
// of their bytes, until visit returns false.
func (c *Client) List(ctx context.Context, bucket, prefix, after string, visit func(*Info) (bool, error)) error {
	in := &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix, RequestPayer: c.payer(), ExpectedBucketOwner: c.owner()}
	if after != "" {
		in.StartAfter = &after
	}
	for {
		page, err := c.api.ListObjectsV2(ctx, in)
		if err != nil {
			return wrap("listing", bucket, prefix, err, ErrReplaced)
		}
		for i := range page.Contents {
			o := &page.Contents[i]
			info := &Info{Bucket: bucket, Key: aws.ToString(o.Key), ETag: aws.ToString(o.ETag), Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified), StorageClass: string(o.StorageClass)}
			if more, err := visit(info); err != nil || !more {
				return err
			}
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextContinuationToken) == "" {
			return nil
		}
		in.ContinuationToken = page.NextContinuationToken
	}
}

// FirstAfter returns the first key behind a given one among those that begin with prefix, and "" if there is none.
func (c *Client) FirstAfter(ctx context.Context, bucket, prefix, after string) (string, error) {
	in := &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix, MaxKeys: aws.Int32(1), RequestPayer: c.payer(), ExpectedBucketOwner: c.owner()}
	if after != "" {
		in.StartAfter = &after
	}
	page, err := c.api.ListObjectsV2(ctx, in)
	if err != nil {
		return "", wrap("listing", bucket, prefix, err, ErrReplaced)
	}
	if len(page.Contents) == 0 {
		return "", nil
	}
	return aws.ToString(page.Contents[0].Key), nil
}

// CreateBucket makes a bucket. One that is ours already is no error.
func (c *Client) CreateBucket(ctx context.Context, bucket string) error {
	_, err := c.api.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
	if isCode(err, "BucketAlreadyOwnedByYou") {
		return nil
	}
	return wrap("creating", bucket, "", err, ErrExists)
}
