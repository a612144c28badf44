package s3client

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// The limits of a multipart upload.
const (
	MinPart  = 5 << 20 // bytes of a part, except the last
	MaxPart  = 5 << 30
	MaxParts = 10000
)

// An Upload is a multipart upload. Nothing of it can be seen before it is completed.
type Upload struct {
	Bucket, Key, ID string
	Doubtful        bool // an answer was lost when it was begun, so that there may be a second one that nobody knows
	Began           time.Time
}

// A Part is a part of an Upload that the store has.
type Part struct {
	Number int32
	ETag   string
	crc32  *string
}

// BeginUpload begins a multipart upload of an object with metadata.
func (c *Client) BeginUpload(ctx context.Context, bucket, key string, metadata map[string]string) (*Upload, error) {
	in := &s3.CreateMultipartUploadInput{
		Bucket: &bucket, Key: &key, Metadata: metadata, RequestPayer: c.payer(), ExpectedBucketOwner: c.owner(),
		ServerSideEncryption: types.ServerSideEncryption(c.config.Encryption), SSEKMSKeyId: c.kmsKey(),
		SSECustomerAlgorithm: c.key.algorithm, SSECustomerKey: c.key.key, SSECustomerKeyMD5: c.key.digest,
	}
	if c.config.Checksums == "always" {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32 // or parts with a checksum are refused in the end
	}
	out, err := c.api.CreateMultipartUpload(ctx, in)
	if err != nil {
		return nil, wrap("beginning to upload", bucket, key, err, ErrExists)
	}
	results, _ := retry.GetAttemptResults(out.ResultMetadata)
	return &Upload{Bucket: bucket, Key: key, ID: aws.ToString(out.UploadId), Doubtful: len(results.Results) > 1}, nil
}

// PutPart uploads one part.
func (c *Client) PutPart(ctx context.Context, u *Upload, number int32, data []byte) (Part, error) {
	out, err := c.api.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &u.Bucket, Key: &u.Key, UploadId: &u.ID, PartNumber: &number, Body: bytes.NewReader(data),
		RequestPayer: c.payer(), ExpectedBucketOwner: c.owner(),
		SSECustomerAlgorithm: c.key.algorithm, SSECustomerKey: c.key.key, SSECustomerKeyMD5: c.key.digest,
	}, c.body...)
	if err != nil {
		return Part{}, wrap("uploading a part of", u.Bucket, u.Key, err, ErrExists)
	}
	return Part{Number: number, ETag: aws.ToString(out.ETag), crc32: out.ChecksumCRC32}, nil
}

// CopyPart makes a part of bytes that an object in the store has, without moving them through this machine.
func (c *Client) CopyPart(ctx context.Context, u *Upload, number int32, source *Info, r Range) (Part, error) {
	in := &s3.UploadPartCopyInput{
		Bucket: &u.Bucket, Key: &u.Key, UploadId: &u.ID, PartNumber: &number, CopySource: aws.String(escapePath(source.Bucket + "/" + source.Key)),
		CopySourceIfMatch: &source.ETag, RequestPayer: c.payer(), ExpectedBucketOwner: c.owner(),
		SSECustomerAlgorithm: c.key.algorithm, SSECustomerKey: c.key.key, SSECustomerKeyMD5: c.key.digest,
		CopySourceSSECustomerAlgorithm: c.key.algorithm, CopySourceSSECustomerKey: c.key.key, CopySourceSSECustomerKeyMD5: c.key.digest,
	}
	if r.From > 0 || r.Length < source.Size {
		in.CopySourceRange = r.header()
	}
	out, err := c.api.UploadPartCopy(ctx, in)
	if err != nil {
		return Part{}, wrap("copying", source.Bucket, source.Key, err, ErrReplaced)
	}
	if out.CopyPartResult == nil {
		return Part{}, wrap("copying", source.Bucket, source.Key, errors.New("the store gave no result"), nil)
	}
	return Part{Number: number, ETag: aws.ToString(out.CopyPartResult.ETag), crc32: out.CopyPartResult.ChecksumCRC32}, nil
}

// Complete makes an object of the parts and returns its ETag. An object that the condition forbids is ErrExists; the
// upload is there still then, and is to be aborted.
func (c *Client) Complete(ctx context.Context, u *Upload, parts []Part, condition Condition) (string, error) {
	list := make([]types.CompletedPart, len(parts))
	for i := range parts {
		list[i] = types.CompletedPart{PartNumber: &parts[i].Number, ETag: &parts[i].ETag, ChecksumCRC32: parts[i].crc32}
	}
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &u.Bucket, Key: &u.Key, UploadId: &u.ID, MultipartUpload: &types.CompletedMultipartUpload{Parts: list},
		RequestPayer: c.payer(), ExpectedBucketOwner: c.owner(),
		SSECustomerAlgorithm: c.key.algorithm, SSECustomerKey: c.key.key, SSECustomerKeyMD5: c.key.digest,
	}
	in.IfNoneMatch, in.IfMatch = condition.headers()
	out, err := c.api.CompleteMultipartUpload(ctx, in)
	if err != nil {
		return "", wrap("completing", u.Bucket, u.Key, err, ErrExists)
	}
	return aws.ToString(out.ETag), nil
}

// Abort drops an upload and its parts. One that is not there is no error.
func (c *Client) Abort(ctx context.Context, u *Upload) error {
	_, err := c.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &u.Bucket, Key: &u.Key, UploadId: &u.ID, RequestPayer: c.payer(), ExpectedBucketOwner: c.owner(),
	})
	if err = wrap("dropping the upload of", u.Bucket, u.Key, err, ErrReplaced); errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Uploads returns the open uploads of keys that begin with prefix.
func (c *Client) Uploads(ctx context.Context, bucket, prefix string) ([]Upload, error) {
	in := &s3.ListMultipartUploadsInput{Bucket: &bucket, Prefix: &prefix, RequestPayer: c.payer(), ExpectedBucketOwner: c.owner()}
	var list []Upload
	for {
		page, err := c.api.ListMultipartUploads(ctx, in)
		if isCode(err, "NoSuchUpload") { // which some stores say where there is none
			return list, nil
		}
		if err != nil {
			return nil, wrap("listing the uploads of", bucket, prefix, err, ErrReplaced)
		}
		for i := range page.Uploads {
			u := &page.Uploads[i]
			list = append(list, Upload{Bucket: bucket, Key: aws.ToString(u.Key), ID: aws.ToString(u.UploadId), Began: aws.ToTime(u.Initiated)})
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextKeyMarker) == "" {
			return list, nil
		}
		in.KeyMarker, in.UploadIdMarker = page.NextKeyMarker, page.NextUploadIdMarker
	}
}
