// Package jobfile reads the YAML file that describes a streaming job: where records come from, how they are translated
// and where they go.
//
// It is strict. An unknown key, a value of the wrong kind, a setting that contradicts another: each is a Problem with
// its line and column, and all of them are found in one go. ${NAME} stands for an environment variable, ${NAME:-text}
// for one that may be missing, and $${ for ${ itself; they are replaced inside values only, after the file has been
// parsed, so that a value cannot change what the file means.
package jobfile

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the largest file that is read, in bytes.
const MaxSize = 1 << 20

// A Problem is something wrong with a job file.
type Problem struct {
	Line, Column int    // from 1; 0 where the file as a whole is meant
	Path         string // of the setting, such as source.kafka.topics
	Message      string
}

// Error gives the place and the message.
func (p Problem) Error() string {
	var place string
	if p.Line > 0 {
		place = fmt.Sprintf("%d:%d: ", p.Line, p.Column)
	}
	if p.Path != "" {
		place += p.Path + ": "
	}
	return place + p.Message
}

// Problems is an error that holds every Problem of a file.
type Problems []Problem

// Error gives one line for each.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// An Option is an option of sluice translate in a job.
type Option struct {
	Name   string
	Values []string
	Line   int `json:"-"` // whoever keeps options keeps what they say, not where
	Column int `json:"-"`
}

// Size is a number of bytes, written as 64MiB, 10MB or 4096.
type Size int64

// A Job is the content of a job file.
type Job struct {
	Name   string `yaml:"name" desc:"Identifies the job. Transactions, consumer groups and claims are named after it, so it must not change: under another name everything is translated again, into the same topic as well."`
	Source Source `yaml:"source" desc:"Where records come from. Exactly one of its members."`
	Sink   Sink   `yaml:"sink" desc:"Where translations go. Exactly one of its members."`

	Records   Records  `yaml:"records" desc:"How text lies in records."`
	Translate []Option `yaml:"translate" desc:"Options of sluice translate, without dashes: models, vocabs, shortlist, beam-size, output-sampling and so on. The model is named here."`
	Sentences bool     `yaml:"sentences" desc:"Records hold more than one sentence: each is translated on its own, and they are put together again with the white space that stood between them."`

	DeadLetters string  `yaml:"dead-letters" desc:"Where records go that cannot be translated: a topic, a prefix such as s3://bucket/failed/ or a folder, of the same kind as the sink. Without it such a record ends a job that writes to a topic; in files and objects it keeps its line, untranslated."`
	MaxFailed   float64 `yaml:"max-failed" desc:"Share of records that may fail before the job stops, looked at from the thousandth on. 0 is no limit."`

	Memory      Size          `yaml:"memory" desc:"Bytes of records in flight. Default 64MiB."`
	Lanes       int           `yaml:"lanes" desc:"Lanes carried at once: files, objects or partitions. Default 32, and all partitions for Kafka."`
	CommitEvery time.Duration `yaml:"commit-every" desc:"Time between commits. Default 1s; into a topic at most 30s, for brokers end a transaction that has been open for a minute."`
	Grace       time.Duration `yaml:"grace-period" desc:"Time to finish what is in flight after SIGTERM. Default 25s, which is less than Kubernetes gives."`
	Stall       time.Duration `yaml:"stall" desc:"For how long nothing may happen that a record in flight waits for, no translation, write or commit, before the job counts as stuck and ends, so that it is started again. Default 10m."`
	Shard       string        `yaml:"shard" desc:"The part of the files or objects that this worker takes: 0/8 is the first of eight. auto finds it in what Kubernetes Indexed Jobs, AWS Batch and SLURM arrays put into the environment. Default auto."`

	Observe Observe `yaml:"observe" desc:"What can be seen from outside."`
}

// A Source is where records come from.
type Source struct {
	Files *FileSource  `yaml:"files" desc:"Files and folders."`
	S3    *S3Source    `yaml:"s3" desc:"Objects in Amazon S3 or a store like it."`
	Kafka *KafkaSource `yaml:"kafka" desc:"Topics."`
}

// A Sink is where translations go.
type Sink struct {
	Files *FileSink  `yaml:"files" desc:"Files."`
	S3    *S3Sink    `yaml:"s3" desc:"Objects in Amazon S3 or a store like it."`
	Kafka *KafkaSink `yaml:"kafka" desc:"A topic."`
}

