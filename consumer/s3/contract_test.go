package s3

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/consumer/contract"
	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3test"
)

// stores runs a test against the fake store and against a real server.
func stores(t *testing.T, test func(t *testing.T, store *s3test.Store)) {
	t.Run("fake", func(t *testing.T) { test(t, s3test.Fake(t)) })
	t.Run("versitygw", func(t *testing.T) { test(t, s3test.Gateway(t)) })
}

func TestContract(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		client := store.Client(t)
		suffixes := []string{".txt", ".gz", ".zst", ".bz2", ".xz"}
		if testing.Short() {
			suffixes = suffixes[:2]
		}
		for _, suffix := range suffixes {
			t.Run(suffix[1:], func(t *testing.T) {
				contract.RunTests(t, contract.Config{Store: func(t *testing.T, lanes [][]string) func() consumer.Source {
					bucket := store.Bucket(t)
					for i, lane := range lanes {
						store.Put(t, bucket, fmt.Sprint("in/lane ", i, suffix), packed(t, suffix, lineByLine(lane)))
					}
					return func() consumer.Source {
						return New(Config{Client: client, Inputs: []string{"s3://" + bucket + "/in/"}})
					}
				}})
			})
		}
		t.Run("parquet", func(t *testing.T) {
			contract.RunTests(t, contract.Config{Store: func(t *testing.T, lanes [][]string) func() consumer.Source {
				bucket := store.Bucket(t)
				for i, lane := range lanes {
					store.Put(t, bucket, fmt.Sprint("in/lane ", i), parquetOf(t, lane))
				}
				return func() consumer.Source {
					return New(Config{Client: client, Inputs: []string{"s3://" + bucket}, Records: recordio.Options{Format: recordio.Parquet}})
				}
			}})
		})
	})
}

// The lanes of the suite are objects too small to be divided, and the ranges of one that is divided in two. The second
// range has nothing, for the line that crosses belongs to the first, and so stands for the lane without records.
func TestContractOfRanges(t *testing.T) {
	store := s3test.Fake(t)
	client := store.Client(t)
	contract.RunTests(t, contract.Config{Store: func(t *testing.T, lanes [][]string) func() consumer.Source {
		bucket := store.Bucket(t)
		split := int64(10) << 30
		var all strings.Builder
		for i, lane := range lanes {
			switch {
			case len(lane) == 0:
				continue
			case len(lane) < 100:
				store.Put(t, bucket, fmt.Sprint(i), []byte(lineByLine(lane)))
				continue
			}
			all.WriteString(lineByLine(lane))
			split = int64(all.Len()) - 2
		}
		store.Put(t, bucket, "large", []byte(all.String()))
		return func() consumer.Source {
			return New(Config{Client: client, Inputs: []string{"s3://" + bucket + "/"}, Split: split})
		}
	}})
}

func lineByLine(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// packed compresses data as the ending of a name says.
func packed(t testing.TB, suffix, data string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := compress.NewWriter(&out, compress.BySuffix("x"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(data) {
		w.Write([]byte(line))
		w.Cut()
	}
	if err := w.Finish(true); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func parquetOf(t testing.TB, texts []string) []byte {
	t.Helper()
	type row struct {
		Text string `parquet:"text"`
	}
	rows := make([]row, len(texts))
	for i, text := range texts {
		rows[i].Text = text
	}
	var out bytes.Buffer
	if err := parquet.Write(&out, rows, parquet.MaxRowsPerRowGroup(700)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
