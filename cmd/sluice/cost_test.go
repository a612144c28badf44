//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// BenchmarkPipelineCost is what streams cost beside the translation itself: the processor time of sluice run from topic to
// topic, from object to object and from file to file, with real servers, as a ratio to that of sluice translate on the same
// text. The servers' own time is not in it. Runs take turns, so that a machine whose speed drifts is no matter.
func BenchmarkPipelineCost(b *testing.B) {
	text, err := os.ReadFile(sharedtest.Path(b, "data/bench-news.en"))
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))[:3000]
	c := &costs{
		b: b, lines: lines, model: filepath.Join(sharedtest.Root(), "models", "ende-tiny"),
		cluster: kafkatest.StartReal(b, 1).Cluster, store: s3test.Gateway(b),
	}
	kinds := []struct {
		name string
		cost func() time.Duration
	}{{"topics", c.topics}, {"objects", c.objects}, {"files", c.files}}
	ratios := map[string][]float64{}
	for b.Loop() {
		for _, kind := range kinds {
			alone := c.translate()
			ratios[kind.name] = append(ratios[kind.name], kind.cost().Seconds()/alone.Seconds())
		}
	}
	for name, all := range ratios {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name+"/translate")
	}
}

// costs measures the processor time of translating the same lines in several ways.
type costs struct {
	b       *testing.B
	lines   [][]byte
	model   string
	cluster *kafkatest.Cluster
	store   *s3test.Store
	rounds  int
}

// spent runs sluice and returns its processor time.
func (c *costs) spent(arguments ...string) time.Duration {
	c.b.Helper()
	command := exec.Command("sluice", arguments...)
	var messages bytes.Buffer
	command.Stderr = &messages
	if err := command.Run(); err != nil && command.ProcessState.ExitCode() != exitFlagged {
		c.b.Fatalf("%v: %s", err, messages.String())
	}
	return command.ProcessState.UserTime() + command.ProcessState.SystemTime()
}

// input writes the lines into a file.
func (c *costs) input() string {
	path := filepath.Join(c.b.TempDir(), "in")
	if err := os.WriteFile(path, bytes.Join(c.lines, nil), 0o666); err != nil {
		c.b.Fatal(err)
	}
	return path
}

func (c *costs) translate() time.Duration {
	return c.spent("translate", "--quiet", "-m", c.model, "-i", c.input(), "-o", filepath.Join(c.b.TempDir(), "out"))
}

// job runs a job with a name of its own.
func (c *costs) job(source, sink string) time.Duration {
	path := filepath.Join(c.b.TempDir(), "job.yml")
	text := fmt.Sprintf("name: cost-%d\nsource: %s\nsink: %s\ntranslate: {models: %s}\n", c.rounds, source, sink, c.model)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		c.b.Fatal(err)
	}
	return c.spent("run", path)
}

func (c *costs) topics() time.Duration {
	const partitions = 4
	c.rounds++
	in, out := fmt.Sprintf("cost-in-%d", c.rounds), fmt.Sprintf("cost-out-%d", c.rounds)
	c.cluster.CreateTopic(c.b, in, partitions)
	c.cluster.CreateTopic(c.b, out, partitions)
	for p := range partitions {
		var texts []string
		for i := p; i < len(c.lines); i += partitions {
			texts = append(texts, string(bytes.TrimSuffix(c.lines[i], []byte("\n"))))
		}
		c.cluster.Write(c.b, kafkatest.Texts(in, p, texts...)...)
	}
	brokers := c.cluster.Brokers[0]
	return c.job(fmt.Sprintf("{kafka: {brokers: %q, topics: %s, stop-at-end: true}}", brokers, in),
		fmt.Sprintf("{kafka: {brokers: %q, topic: %s}}", brokers, out))
}

func (c *costs) objects() time.Duration {
	c.rounds++
	place := &bucket{store: c.store, name: c.store.Bucket(c.b)}
	c.store.Put(c.b, place.name, "in/text", bytes.Join(c.lines, nil))
	return c.job(fmt.Sprintf("{s3: {inputs: s3://%s/in/, %s}}", place.name, place.store3()),
		fmt.Sprintf("{s3: {prefix: s3://%s/out/, %s}}", place.name, place.store3()))
}

func (c *costs) files() time.Duration {
	c.rounds++
	return c.job(fmt.Sprintf("{files: {paths: %q}}", c.input()), fmt.Sprintf("{files: {folder: %q}}", filepath.Join(c.b.TempDir(), "out")))
}
