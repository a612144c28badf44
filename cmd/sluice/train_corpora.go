package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluice-mt/sluice/internal/s3client"
)

// corpora opens the texts of a training: files, and objects of S3, such as s3://bucket/train.tsv.zst. How the store is reached
// follows from the environment and files that Amazon's tools read, AWS_ENDPOINT_URL included.
type corpora struct {
	ctx    context.Context
	client *s3client.Client // nil until an object is opened
}

func (c *corpora) open(path string) (io.ReadCloser, error) {
	if !strings.HasPrefix(path, "s3://") {
		return os.Open(path)
	}
	bucket, key, err := s3client.ParseURI(path)
	if err == nil && key == "" {
		err = fmt.Errorf("%q names no object: it must be of the form s3://bucket/key", path)
	}
	if err != nil {
		return nil, inputError{err}
	}
	if c.client == nil {
		if c.client, err = s3client.New(c.ctx, s3FromEnvironment(os.Getenv)); err != nil {
			return nil, inputError{err}
		}
	}
	reader, err := c.client.Open(c.ctx, bucket, key, "")
	if err != nil {
		return nil, inputError{err}
	}
	return reader, nil
}

func (c *corpora) close() {
	if c.client != nil {
		c.client.Close()
	}
}

// s3FromEnvironment is how a store is reached that no job describes. One that is not Amazon's has the bucket in the path.
func s3FromEnvironment(variable func(name string) string) s3client.Config {
	endpoint := variable("AWS_ENDPOINT_URL_S3")
	if endpoint == "" {
		endpoint = variable("AWS_ENDPOINT_URL")
	}
	return s3client.Config{Endpoint: endpoint, PathStyle: endpoint != ""}
}
