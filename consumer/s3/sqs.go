package s3

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/sluice-mt/sluice/internal/s3client"
)

// SQS says which queue of Amazon SQS tells of new objects.
type SQS struct {
	URL        string        // of the queue
	Endpoint   string        // of SQS, where it is not Amazon's
	Visibility time.Duration // for how long a message is hidden from other workers at a time; 0 is 5 minutes
	Wait       time.Duration // for messages in one request; 0 is 20 s, the most there is
	Batch      int           // messages received at once; 0 is 1, so that none waits behind another's objects
}

// A Queue is a Feed of messages in SQS. A message is deleted when everything it tells of is in the sink; until then it
// is hidden from other workers, and if this one ends it appears again.
type Queue struct {
	config SQS
	api    queueAPI
}

// queueAPI is what is needed of SQS.
type queueAPI interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
}

// NewQueue returns a Queue that is spoken to with the credentials, the region and the retries of a client's
// configuration.
func NewQueue(ctx context.Context, client s3client.Config, config SQS) (*Queue, error) {
	if config.URL == "" {
		return nil, errors.New("sqs: the URL of the queue must be set")
	}
	if config.Visibility == 0 {
		config.Visibility = 5 * time.Minute
	}
	if config.Wait == 0 {
		config.Wait = 20 * time.Second
	}
	if config.Batch == 0 {
		config.Batch = 1
	}
	if config.Visibility < 2*time.Second || config.Visibility > 12*time.Hour || config.Wait < 0 || config.Wait > 20*time.Second || config.Batch < 0 || config.Batch > 10 {
		return nil, errors.New("sqs: the visibility lies between 2 s and 12 h, the wait below 20 s, and a batch has at most 10 messages")
	}
	client.Endpoint = config.Endpoint
	shared, err := client.Load(ctx)
	if err != nil {
		return nil, err
	}
	api := sqs.NewFromConfig(shared, func(o *sqs.Options) {
		if config.Endpoint != "" {
			o.BaseEndpoint = aws.String(config.Endpoint)
		}
	})
	return &Queue{config: config, api: api}, nil
}

// Receive waits for messages.
func (q *Queue) Receive(ctx context.Context) ([]Notice, error) {
	out, err := q.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.config.URL, MaxNumberOfMessages: int32(q.config.Batch), WaitTimeSeconds: int32(q.config.Wait / time.Second),
		VisibilityTimeout: int32(q.config.Visibility / time.Second),
	})
	if err != nil {
		return nil, err
	}
	notices := make([]Notice, len(out.Messages))
	for i := range out.Messages {
		notices[i] = q.notice(&out.Messages[i])
	}
	return notices, nil
}

func (q *Queue) notice(message *types.Message) Notice {
	return Notice{
		Body: []byte(aws.ToString(message.Body)),
		Each: q.config.Visibility / 2,
		Keep: func(ctx context.Context) error {
			_, err := q.api.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
				QueueUrl: &q.config.URL, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: int32(q.config.Visibility / time.Second),
			})
			return err
		},
		Done: func(ctx context.Context) error {
			_, err := q.api.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.config.URL, ReceiptHandle: message.ReceiptHandle})
			return err
		},
	}
}
