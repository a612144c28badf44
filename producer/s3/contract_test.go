package s3

import (
	"bytes"
	"context"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/producer"
	"github.com/sluice-mt/sluice/producer/contract"
)

// stores runs a test against the fake store and against a real server.
func stores(t *testing.T, test func(t *testing.T, store *s3test.Store)) {
	t.Run("fake", func(t *testing.T) { test(t, s3test.Fake(t)) })
	t.Run("versitygw", func(t *testing.T) { test(t, s3test.Gateway(t)) })
}

// unprobed returns a sink that takes the store at its word.
func unprobed(config Config) *Sink {
	s := New(config)
	s.probe = func(context.Context) error { return nil }
	return s
}

// fewer lowers the number of random runs, each of which talks to a server many times.
func fewer(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	runs := "10"
	if testing.Short() {
		runs = "3"
	}
	if err := checks.Value.Set(runs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) })
}

// suffixes are those of the outputs that are tested.
func suffixes(all ...string) []string {
	if testing.Short() {
		return all[1:2]
	}
	return all
}

func TestContractOfObjects(t *testing.T) {
	fewer(t)
	stores(t, func(t *testing.T, store *s3test.Store) {
		client := store.Client(t)
		for _, suffix := range suffixes("", ".gz", ".zst") {
			t.Run("suffix"+suffix, func(t *testing.T) {
				contract.RunTests(t, contract.Config{Overlaps: true, New: func(t testing.TB) contract.Place {
					bucket := store.Bucket(t)
					config := Config{Client: client, Job: "test", Output: "s3://" + bucket + "/out/", Encoder: recordio.NewTextEncoder(),
						Key: func(lane string) (string, error) { return lane + suffix, nil }}
					return contract.Place{
						Sink: func() producer.Sink { return unprobed(config) },
						Published: func(t testing.TB, lane string) []string {
							data, info := store.Get(t, bucket, "out/"+lane+suffix)
							if info == nil {
								return nil
							}
							return linesOf(t, data)
						},
					}
				}})
			})
		}
	})
}

func TestContractOfChains(t *testing.T) {
	fewer(t)
	stores(t, func(t *testing.T, store *s3test.Store) {
		client := store.Client(t)
		for _, suffix := range suffixes(".txt", ".gz") {
			t.Run("suffix"+suffix, func(t *testing.T) {
				contract.RunTests(t, contract.Config{Incremental: true, Forgets: true, Races: true, New: func(t testing.TB) contract.Place {
					bucket := store.Bucket(t)
					config := Config{Client: client, Job: "test", Output: "s3://" + bucket + "/out/", Encoder: recordio.NewTextEncoder(),
						Key: func(lane string) (string, error) { return lane, nil }, Chain: &Chain{Suffix: suffix}}
					return contract.Place{
						Sink: func() producer.Sink { return unprobed(config) },
						Published: func(t testing.TB, lane string) []string {
							var lines []string
							keys := store.Keys(t, bucket, "out/"+lane+"/")
							slices.Sort(keys)
							for _, key := range keys {
								data, _ := store.Get(t, bucket, key)
								lines = append(lines, linesOf(t, data)...)
							}
							return lines
						},
					}
				}})
			})
		}
	})
}

// linesOf inflates data and returns its lines, which are never nil.
func linesOf(t testing.TB, data []byte) []string {
	t.Helper()
	r, err := compress.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for line := range strings.Lines(string(plain)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}
