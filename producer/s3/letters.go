package s3

import (
	"context"
	"errors"
	"strings"

	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/s3client"
)

// letterSuffix ends the names of objects of dead letters: LETTERS/KEY.WRITER.jsonl for the output OUTPUT/KEY.
const letterSuffix = ".jsonl"

// letters are the dead letters of one output. They are in an object before the output appears; that the output names
// the same writer makes them count.
type letters struct {
	sink   *Sink
	lane   string
	bucket string
	base   string // the object's key without writer and suffix
	writer string
	object *upload // nil as long as there are none
	buffer []byte
	stored bool
}

func (s *Sink) newLetters(lane, bucket, base, writer string) *letters {
	return &letters{sink: s, lane: lane, bucket: bucket, base: base, writer: writer}
}

// take makes a letter of an output that failed, and says whether it has.
func (l *letters) take(ctx context.Context, output *job.Output) (bool, error) {
	if l == nil || deadletter.Failed(output) == nil {
		return false, nil
	}
	letter := deadletter.Of(l.lane, output)
	letter.Time = l.sink.now().UTC()
	var err error
	if l.buffer, err = deadletter.Append(l.buffer[:0], &letter); err != nil {
		return false, err
	}
	return true, l.add(ctx, l.buffer)
}

func (l *letters) add(ctx context.Context, data []byte) error {
	if l.object == nil {
		l.object = l.sink.newUpload(l.bucket, l.key(), l.sink.describe(nil), s3client.Condition{Absent: true})
		l.object.prefix = "letters: "
	}
	return l.object.write(ctx, data)
}

func (l *letters) key() string { return l.base + "." + l.writer + letterSuffix }

// put stores the letters, if there are any.
func (l *letters) put(ctx context.Context) error {
	if l == nil || l.object == nil {
		return nil
	}
	_, err := l.object.finish(ctx)
	if err == nil || errors.Is(err, errLost) { // nobody else has this name
		l.stored = true
		l.sink.step("letters stored")
		return nil
	}
	return err
}

// drop removes the letters of an output that did not appear, or was another's. Those of an output that may still appear
// stay; who writes it next removes them.
func (l *letters) drop(ctx context.Context, of *upload) error {
	if l == nil || l.object == nil {
		return nil
	}
	err := l.object.abort()
	if l.stored && !of.uncertain {
		err = errors.Join(err, l.sink.client.Delete(ctx, l.bucket, l.key()))
	}
	l.object, l.stored = nil, false
	return err
}

// clean removes the letters of other writers than the one whose output appeared.
func (l *letters) clean(ctx context.Context, writer string) error {
	if l == nil {
		return nil
	}
	return l.sink.client.List(ctx, l.bucket, l.base+".", "", func(info *s3client.Info) (bool, error) {
		other, ok := strings.CutSuffix(info.Key[len(l.base)+1:], letterSuffix)
		if !ok || !isToken(other) || other == writer {
			return true, nil
		}
		l.sink.step("before letters of another attempt are removed")
		return true, l.sink.client.Delete(ctx, l.bucket, info.Key)
	})
}

func isToken(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}
