package infra

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// An acl is a line of infra/kafka/acls.csv.
type acl struct{ resource, pattern, name, operation string }

// acls reads the list, for the job and the topics of an example.
func acls(t *testing.T) []acl {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(read(t, "infra", "kafka", "acls.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("INPUT", "reviews", "OUTPUT", "reviews.de", "DEAD_LETTERS", "reviews.failed", "JOB", "reviews-en-de")
	var list []acl
	for _, row := range rows[1:] {
		list = append(list, acl{row[0], row[1], names.Replace(row[2]), row[3]})
	}
	return list
}

func allow(t *testing.T, cluster *kafkatest.Cluster, user string, list []acl) {
	t.Helper()
	request := kmsg.NewPtrCreateACLsRequest()
	for _, a := range list {
		creation := kmsg.NewCreateACLsRequestCreation()
		var err error
		if creation.ResourceType, err = kmsg.ParseACLResourceType(a.resource); err != nil {
			t.Fatal(err)
		}
		if creation.ResourcePatternType, err = kmsg.ParseACLResourcePatternType(a.pattern); err != nil {
			t.Fatal(err)
		}
		if creation.Operation, err = kmsg.ParseACLOperation(a.operation); err != nil {
			t.Fatal(err)
		}
		creation.PermissionType, creation.Principal, creation.Host, creation.ResourceName = kmsg.ACLPermissionTypeAllow, "User:"+user, "*", a.name
		request.Creations = append(request.Creations, creation)
	}
	for _, result := range cluster.Request(t, request).(*kmsg.CreateACLsResponse).Results {
		if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}

// secureJob is kafka-secure.yml on a cluster.
func secureJob(t *testing.T, cluster *kafkatest.Real, user string) *exec.Cmd {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(sluice.build(t), "run", "docs/examples/kafka-secure.yml")
	command.Dir = sharedtest.Root()
	command.Env = append(command.Environ(), "KAFKA_BOOTSTRAP="+cluster.Secure[0], "KAFKA_CA="+cluster.CA(), "KAFKA_USER="+user,
		"KAFKA_PASSWORD_FILE="+password, "HOSTNAME=worker-0", "LISTEN=127.0.0.1:0")
	return command
}

// On real brokers the listed permissions are enough for the example, with TLS and a password; a user without them gets nothing.
func TestACLsAreEnough(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka")
	}
	cluster := kafkatest.StartReal(t, 1)
	for _, topic := range []string{"reviews", "reviews.de", "reviews.failed"} {
		cluster.CreateTopic(t, topic, 2)
	}
	allow(t, cluster.Cluster, "sluice", acls(t))
	cluster.Write(t, kafkatest.Texts("reviews", 0, `{"text":"A dog runs through the water."}`, "no JSON")...)
	cluster.Write(t, kafkatest.Texts("reviews", 1, `{"text":"A man is reading a newspaper."}`)...)

	stranger := secureJob(t, cluster, "nobody")
	if output, err := stranger.CombinedOutput(); err == nil {
		t.Errorf("a user without permissions can run the job:\n%s", output)
	}

	worker := secureJob(t, cluster, "sluice")
	var log strings.Builder
	worker.Stdout, worker.Stderr = &log, &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	t.Cleanup(func() { _ = worker.Process.Kill() })
	written := func() int {
		return len(cluster.Committed(t, "reviews.de", 0)) + len(cluster.Committed(t, "reviews.de", 1)) + len(cluster.Committed(t, "reviews.failed", 0))
	}
	for begin := time.Now(); written() < 3; time.Sleep(200 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("the job has ended: %v\n%s", err, log.String())
		default:
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d of 3 messages came out", written())
		}
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the job ends with %v\n%s", err, log.String())
	}
}

// acls.sh prints a command for each line of the list.
func TestACLCommands(t *testing.T) {
	output := mustRun(t, nil, path("infra", "kafka", "acls.sh"), "sluice", "reviews-en-de", "reviews", "reviews.de", "reviews.failed", "--bootstrap-server", "b:9092")
	for _, a := range acls(t) {
		want := fmt.Sprintf("kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:sluice --operation %s --%s %s --resource-pattern-type %s\n",
			a.operation, strings.ReplaceAll(a.resource, "_", "-"), a.name, a.pattern)
		if !strings.Contains(output, want) {
			t.Errorf("%q is missing in\n%s", want, output)
		}
	}
	if lines := strings.Count(output, "\n"); lines != len(acls(t)) {
		t.Errorf("%d commands for %d lines", lines, len(acls(t)))
	}
}

// A policy of AWS. Action and Resource are one or several.
type iamPolicy struct {
	Version   string
	Statement []struct {
		Sid, Effect      string
		Action, Resource oneOrMore
	}
}

type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*o = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(o))
}