// Records says how text lies in records.
type Records struct {
	Format  string   `yaml:"format" oneof:"text tsv jsonl parquet" desc:"text, tsv, jsonl or parquet; of a message's value: text, tsv (one row) or jsonl (one JSON value). Default text."`
	Field   string   `yaml:"field" desc:"What is translated: a column's number or name, or a path such as a.b[0]."`
	Further []string `yaml:"further" desc:"For a model of several sources: what the second source is, and those after it. Fields of tsv and jsonl."`
	Targets []string `yaml:"targets" desc:"Fields that receive the translations, best first. More than one asks for an n-best list, and is for messages."`
	NBest   bool     `yaml:"n-best" desc:"Write as many translations of each line as the beam has, in Marian's form, with the numbers of lines in their file or object. Text and tsv in files and objects only; nothing but the list is written."`
	Header  bool     `yaml:"header" desc:"The first row of a TSV file names its columns."`
	MaxSize Size     `yaml:"max-size" desc:"Longest record; a longer one counts as unreadable. Default 16MiB."`
}

// A FileSource reads files.
type FileSource struct {
	Paths []string `yaml:"paths" desc:"Files, folders and patterns. Each file is a lane."`
}

// A FileSink writes files.
type FileSink struct {
	Folder    string        `yaml:"folder" desc:"One output for each input goes here, the tree kept; of a topic, one file for each run of messages."`
	Suffix    string        `yaml:"suffix" desc:"Appended to names, before the suffix of a compression."`
	RunSize   Size          `yaml:"run-size" desc:"Of a topic: how much goes into one file at most. Default 16MiB."`
	RunAge    time.Duration `yaml:"run-age" desc:"Of a topic: how old the first message of a file is before the file is made although it is not full. Default 1m."`
	Overwrite bool          `yaml:"overwrite" desc:"Replace outputs that were made of something else."`
}

// An S3Store says how a store is reached.
type S3Store struct {
	Endpoint      string `yaml:"endpoint" desc:"URL of a store other than Amazon's."`
	Region        string `yaml:"region" desc:"Default: what the environment says."`
	PathStyle     bool   `yaml:"path-style" desc:"The bucket stands in the path instead of the host name."`
	AccessKey     string `yaml:"access-key" secret:"true" desc:"Default: environment, shared files, the machine's role."`
	SecretKey     string `yaml:"secret-key" secret:"true" desc:"Best given as ${VARIABLE}."`
	SecretKeyFile string `yaml:"secret-key-file" desc:"A file that holds the secret key."`
	Profile       string `yaml:"profile" desc:"Profile of the shared configuration files."`
	Anonymous     bool   `yaml:"anonymous" desc:"Do not sign requests."`
	RequesterPays bool   `yaml:"requester-pays" desc:"Requests are paid for by us."`
	Owner         string `yaml:"owner" desc:"Account that must own the buckets."`
	Encryption    string `yaml:"encryption" oneof:"AES256 aws:kms aws:kms:dsse" desc:"Server-side encryption of what is written."`
	KMSKey        string `yaml:"kms-key" desc:"Key for aws:kms."`
	Checksums     string `yaml:"checksums" oneof:"always required" desc:"When requests carry checksums of their own."`
}

// An S3Source reads objects.
type S3Source struct {
	Inputs    []string      `yaml:"inputs" desc:"s3://bucket/key, or s3://bucket/prefix/ for everything below. Each object is a lane. Objects with a part of their key that begins with a dot are passed over."`
	Manifests []string      `yaml:"manifests" desc:"Files or objects that list objects."`
	Exclude   []string      `yaml:"exclude" desc:"Prefixes that are passed over."`
	Poll      time.Duration `yaml:"poll" desc:"Time between listings. Default: the inputs are listed once, and the job ends."`
	Split     Size          `yaml:"split" desc:"Divide larger objects of plain lines into ranges of this size. Default: never."`
	Queue     string        `yaml:"queue" desc:"URL of an SQS queue that tells of new objects."`
	Topic     *KafkaSource  `yaml:"topic" desc:"A topic in Kafka that the store writes its notifications of new objects to."`
	S3Store   `yaml:",inline"`
}

// An S3Sink writes objects.
type S3Sink struct {
	Prefix    string        `yaml:"prefix" desc:"s3://bucket/prefix/ that outputs are written under, the keys of the inputs kept."`
	Suffix    string        `yaml:"suffix" desc:"Appended to keys, before the suffix of a compression."`
	RunSize   Size          `yaml:"run-size" desc:"Of a topic: how much goes into one object at most. Default 16MiB."`
	RunAge    time.Duration `yaml:"run-age" desc:"Of a topic: how old the first message of an object is before the object is made although it is not full. Default 1m."`
	Overwrite bool          `yaml:"overwrite" desc:"Replace outputs that were made of something else."`
	S3Store   `yaml:",inline"`
}

