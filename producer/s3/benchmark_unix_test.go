//go:build unix

package s3

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	source "github.com/sluice-mt/sluice/consumer/s3"
	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/pipeline"
)

// BenchmarkCopy is what carrying objects from S3 to S3 costs without a translation: go test -bench Copy ./producer/s3
func BenchmarkCopy(b *testing.B) {
	for _, length := range []int{200, 2000} {
		for _, unsigned := range []bool{false, true} {
			b.Run(fmt.Sprintf("lines of %d, unsigned %v", length, unsigned), func(b *testing.B) {
				const objects, size = 4, 64 << 20
				store := s3test.Gateway(b)
				data := bytes.Repeat(append(bytes.Repeat([]byte("word "), length/5-1), "end.\n"...), size/length)
				bucket := store.Bucket(b)
				for i := range objects {
					store.Put(b, bucket, fmt.Sprint("in/", i), data)
				}
				config := store.Config()
				config.Unsigned = unsigned
				client, err := s3client.New(context.Background(), config)
				if err != nil {
					b.Fatal(err)
				}
				defer client.Close()
				b.SetBytes(int64(objects * len(data)))
				before := cputime.Process()
				rounds := 0
				for ; b.Loop(); rounds++ {
					from := source.New(source.Config{Client: client, Inputs: []string{"s3://" + bucket + "/in/"}})
					sink := New(Config{Client: client, Job: "bench", Output: fmt.Sprintf("s3://%s/out%d/", bucket, rounds), Key: from.Relative, Encoder: recordio.NewTextEncoder(), Input: from})
					if err := pipeline.New(pipeline.Config{Lanes: objects}, from, sink, echo{}).Run(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				spent := cputime.Process() - before
				b.ReportMetric(float64(rounds*objects*len(data))/1e6/spent.Seconds(), "MB/cpu-s") // of this process, whatever else runs
			})
		}
	}
}

// echo is a translator that costs nothing at all.
type echo struct{}

func (echo) Submit(segment job.Segment) {
	segment.Done(job.Result{Hypotheses: []job.Hypothesis{{Text: segment.Text}}})
}

func (echo) Flush() {}
