package s3client

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

var (
	// ErrNotFound says that there is no such object, upload or bucket.
	ErrNotFound = errors.New("not found")

	// ErrExists says that a write was to create an object, or to replace a known one, and another was found there.
	// After attempts whose answers were lost it may be our own: see Info.Metadata.
	ErrExists = errors.New("an object is there already")

	// ErrConflict says that two conditional writes met, and that neither is known to have won.
	ErrConflict = errors.New("another write to the object was under way")

	// ErrReplaced says that an object is not the one any more that was to be read.
	ErrReplaced = errors.New("the object was replaced")

	// ErrArchived says that an object must be restored from an archive before it can be read.
	ErrArchived = errors.New("the object lies in an archive: restore it first")

	// ErrDenied says that the store refuses access.
	ErrDenied = errors.New("access denied")

	// ErrNotOffered says that the store does not know the operation.
	ErrNotOffered = errors.New("the store does not offer this")
)

// An Error says which operation on which object failed.
type Error struct {
	Operation string
	Bucket    string
	Key       string // "" for operations on a bucket
	Kind      error  // one of the errors of this package, or nil
	Err       error
}

// Error names the operation, the object and the reason.
func (e *Error) Error() string {
	if e.Kind != nil {
		return fmt.Sprintf("%s %s: %v (%s)", e.Operation, URI(e.Bucket, e.Key), e.Kind, reason(e.Err))
	}
	return fmt.Sprintf("%s %s: %s", e.Operation, URI(e.Bucket, e.Key), reason(e.Err))
}

// Unwrap returns the kind and the reason.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// reason is short where the store said what is wrong: the operation and the object are told already.
func reason(err error) string {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err.Error()
	}
	text := api.ErrorCode()
	if api.ErrorMessage() != "" {
		text += ": " + api.ErrorMessage()
	}
	var attempts interface{ Attempts() int }
	if errors.As(err, &attempts) {
		text += fmt.Sprintf(", after %d attempts", attempts.Attempts())
	}
	return text
}

func isCode(err error, codes ...string) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	for _, code := range codes {
		if api.ErrorCode() == code {
			return true
		}
	}
	return false
}

func status(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

// wrap classifies an error of the store. precondition is what 412 means for the operation.
func wrap(operation, bucket, key string, err, precondition error) error {
	if err == nil {
		return nil
	}
	e := &Error{Operation: operation, Bucket: bucket, Key: key, Err: err}
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	case isCode(err, "PreconditionFailed") || status(err) == http.StatusPreconditionFailed:
		e.Kind = precondition
	case isCode(err, "ConditionalRequestConflict"):
		e.Kind = ErrConflict
	case isCode(err, "InvalidObjectState"):
		e.Kind = ErrArchived
	case isCode(err, "NoSuchKey", "NoSuchBucket", "NoSuchUpload", "NotFound") || status(err) == http.StatusNotFound:
		e.Kind = ErrNotFound
	case isCode(err, "NotImplemented", "MethodNotAllowed") || status(err) == http.StatusNotImplemented:
		e.Kind = ErrNotOffered
	case isCode(err, "AccessDenied") || status(err) == http.StatusForbidden:
		e.Kind = ErrDenied
	}
	return e
}