// A KafkaCluster says how brokers are reached.
type KafkaCluster struct {
	Brokers []string   `yaml:"brokers" desc:"host:port of some of the brokers, as a list or separated by commas."`
	TLS     *KafkaTLS  `yaml:"tls" desc:"Encrypt connections. Present but empty: with the system's certificates."`
	SASL    *KafkaSASL `yaml:"sasl" desc:"Log in."`
}

// KafkaTLS says how connections are encrypted.
type KafkaTLS struct {
	CA          string `yaml:"ca" desc:"File of the certificates that are trusted. Default: the system's."`
	Certificate string `yaml:"certificate" desc:"File of our own certificate, where brokers ask for one."`
	Key         string `yaml:"key" desc:"File of its key."`
	ServerName  string `yaml:"server-name" desc:"Name that brokers' certificates must have, if it is not the host's."`
}

// KafkaSASL says how to log in.
type KafkaSASL struct {
	Mechanism    string `yaml:"mechanism" oneof:"PLAIN SCRAM-SHA-256 SCRAM-SHA-512" desc:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."`
	User         string `yaml:"user" desc:"Name."`
	Password     string `yaml:"password" secret:"true" desc:"Best given as ${VARIABLE}."`
	PasswordFile string `yaml:"password-file" desc:"A file that holds the password."`
}

// A KafkaSource reads topics.
type KafkaSource struct {
	Topics       []string      `yaml:"topics" desc:"Each partition of each is a lane."`
	Group        string        `yaml:"group" desc:"Consumer group. Default: the job's name."`
	Instance     string        `yaml:"instance" desc:"Name of this member, which makes it a static one."`
	Begin        string        `yaml:"begin" oneof:"first last" desc:"Where a partition is begun that nothing is known of: at the first or behind the last message. Default first."`
	SkipLost     bool          `yaml:"skip-lost" desc:"Go on where messages were deleted before they were read, instead of ending with an error."`
	StopAtEnd    bool          `yaml:"stop-at-end" desc:"End when everything has been read that is there at the start."`
	Session      time.Duration `yaml:"session" desc:"Time without a heartbeat after which a member counts as dead. Default 30s."`
	Rebalance    time.Duration `yaml:"rebalance" desc:"How long the group waits for its members when it is divided anew; one that died meanwhile delays the others by as much. Default 60s."`
	MaxBatch     Size          `yaml:"max-batch" desc:"Largest batch of messages, inflated. Default 64MiB."`
	KafkaCluster `yaml:",inline"`
}

// A KafkaSink writes a topic.
type KafkaSink struct {
	Topic        string `yaml:"topic" desc:"Where translations go."`
	Partition    string `yaml:"partition" desc:"same (as the input's), key (by a hash of the key) or a number. Default same for topics, and a number chosen by the input's name otherwise."`
	Guarantee    string `yaml:"guarantee" oneof:"exactly-once at-least-once" desc:"at-least-once is for brokers without transactions. Default exactly-once."`
	Markers      string `yaml:"markers" desc:"A compacted topic that remembers which files or objects were begun and which are complete. Without it brokers forget after offsets.retention.minutes."`
	Compression  string `yaml:"compression" oneof:"none gzip snappy lz4 zstd" desc:"Codec of batches. Default none."`
	KafkaCluster `yaml:",inline"`
}

// Observe says what can be seen from outside.
type Observe struct {
	Listen     string  `yaml:"listen" desc:"Address that serves /metrics, /healthz, /readyz and the status page, such as :9090. Default: none."`
	Page       string  `yaml:"page" oneof:"local network off" desc:"Who may see the status page, which shows texts of records: only who comes from this machine (local), whoever reaches the address and has the token (network), or nobody (off). Default local."`
	Token      string  `yaml:"token" secret:"true" desc:"What the page and its data take from elsewhere, and everything that changes what the job does: at least 16 characters. Best given as ${VARIABLE}."`
	TokenFile  string  `yaml:"token-file" desc:"A file that holds the token."`
	Traces     string  `yaml:"traces" desc:"OpenTelemetry collector that traces of runs are sent to, by OTLP over HTTP, such as http://localhost:4318. Default: none."`
	TraceShare float64 `yaml:"trace-share" desc:"Share of runs that are traced. Default 1."`
	Pprof      bool    `yaml:"pprof" desc:"Serve /debug/pprof there, too, to those who may see the page."`
	LogLevel   string  `yaml:"log-level" oneof:"debug info warn error" desc:"Default info."`
	LogFormat  string  `yaml:"log-format" oneof:"text json" desc:"Default text."`
}

