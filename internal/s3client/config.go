// Package s3client speaks to Amazon S3 and to the stores that follow it, in the way the source and the sink need:
// conditional writes, reads that are pinned to one version of an object, and errors that say what happened.
//
// Everything that must be on every request (the requester pays, who owns the bucket, how objects are encrypted) is
// set here once, so that no caller can forget it.
package s3client

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

// Config says where the store is and how it is spoken to. The zero value is Amazon S3 with whatever the environment,
// the shared configuration files or the machine's role say.
type Config struct {
	Endpoint  string // URL of a store other than Amazon's, such as http://127.0.0.1:9000
	Region    string // "" is what the environment says, and us-east-1 where that says nothing and there is an Endpoint
	PathStyle bool   // the bucket stands in the path instead of the host name, as most other stores want it

	// AccessKey and SecretKey, and SessionToken for temporary ones. Where they are not set, the environment, the
	// shared files (of Profile) and the machine's role are asked, in the order that Amazon's tools ask them.
	AccessKey, SecretKey, SessionToken string
	Profile                            string
	Anonymous                          bool // requests are not signed: for public buckets

	RequesterPays bool   // requests say that they are paid for by us
	Owner         string // account that must own the buckets; requests fail otherwise. "" is not checked

	Encryption  string // of what is written: "" is as the bucket says, "AES256", "aws:kms" or "aws:kms:dsse"
	KMSKey      string // the key for aws:kms; "" is the bucket's
	CustomerKey []byte // 32 bytes, with which the store encrypts and which it does not keep (SSE-C); read and written

	// Checksums says when requests carry CRC32 checksums beside those of the signature: "" is on Amazon S3 always and
	// elsewhere where an operation requires it, since some stores refuse what they do not know; "always", "required".
	Checksums string

	// Unsigned leaves the bodies of requests out of the signature, which saves hashing them, where Checksums are only those
	// that are required. It is for endpoints that are reached by https, or over a network that is trusted.
	Unsigned bool

	Attempts        int           // of a request, the first included; 0 is 6
	MaxBackoff      time.Duration // longest pause between attempts; 0 is 20 s
	ConnectTimeout  time.Duration // of one attempt; 0 is 10 s
	ResponseTimeout time.Duration // of one attempt, from the request's last byte to the answer's first; 0 is 60 s
	StallTimeout    time.Duration // a body that gives nothing for so long is asked for anew; 0 is 30 s

	// Transport carries the requests; nil is one made of the timeouts above.
	Transport http.RoundTripper
}

// Check says what is wrong with the configuration.
func (c *Config) Check() error {
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return errors.New("s3: an access key needs a secret key, and the other way round")
	}
	if c.Anonymous && c.AccessKey != "" {
		return errors.New("s3: requests are either anonymous or made with a key")
	}
	switch c.Encryption {
	case "", "AES256":
		if c.KMSKey != "" {
			return fmt.Errorf("s3: a KMS key is for the encryption aws:kms, not %q", c.Encryption)
		}
	case "aws:kms", "aws:kms:dsse":
	default:
		return fmt.Errorf("s3: unknown encryption %q: it is AES256, aws:kms or aws:kms:dsse", c.Encryption)
	}
	if n := len(c.CustomerKey); n != 0 && n != 32 {
		return fmt.Errorf("s3: a customer key has 32 bytes, not %d", n)
	}
	if len(c.CustomerKey) > 0 && c.Encryption != "" {
		return errors.New("s3: objects are encrypted either with a customer key or with one of the store")
	}
	switch c.Checksums {
	case "", "always", "required":
	default:
		return fmt.Errorf("s3: unknown checksums %q: it is always or required", c.Checksums)
	}
	return nil
}

func (c Config) withDefaults() Config {
	setDefault(&c.Attempts, 6)
	setDefault(&c.MaxBackoff, 20*time.Second)
	setDefault(&c.ConnectTimeout, 10*time.Second)
	setDefault(&c.ResponseTimeout, 60*time.Second)
	setDefault(&c.StallTimeout, 30*time.Second)
	if c.Checksums == "" {
		c.Checksums = "always"
		if c.Endpoint != "" {
			c.Checksums = "required"
		}
	}
	return c
}

func setDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// newTransport has no limit for a whole request: bodies stream for as long as there is something to translate. loaded
// is the HTTP client of the shared configuration, which knows of AWS_CA_BUNDLE.
func (c *Config) newTransport(loaded aws.HTTPClient) *http.Transport {
	client, ok := loaded.(*awshttp.BuildableClient)
	if !ok {
		client = awshttp.NewBuildableClient()
	}
	transport := client.GetTransport()
	transport.DialContext = (&net.Dialer{Timeout: c.ConnectTimeout, KeepAlive: 30 * time.Second}).DialContext
	transport.TLSHandshakeTimeout = c.ConnectTimeout
	transport.ResponseHeaderTimeout = c.ResponseTimeout
	transport.MaxIdleConnsPerHost = 64
	transport.DisableCompression = true // objects come as they are stored
	transport.WriteBufferSize, transport.ReadBufferSize = 64<<10, 64<<10
	return transport
}

// A Client speaks to one store. It may be used by any number of goroutines.
type Client struct {
	config Config
	api    *s3.Client
	http   *http.Client
	key    customerKey
	body   []func(*s3.Options) // of requests that carry an object's bytes
}

// customerKey is a key for SSE-C as the requests carry it; its fields are nil without one.
type customerKey struct{ algorithm, key, digest *string }

func newCustomerKey(key []byte) customerKey {
	if len(key) == 0 {
		return customerKey{}
	}
	sum := md5.Sum(key) // what the protocol asks for to notice a key that was damaged on its way
	return customerKey{
		algorithm: aws.String("AES256"),
		key:       aws.String(base64.StdEncoding.EncodeToString(key)),
		digest:    aws.String(base64.StdEncoding.EncodeToString(sum[:])),
	}
}

// New returns a Client. It does not speak to the store yet.
func New(ctx context.Context, c Config) (*Client, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	shared, err := c.Load(ctx)
	if err != nil {
		return nil, err
	}
	api := s3.NewFromConfig(shared, func(o *s3.Options) {
		o.UsePathStyle = c.PathStyle
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	client := &Client{config: c, api: api, http: shared.HTTPClient.(*http.Client), key: newCustomerKey(c.CustomerKey)}
	if c.Unsigned {
		client.body = append(client.body, s3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
	}
	return client, nil
}

// Load makes of the configuration what Amazon's other services are spoken to with, too.
func (c Config) Load(ctx context.Context) (aws.Config, error) {
	c = c.withDefaults()
	options := []func(*config.LoadOptions) error{
		config.WithRetryer(func() aws.Retryer { return newRetryer(&c) }),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenSupported),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if c.Checksums == "required" {
		options = append(options, config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired))
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	switch {
	case c.Anonymous:
		options = append(options, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	case c.AccessKey != "":
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, c.SessionToken)))
	}
	shared, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("s3: reading the shared configuration: %w", err)
	}
	if shared.Region == "" {
		if c.Endpoint == "" {
			return aws.Config{}, errors.New("s3: the region is not known: set region, or AWS_REGION in the environment")
		}
		shared.Region = "us-east-1"
	}
	if c.Transport == nil {
		c.Transport = c.newTransport(shared.HTTPClient)
	}
	shared.HTTPClient = &http.Client{Transport: c.Transport}
	return shared, nil
}

// newRetryer tries again what can be tried again: cut connections and answers, time-outs, 500, 503 SlowDown, and the conflict of
// two conditional writes. Without a token bucket: how much is asked for is bounded by the number of lanes.
func newRetryer(c *Config) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = c.Attempts
		o.MaxBackoff = c.MaxBackoff
		o.RateLimiter = unlimited{}
		o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			var cut *smithy.DeserializationError // the answer of a request that was carried out cannot be read to its end
			if isCode(err, "ConditionalRequestConflict") || errors.As(err, &cut) || errors.Is(err, io.ErrUnexpectedEOF) {
				return aws.TrueTernary
			}
			return aws.UnknownTernary
		}))
	})
}

type unlimited struct{}

func (unlimited) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}

func (unlimited) AddTokens(uint) error { return nil }

// Close lets go of connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }
