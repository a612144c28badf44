package jobfile

import (
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// validName is what topics, object keys and transactional ids all take.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// at adds a problem with a setting, at its place if the file has it.
func (d *decoder) at(path, format string, args ...any) {
	node := d.places[path]
	for parent := path; node == nil && strings.Contains(parent, "."); {
		parent = parent[:strings.LastIndexByte(parent, '.')]
		node = d.places[parent]
	}
	d.problem(node, path, format, args...)
}

// A checker finds what is missing or contradicts itself in a job.
type checker struct{ at Report }

func (k checker) check(j *Job) {
	switch {
	case j.Name == "":
		k.at("name", "missing: every job needs one")
	case !validName.MatchString(j.Name):
		k.at("name", "%q: letters, digits, dots, dashes and underscores only, at most 100", j.Name)
	}
	if count(j.Source.Files != nil, j.Source.S3 != nil, j.Source.Kafka != nil) != 1 {
		k.at("source", "expected exactly one of files, s3 and kafka")
	}
	if count(j.Sink.Files != nil, j.Sink.S3 != nil, j.Sink.Kafka != nil) != 1 {
		k.at("sink", "expected exactly one of files, s3 and kafka")
	}
	if len(j.Translate) == 0 {
		k.at("translate", "missing: it names the model")
	}
	k.checkSource(&j.Source)
	k.checkSink(&j.Sink)
	k.checkOwnTopics(j)
	k.checkOwnFolder(j)
	k.checkRecords(j)
	k.checkObserve(&j.Observe)
	if j.MaxFailed > 0 && j.DeadLetters == "" {
		k.at("max-failed", "only means something with dead-letters")
	}
	if j.Observe.TraceShare > 0 && j.Observe.Traces == "" {
		k.at("observe.trace-share", "only means something with traces")
	}
	if kafka := j.Sink.Kafka; kafka != nil {
		k.checkTopic("dead-letters", j.DeadLetters)
		if j.CommitEvery > mostTransaction && kafka.Guarantee != "at-least-once" {
			k.at("commit-every", "%v: into a topic at most %v, for brokers end a transaction that has been open for a minute", j.CommitEvery, mostTransaction)
		}
	}
	if j.DeadLetters != "" && j.Sink.S3 != nil && !isObjectName(j.DeadLetters) {
		k.at("dead-letters", "%q: expected a prefix such as s3://bucket/failed/", j.DeadLetters)
	}
}

// mostTransaction is the longest time between two commits of a transaction: half of what brokers are told to let one be
// open. One that a broker has ended is begun again, to be ended again.
const mostTransaction = 30 * time.Second

// LeastToken is the least number of characters of a token. Who may ask ten times a second guesses none of that length.
const LeastToken = 16

func (k checker) checkObserve(o *Observe) {
	switch {
	case o.Token != "" && o.TokenFile != "":
		k.at("observe.token-file", "token is set as well")
	case o.Token != "" && len(o.Token) < LeastToken:
		k.at("observe.token", "has %d characters; at least %d are needed", len(o.Token), LeastToken)
	case o.Page == "network" && o.Token == "" && o.TokenFile == "":
		k.at("observe.page", "network needs a token or a token-file: the page shows texts of records")
	}
}

func count(set ...bool) (n int) {
	for _, is := range set {
		if is {
			n++
		}
	}
	return n
}

func isObjectName(name string) bool {
	rest, ok := strings.CutPrefix(name, "s3://")
	return ok && rest != "" && rest[0] != '/'
}

func (k checker) checkSource(s *Source) {
	if s.Files != nil && len(s.Files.Paths) == 0 {
		k.at("source.files.paths", "missing")
	}
	if s3 := s.S3; s3 != nil {
		if len(s3.Inputs) == 0 && len(s3.Manifests) == 0 {
			k.at("source.s3.inputs", "missing: inputs or manifests say what is read")
		}
		for _, input := range s3.Inputs {
			if !isObjectName(input) {
				k.at("source.s3.inputs", "%q: expected s3://bucket/key", input)
			}
		}
		if topic := s3.Topic; topic != nil {
			if s3.Queue != "" {
				k.at("source.s3.topic", "queue is set as well")
			}
			if topic.StopAtEnd {
				k.at("source.s3.topic.stop-at-end", "notifications have no end")
			}
			k.checkTopics("source.s3.topic", topic)
		}
		k.checkStore("source.s3", &s3.S3Store)
	}
	if s.Kafka != nil {
		k.checkTopics("source.kafka", s.Kafka)
	}
}

func (k checker) checkTopics(path string, s *KafkaSource) {
	if len(s.Topics) == 0 {
		k.at(path+".topics", "missing")
	}
	for i, topic := range s.Topics {
		k.checkTopic(path+".topics", topic)
		if slices.Contains(s.Topics[:i], topic) {
			k.at(path+".topics", "%q stands there twice", topic)
		}
	}
	k.checkCluster(path, &s.KafkaCluster)
}

// checkOwnFolder keeps letters away from where inputs and outputs are: the letters of a lane may have the name of another's output, or
// would be read when the job runs again.
func (k checker) checkOwnFolder(j *Job) {
	if j.DeadLetters == "" {
		return
	}
	used := map[string]string{}
	if s := j.Source.Files; s != nil && j.Sink.Files != nil {
		for _, path := range s.Paths {
			used[filepath.Clean(path)] = "source.files.paths"
		}
	}
	if s := j.Sink.Files; s != nil {
		used[filepath.Clean(s.Folder)] = "sink.files.folder"
	}
	letters := filepath.Clean(j.DeadLetters)
	if s := j.Sink.S3; s != nil {
		used[strings.TrimSuffix(s.Prefix, "/")], letters = "sink.s3.prefix", strings.TrimSuffix(j.DeadLetters, "/")
	}
	if other := used[letters]; other != "" {
		k.at("dead-letters", "%q is %s as well: letters need a place of their own", j.DeadLetters, other)
	}
}

func (k checker) checkSink(s *Sink) {
	if s.Files != nil && s.Files.Folder == "" {
		k.at("sink.files.folder", "missing")
	}
	if s.Files != nil && strings.ContainsAny(s.Files.Suffix, `/\`) {
		k.at("sink.files.suffix", "%q: the end of a name, not a path", s.Files.Suffix)
	}
	if s3 := s.S3; s3 != nil {
		if !isObjectName(s3.Prefix) {
			k.at("sink.s3.prefix", "%q: expected s3://bucket/prefix/", s3.Prefix)
		}
		k.checkStore("sink.s3", &s3.S3Store)
	}
	if kafka := s.Kafka; kafka != nil {
		if kafka.Topic == "" {
			k.at("sink.kafka.topic", "missing")
		}
		if p := kafka.Partition; p != "" && p != "same" && p != "key" {
			if n, err := strconv.ParseInt(p, 10, 32); err != nil || n < 0 {
				k.at("sink.kafka.partition", "%q: expected same, key or a number", p)
			}
		}
		k.checkTopic("sink.kafka.topic", kafka.Topic)
		k.checkTopic("sink.kafka.markers", kafka.Markers)
		k.checkCluster("sink.kafka", &kafka.KafkaCluster)
	}
}

// validTopic is what Kafka takes as the name of a topic.
var validTopic = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// checkTopic checks a name, unless it is missing.
func (k checker) checkTopic(path, name string) {
	if name != "" && (!validTopic.MatchString(name) || name == "." || name == "..") {
		k.at(path, "%q is no name of a topic: letters, digits, dots, dashes and underscores only, at most 249", name)
	}
}

// checkOwnTopics finds topics of the sink that have another use. A job that reads what it writes never ends.
func (k checker) checkOwnTopics(j *Job) {
	sink := j.Sink.Kafka
	if sink == nil {
		return
	}
	used := map[string]string{}
	if source := j.Source.Kafka; source != nil && sharesBroker(source.Brokers, sink.Brokers) {
		for _, topic := range source.Topics {
			used[topic] = "source.kafka.topics"
		}
	}
	for _, own := range []struct{ path, topic string }{
		{"sink.kafka.topic", sink.Topic},
		{"dead-letters", j.DeadLetters},
		{"sink.kafka.markers", sink.Markers},
	} {
		if own.topic == "" {
			continue
		}
		if other := used[own.topic]; other != "" {
			k.at(own.path, "%q is %s as well: it needs a topic of its own", own.topic, other)
			continue
		}
		used[own.topic] = own.path
	}
}

// sharesBroker reports whether two lists of brokers are surely of one cluster.
func sharesBroker(a, b []string) bool {
	return slices.ContainsFunc(a, func(broker string) bool { return slices.Contains(b, broker) })
}

func (k checker) checkStore(path string, s *S3Store) {
	if s.SecretKey != "" && s.SecretKeyFile != "" {
		k.at(path+".secret-key-file", "secret-key is set as well")
	}
	if (s.AccessKey != "") != (s.SecretKey != "" || s.SecretKeyFile != "") {
		k.at(path+".access-key", "access-key and secret-key go together")
	}
	if s.KMSKey != "" && !strings.HasPrefix(s.Encryption, "aws:kms") {
		k.at(path+".kms-key", "needs encryption: aws:kms")
	}
}

func (k checker) checkCluster(path string, c *KafkaCluster) {
	if len(c.Brokers) == 0 {
		k.at(path+".brokers", "missing")
	}
	for _, broker := range c.Brokers {
		host, port, err := net.SplitHostPort(broker)
		if number, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || number == 0 {
			k.at(path+".brokers", "%q: expected host:port", broker)
		}
	}
	if t := c.TLS; t != nil && (t.Certificate == "") != (t.Key == "") {
		k.at(path+".tls", "certificate and key go together")
	}
	if s := c.SASL; s != nil {
		if s.Mechanism == "" || s.User == "" {
			k.at(path+".sasl", "mechanism and user are needed")
		}
		if (s.Password == "") == (s.PasswordFile == "") {
			k.at(path+".sasl", "expected one of password and password-file")
		}
	}
}

func (k checker) checkRecords(j *Job) {
	r := &j.Records
	if r.Header && r.Format != "tsv" {
		k.at("records.header", "only tsv has a header")
	}
	messages := j.Source.Kafka != nil
	if messages && (r.Format == "parquet" || r.Header) {
		k.at("records.format", "a message's value is text, tsv or jsonl, and has no header")
	}
	if len(r.Targets) > 1 && !messages {
		k.at("records.targets", "several targets are for messages; files and objects take one")
	}
	k.checkList(j)
	if r.Format == "parquet" && j.Sink.Kafka != nil {
		k.at("records.format", "rows of Parquet cannot be written to a topic")
	}
}

// checkList finds what an n-best list cannot go with. Its entries have the numbers of lines.
func (k checker) checkList(j *Job) {
	r := &j.Records
	switch {
	case !r.NBest:
	case j.Source.Kafka != nil || j.Sink.Kafka != nil:
		k.at("records.n-best", "lists are for files and objects; messages take several targets")
	case r.Format == "jsonl" || r.Format == "parquet" || r.Header || len(r.Targets) > 0:
		k.at("records.n-best", "lists are made of text or tsv, without header and targets")
	case j.Sentences:
		k.at("records.n-best", "lists are of whole records, not of their sentences")
	case j.Source.S3 != nil && j.Source.S3.Split > 0:
		k.at("source.s3.split", "the entries of lists have the numbers of lines, which are not known in a part of an object")
	}
}
