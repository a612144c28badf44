package infra

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/jobfile"
)

// variables are what the examples ask of the environment, where they give no default.
var variables = map[string]string{
	"BUCKET": "bucket", "QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/drops", "MONO": "mono.de", "OUT": "synthetic.en",
	"KAFKA_BOOTSTRAP": "localhost:9092", "KAFKA_USER": "sluice", "HOSTNAME": "worker-0",
}

func lookup(name string) (string, bool) {
	value, ok := variables[name]
	return value, ok
}

func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(path("docs", "examples", "*.yml"))
	if err != nil || len(files) < 4 {
		t.Fatal("there are no examples", err)
	}
	return files
}

func parseExample(t *testing.T, file string) *jobfile.Job {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	job, err := jobfile.Parse(content, lookup)
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(file), err)
	}
	return job
}

// The command checks more than the package that reads job files: the options of the engine, and whether the model can be
// found.
func TestExamplesPassLint(t *testing.T) {
	var environment []string
	for name, value := range variables {
		environment = append(environment, name+"="+value)
	}
	mustRun(t, environment, sluice.build(t), append([]string{"lint"}, examples(t)...)...)
}

func TestExamplesShowTheFourUses(t *testing.T) {
	job := func(name string) *jobfile.Job { return parseExample(t, path("docs", "examples", name)) }
	if j := job("corpus-s3.yml"); j.Source.S3 == nil || j.Sink.S3 == nil || j.Source.S3.Poll != 0 || j.DeadLetters != "" {
		t.Error("the corpus is to go from S3 to S3, once, and no line may be missing from it")
	}
	if j := job("file-drop-s3.yml"); j.Source.S3 == nil || j.Source.S3.Queue == "" || j.DeadLetters == "" {
		t.Error("the file drop is to have a queue and dead letters")
	}
	sampling := func(o jobfile.Option) bool { return o.Name == "output-sampling" }
	if j := job("back-translation.yml"); !slices.ContainsFunc(j.Translate, sampling) {
		t.Error("back-translation is to sample")
	}
	for _, name := range []string{"kafka.yml", "kafka-secure.yml"} {
		if j := job(name); j.Source.Kafka == nil || j.Sink.Kafka == nil || j.Sink.Kafka.Guarantee != "exactly-once" || j.DeadLetters == "" {
			t.Errorf("%s is to go from topic to topic, exactly once, with dead letters", name)
		}
	}
	if j := job("kafka-secure.yml"); j.Source.Kafka.TLS == nil || j.Source.Kafka.SASL == nil {
		t.Error("kafka-secure.yml is to use TLS and a password")
	}
}

// A secret that stands in a file ends up in a repository.
func TestExamplesHoldNoSecrets(t *testing.T) {
	for _, file := range examples(t) {
		j := parseExample(t, file)
		for _, c := range []*jobfile.KafkaSASL{sasl(j.Source.Kafka), sinkSASL(j.Sink.Kafka)} {
			if c != nil && c.Password != "" {
				t.Errorf("%s: a password stands in the file", filepath.Base(file))
			}
		}
	}
}

func sasl(s *jobfile.KafkaSource) *jobfile.KafkaSASL {
	if s == nil {
		return nil
	}
	return s.SASL
}

func sinkSASL(s *jobfile.KafkaSink) *jobfile.KafkaSASL {
	if s == nil {
		return nil
	}
	return s.SASL
}

var setting = regexp.MustCompile("`([a-z0-9]+(?:[.-][a-z0-9]+)*)(?::[^`]*)?`")

// The guide names settings as code; whatever looks like the path of one has to be one.
func TestGuideNamesSettingsThatExist(t *testing.T) {
	schema, err := jobfile.Schema()
	if err != nil {
		t.Fatal(err)
	}
	known := string(schema)
	guide := read(t, "docs", "streaming.md")
	checked := 0
	for _, match := range setting.FindAllStringSubmatch(guide, -1) {
		first, _, nested := strings.Cut(match[1], ".")
		if !nested || !slices.Contains([]string{"source", "sink", "records", "observe"}, first) {
			continue
		}
		for part := range strings.SplitSeq(match[1], ".") {
			if !strings.Contains(known, `"`+part+`":`) {
				t.Errorf("docs/streaming.md speaks of %s, and there is no setting %q", match[1], part)
			}
		}
		checked++
	}
	if checked == 0 {
		t.Error("docs/streaming.md names no settings")
	}
}
