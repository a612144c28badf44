package jobfile

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const whole = `# a topic
name: reviews
source:
  kafka:
    brokers: ["localhost:9092,${HOST}:9093"]
    topics: reviews.en
    sasl: {mechanism: PLAIN, user: me, password: "${PASSWORD}"}
sink:
  kafka:
    brokers: [localhost:9092]
    topic: reviews.de
    tls:
translate:
  models: models/ende-tiny
  beam-size: 4
  output-sampling: [topk, 10]
records: {format: jsonl, field: text, targets: [de]}
dead-letters: reviews.failed
max-failed: 0.01
memory: 128MiB
commit-every: 500ms
`

func variables(name string) (string, bool) {
	value, ok := map[string]string{"HOST": "broker", "PASSWORD": "a: [b", "EMPTY": ""}[name]
	return value, ok
}

func TestParse(t *testing.T) {
	job, err := Parse([]byte(whole), variables)
	if err != nil {
		t.Fatal(err)
	}
	source, sink := job.Source.Kafka, job.Sink.Kafka
	if source.Brokers[1] != "broker:9093" || source.Topics[0] != "reviews.en" || source.SASL.Password != "a: [b" || source.Group != "reviews" {
		t.Errorf("source %+v", source)
	}
	if sink.TLS == nil || sink.Guarantee != "exactly-once" || source.TLS != nil {
		t.Errorf("sink %+v", sink)
	}
	if job.Memory != 128<<20 || job.CommitEvery != 500*time.Millisecond || job.MaxFailed != 0.01 || job.Stall != 10*time.Minute {
		t.Errorf("job %+v", job)
	}
	want := []Option{{"models", []string{"models/ende-tiny"}, 14, 11}, {"beam-size", []string{"4"}, 15, 14}, {"output-sampling", []string{"topk", "10"}, 16, 20}}
	if !reflect.DeepEqual(job.Translate, want) {
		t.Errorf("options %+v", job.Translate)
	}
}