func policy(t *testing.T, name string) (p iamPolicy, actions []string) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(read(t, "infra", "iam", name)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, statement := range p.Statement {
		actions = append(actions, statement.Action...)
	}
	return p, actions
}

// needs tells which permission each call of the AWS API takes. CreateBucket is for tests.
var needs = map[string]string{
	"GetObject": "s3:GetObject", "HeadObject": "s3:GetObject", "PutObject": "s3:PutObject", "DeleteObject": "s3:DeleteObject",
	"CreateMultipartUpload": "s3:PutObject", "UploadPart": "s3:PutObject", "UploadPartCopy": "s3:PutObject", "CompleteMultipartUpload": "s3:PutObject",
	"AbortMultipartUpload": "s3:AbortMultipartUpload", "ListMultipartUploads": "s3:ListBucketMultipartUploads", "ListObjectsV2": "s3:ListBucket",
	"ReceiveMessage": "sqs:ReceiveMessage", "ChangeMessageVisibility": "sqs:ChangeMessageVisibility", "DeleteMessage": "sqs:DeleteMessage",
	"CreateBucket": "",
}

var apiCall = regexp.MustCompile(`\bapi\.([A-Z][A-Za-z0-9]+)\(ctx|s3\.New([A-Za-z0-9]+)Paginator\(`)

// The policies hold what the program calls, and nothing else.
func TestPoliciesAreWhatIsCalled(t *testing.T) {
	called := map[string]bool{}
	for _, pattern := range []string{"internal/s3client/*.go", "consumer/s3/*.go", "producer/s3/*.go"} {
		files, err := filepath.Glob(path(pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range apiCall.FindAllStringSubmatch(string(content), -1) {
				call := match[1] + match[2]
				permission, known := needs[call]
				if !known {
					t.Errorf("%s calls %s: which permission does it take?", filepath.Base(file), call)
				}
				called[permission] = true
			}
		}
	}
	delete(called, "")
	_, corpus := policy(t, "corpus.json")
	_, drop := policy(t, "file-drop.json")
	for permission := range called {
		if !slices.Contains(drop, permission) {
			t.Errorf("file-drop.json does not allow %s, which is called", permission)
		}
		if strings.HasPrefix(permission, "s3:") && !slices.Contains(corpus, permission) {
			t.Errorf("corpus.json does not allow %s, which is called", permission)
		}
	}
	for _, permission := range append(corpus, drop...) {
		if !called[permission] {
			t.Errorf("%s is allowed, and never called", permission)
		}
	}
}

func TestPoliciesAreNarrow(t *testing.T) {
	for _, name := range []string{"corpus.json", "file-drop.json"} {
		p, _ := policy(t, name)
		for _, statement := range p.Statement {
			for _, resource := range statement.Resource {
				if strings.HasPrefix(resource, "*") || strings.HasSuffix(resource, "BUCKET/*") {
					t.Errorf("%s: %s is for everything", name, statement.Sid)
				}
				writes := slices.Contains(statement.Action, "s3:PutObject")
				if writes && (strings.Contains(resource, "/en/") || strings.Contains(resource, "/incoming/")) {
					t.Errorf("%s: %s lets inputs be changed", name, statement.Sid)
				}
			}
			for _, action := range statement.Action {
				if strings.Contains(action, "*") || statement.Effect != "Allow" {
					t.Errorf("%s: %s allows %s", name, statement.Sid, action)
				}
			}
		}
	}
}