// Parse reads a job file. lookup finds environment variables. An error is Problems.
func Parse(content []byte, lookup func(string) (string, bool)) (*Job, error) {
	job := new(Job)
	if err := Decode(content, lookup, job, func(at Report) { checker{at}.check(job) }); err != nil {
		return nil, err
	}
	job.setDefaults()
	return job, nil
}

// A Report adds a Problem with the setting of that path, such as source.kafka.topics or steps[2].name. Its place is that of the
// setting or, where the file does not have it, of what it would be in.
type Report func(path, format string, args ...any)

// Decode reads other files as strictly as Parse reads jobs. into is a pointer to a struct whose fields have the tags yaml, their
// name; desc, a sentence for the schema; and oneof, the words that are allowed. check looks for what is missing or contradicts
// itself, and is called if nothing else was wrong. An error is Problems.
func Decode(content []byte, lookup func(string) (string, bool), into any, check func(Report)) error {
	if len(content) > MaxSize {
		return Problems{{Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(content), MaxSize)}}
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return Problems{syntaxProblem(err, string(content))}
	}
	if len(document.Content) == 0 {
		return Problems{{Message: "the file is empty"}}
	}
	d := &decoder{lookup: lookup, places: map[string]*yaml.Node{}}
	d.mapping(document.Content[0], reflect.ValueOf(into).Elem(), "")
	if len(d.problems) == 0 {
		check(d.at)
	}
	if len(d.problems) > 0 {
		return d.problems
	}
	return nil
}

// syntaxProblem takes the line out of a message of the YAML library, which gives it in words only.
func syntaxProblem(err error, content string) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line, column int
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		_, text, _ = strings.Cut(text, ": ")
		column = 1
	}
	if at, in, found := unquotedVariable(content); found {
		return Problem{Line: at, Column: in, Message: text + ": between braces or brackets ${NAME} has to stand in quotes"}
	}
	return Problem{Line: line, Column: column, Message: text}
}

// unquotedVariable finds a variable between braces or brackets that does not stand in quotes: YAML takes its brace for one
// of its own.
func unquotedVariable(content string) (line, column int, found bool) {
	for i, text := range strings.Split(content, "\n") {
		open, quote := 0, rune(0)
		for at, c := range text {
			switch {
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case c == '"' || c == '\'':
				quote = c
			case c == '#':
				open = -len(text) // what follows is a comment
			case open > 0 && strings.HasPrefix(text[at:], "${"):
				return i + 1, at + 1, true
			case c == '{' || c == '[':
				open++
			case c == '}' || c == ']':
				open--
			}
		}
	}
	return 0, 0, false
}

func (j *Job) setDefaults() {
	setDefault(&j.Records.Format, "text")
	setDefault(&j.Records.MaxSize, 16<<20)
	setDefault(&j.CommitEvery, time.Second)
	setDefault(&j.Observe.TraceShare, 1)
	setDefault(&j.Grace, 25*time.Second)
	setDefault(&j.Stall, 10*time.Minute)
	setDefault(&j.Shard, "auto")
	setDefault(&j.Observe.Page, "local")
	setDefault(&j.Observe.LogLevel, "info")
	setDefault(&j.Observe.LogFormat, "text")
	if source := j.Source.Kafka; source != nil {
		setDefault(&source.Group, j.Name)
		setDefault(&source.Begin, "first")
		setDefault(&j.Lanes, 1<<20)
	}
	if s3 := j.Source.S3; s3 != nil && s3.Topic != nil {
		setDefault(&s3.Topic.Group, j.Name+".notifications")
		setDefault(&s3.Topic.Begin, "first")
	}
	if sink := j.Sink.Files; sink != nil {
		setDefault(&sink.RunAge, time.Minute)
	}
	if sink := j.Sink.S3; sink != nil {
		setDefault(&sink.RunAge, time.Minute)
	}
	if sink := j.Sink.Kafka; sink != nil {
		setDefault(&sink.Guarantee, "exactly-once")
	}
}

func setDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}