// Every kind of mistake is told with its place.
func TestProblems(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"typing error", "memory: 128MiB", "record: 128MiB", `20:1: unknown setting "record": did you mean "records"?`},
		{"unknown", "    topic: reviews.de", "    subject: reviews.de", `11:5: sink.kafka: unknown setting "subject": there are topic, partition,`},
		{"twice", "name: reviews", "name: reviews\nname: again", `3:1: "name" is set twice`},
		{"option twice", "  beam-size: 4", "  beam-size: 4\n  beam-size: 5", `16:3: translate: "beam-size" is set twice`},
		{"not a duration", "500ms", "500", `21:15: commit-every: "500" is not a duration such as`},
		{"not a size", "128MiB", "lots", `20:9: memory: "lots" is not a size such as`},
		{"too large", "128MiB", "99999999999TiB", `is not a size`},
		{"not a share", "0.01", "7", `19:13: max-failed: "7" is not a number from 0 to 1`},
		{"NaN", "0.01", ".nan", `max-failed: ".nan" is not a number from 0 to 1`},
		{"word", "jsonl", "json", `17:19: records.format: "json" is none of text, tsv, jsonl, parquet`},
		{"list for a value", "name: reviews", "name: [a, b]", "2:7: name: expected one value"},
		{"value for a mapping", "translate:\n  models: models/ende-tiny\n  beam-size: 4\n  output-sampling: [topk, 10]", "translate: yes", "13:12: translate: expected options"},
		{"variable", "${HOST}", "${ELSEWHERE}", "5:15: source.kafka.brokers: the environment variable ELSEWHERE is not set"},
		{"open variable", "${HOST}", "${HOST", "${ without }"},
		{"no source", "  kafka:\n    brokers: [\"localhost:9092,${HOST}:9093\"]\n    topics: reviews.en\n    sasl: {mechanism: PLAIN, user: me, password: \"${PASSWORD}\"}\n", "  {}\n", "4:3: source: expected exactly one of files, s3 and kafka"},
		{"no name", "name: reviews", "", "name: missing"},
		{"name", "name: reviews", "name: a/b", `2:7: name: "a/b": letters, digits`},
		{"no port", "[localhost:9092]", "[localhost]", `10:14: sink.kafka.brokers: "localhost": expected host:port`},
		{"no password", `, password: "${PASSWORD}"`, "", "7:11: source.kafka.sasl: expected one of password and password-file"},
		{"no letters", "dead-letters: reviews.failed\n", "", "max-failed: only means something with dead-letters"},
		{"no model", "  models: models/ende-tiny\n  beam-size: 4\n  output-sampling: [topk, 10]", "", "translate: expected options"},
		{"share of no traces", "name: reviews", "name: reviews\nobserve: {trace-share: 0.5}", "3:24: observe.trace-share: only means something with traces"},
		{"port", "[localhost:9092]", "[localhost:99999]", `sink.kafka.brokers: "localhost:99999": expected host:port`},
		{"name of a topic", "topic: reviews.de", "topic: reviews/de", `11:12: sink.kafka.topic: "reviews/de" is no name of a topic`},
		{"name of letters", "dead-letters: reviews.failed", "dead-letters: s3://bucket/failed/", `18:15: dead-letters: "s3://bucket/failed/" is no name of a topic`},
		{"topic twice", "topics: reviews.en", "topics: [reviews.en, reviews.en]", `source.kafka.topics: "reviews.en" stands there twice`},
		{"variable in braces", "translate:\n  models: models/ende-tiny", "translate: {models: ${HOST}}\nx:\n  a: models/ende-tiny", `13:21: did not find expected`},
		{"variable in brackets", "[localhost:9092]", "[${HOST}:9092]", "between braces or brackets ${NAME} has to stand in quotes"},
		{"reads its outputs", "topics: reviews.en\n    sasl: {mechanism: PLAIN, user: me, password: \"${PASSWORD}\"}\nsink:\n  kafka:\n    brokers: [localhost:9092]\n    topic: reviews.de", "topics: [a, reviews.de]\nsink:\n  kafka:\n    brokers: [localhost:9092]\n    topic: reviews.de", `sink.kafka.topic: "reviews.de" is source.kafka.topics as well`},
		{"reads its letters", "dead-letters: reviews.failed", "dead-letters: reviews.en", `18:15: dead-letters: "reviews.en" is source.kafka.topics as well`},
		{"letters among outputs", "dead-letters: reviews.failed", "dead-letters: reviews.de", `18:15: dead-letters: "reviews.de" is sink.kafka.topic as well`},
		{"markers among outputs", "topic: reviews.de", "topic: reviews.de\n    markers: reviews.de", `12:14: sink.kafka.markers: "reviews.de" is sink.kafka.topic as well`},
		{"transactions that brokers end", "500ms", "75s", `21:15: commit-every: 1m15s: into a topic at most 30s`},
		{"syntax", "name: reviews", "name: [reviews", "did not find expected"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(whole, test.old, test.new, 1)
			if text == whole {
				t.Fatal("the test changes nothing")
			}
			_, err := Parse([]byte(text), variables)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// A topic may have the same name in another cluster.
func TestMirrorBetweenClusters(t *testing.T) {
	text := strings.NewReplacer("[localhost:9092]", "[elsewhere:9092]", "topic: reviews.de", "topic: reviews.en").Replace(whole)
	if _, err := Parse([]byte(text), variables); err != nil {
		t.Error(err)
	}
}

// TestPlaces keeps outputs and letters where they cannot take each other's place.
func TestPlaces(t *testing.T) {
	for lines, want := range map[string]string{
		"source: {files: {paths: in}}\nsink: {files: {folder: out}}\ndead-letters: failed":                                     "",
		"source: {files: {paths: in}}\nsink: {files: {folder: out}}\ndead-letters: ./out/":                                     `"./out/" is sink.files.folder as well`,
		"source: {files: {paths: [a, in/]}}\nsink: {files: {folder: out}}\ndead-letters: in":                                   `"in" is source.files.paths as well`,
		"source: {s3: {inputs: s3://b/in/}}\nsink: {s3: {prefix: s3://b/out/}}\ndead-letters: s3://b/out/":                     `is sink.s3.prefix as well`,
		"source: {files: {paths: in}}\nsink: {files: {folder: out, suffix: /../x}}":                                            `sink.files.suffix: "/../x": the end of a name`,
		"source: {files: {paths: in}}\nsink: {files: {folder: out, suffix: .de}}\ndead-letters: out/failed":                    "",
		"source: {s3: {inputs: s3://b/in/}}\nsink: {s3: {prefix: s3://b/out/, suffix: /de}}\ndead-letters: s3://b/out/failed/": "",
	} {
		_, err := Parse([]byte("name: places\ntranslate: {models: m}\n"+lines+"\n"), variables)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", lines, err, want)
		}
	}
}

// TestLists wants n-best lists where the numbers of lines say something.
func TestLists(t *testing.T) {
	const list = "name: lists\nsource: {s3: {inputs: s3://b/in/}}\nsink: {s3: {prefix: s3://b/out/}}\nrecords: {n-best: true}\ntranslate: {models: m}\n"
	job, err := Parse([]byte(list), variables)
	if err != nil || !job.Records.NBest {
		t.Fatalf("%+v, %v", job, err)
	}
	for change, want := range map[[2]string]string{
		{"n-best: true", "n-best: true, format: jsonl, field: a"}:                               "made of text or tsv",
		{"n-best: true", "n-best: true, format: tsv, field: \"1\", targets: de"}:                "made of text or tsv",
		{"n-best: true}", "n-best: true}\nsentences: true"}:                                     "not of their sentences",
		{"inputs: s3://b/in/", "inputs: s3://b/in/, split: 1MiB"}:                               "not known in a part",
		{"s3: {inputs: s3://b/in/}", "kafka: {brokers: [a:1], topics: t}"}:                      "lists are for files and objects",
		{"s3: {prefix: s3://b/out/}", "kafka: {brokers: [\"localhost:9092\"], topic: reviews}"}: "lists are for files and objects",
	} {
		_, err := Parse([]byte(strings.Replace(list, change[0], change[1], 1)), variables)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", change[1], err, want)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Parse([]byte("nam: x\nsource: {}\nmemory: x\nlanes: -1\n"), variables)
	if problems, ok := err.(Problems); !ok || len(problems) != 3 {
		t.Errorf("%v", err)
	}
}

func TestInterpolate(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a$b": "a$b", "${HOST}": "broker", "x${HOST}y${HOST}": "xbrokerybroker", "${EMPTY}": "", "${EMPTY:-e}": "e",
		"${NONE:-}": "", "${NONE:-a:b}": "a:b", "$${HOST}": "${HOST}", "$$${HOST}": "$${HOST}", "$": "$", "}": "}",
	} {
		if got, err := interpolate(text, variables); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"${", "${}", "${HOST", "${NONE}", "${a b}"} {
		if got, err := interpolate(text, variables); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Options may be those of another mapping, with some of their own.
func TestMerge(t *testing.T) {
	job, err := Parse([]byte("name: n\nsource: {files: {paths: p}}\nsink: {files: {folder: f}}\n"+
		"translate:\n  <<: {<<: {seed: 1, models: a, beam-size: 2}, models: b}\n  beam-size: 3\n"), variables)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, option := range job.Translate {
		got[option.Name] += strings.Join(option.Values, " ")
	}
	if want := map[string]string{"seed": "1", "models": "b", "beam-size": "3"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := Parse([]byte("translate: &a {<<: *a, models: m}\n"), variables); err == nil || !strings.Contains(err.Error(), "1:20: translate: <<") {
		t.Errorf("a mapping that takes options from itself: %v", err)
	}
}

// The schema in the documentation is that of the program, and every setting has a description.
func TestSchema(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "job.schema.json")
	if os.Getenv("SLUICE_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("docs/job.schema.json is not what the program goes by: run this test with SLUICE_UPDATE=1")
	}
	var walk func(name string, node map[string]any)
	walk = func(name string, node map[string]any) {
		properties, _ := node["properties"].(map[string]any)
		for key, value := range properties {
			member := value.(map[string]any)
			if text, _ := member["description"].(string); !strings.HasSuffix(text, ".") {
				t.Errorf("%s.%s has no description that is a sentence", name, key)
			}
			walk(name+"."+key, member)
		}
	}
	var schema map[string]any
	if err := json.Unmarshal(got, &schema); err != nil {
		t.Fatal(err)
	}
	walk("job", schema)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("name: &a x\nsource: {files: {paths: *a}}\nsink: {files: {folder: o}}\ntranslate: {models: m}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("translate: &a {<<: *a, models: m}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		job, err := Parse(content, variables)
		if (job == nil) == (err == nil) {
			t.Errorf("a job %v and an error %v", job, err)
		}
		if problems, ok := err.(Problems); err != nil && (!ok || len(problems) == 0) {
			t.Errorf("an error without problems: %v", err)
		}
	})
}
