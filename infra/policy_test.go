package infra

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/s3test"
)

// bucketPolicy turns a policy of infra/iam into one of a bucket that is for one user, without one statement.
func bucketPolicy(t *testing.T, name, bucket, user, without string) []byte {
	t.Helper()
	var p map[string]any
	text := strings.ReplaceAll(read(t, "infra", "iam", name), "BUCKET", bucket)
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	var statements []any
	for _, statement := range p["Statement"].([]any) {
		s := statement.(map[string]any)
		if s["Sid"] == without {
			continue
		}
		s["Principal"] = map[string]any{"AWS": []string{user}}
		statements = append(statements, s)
	}
	p["Statement"] = statements
	changed, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// setPolicy gives a bucket its policy.
func setPolicy(t *testing.T, store *s3test.Store, bucket string, policy []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(file, policy, 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, nil, tool(t, "curl"), "-fsS", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", store.AccessKey+":"+store.SecretKey,
		"-H", fmt.Sprintf("x-amz-content-sha256: %x", sha256.Sum256(policy)), "--upload-file", file, store.Endpoint+"/"+bucket+"?policy=")
}

// A real store lets a user who has the policy, and no other right, run the example; and without any one statement it does not.
func TestPolicyIsEnoughAndNeeded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an S3 server and several jobs")
	}
	store := s3test.Gateway(t)
	mustRun(t, nil, tool(t, "versitygw"), "admin", "--allow-insecure", "--access", store.AccessKey, "--secret", store.SecretKey, "--endpoint-url", store.Endpoint,
		"create-user", "--access", "worker", "--secret", "workersecret", "--role", "user")
	bucket, text := store.Bucket(t), []byte("A dog runs through the water.\nA man is reading a newspaper.\n")
	store.Put(t, bucket, "corpus/en/part-1", text)
	job := func() error {
		_, err := run(t, []string{
			"BUCKET=" + bucket, "S3_ENDPOINT=" + store.Endpoint, "S3_PATH_STYLE=true", "AWS_ACCESS_KEY_ID=worker", "AWS_SECRET_ACCESS_KEY=workersecret",
			"AWS_REGION=us-east-1", "LISTEN=127.0.0.1:0",
		}, sluice.build(t), "run", "docs/examples/corpus-s3.yml")
		return err
	}
	p, _ := policy(t, "corpus.json")
	for _, statement := range p.Statement {
		setPolicy(t, store, bucket, bucketPolicy(t, "corpus.json", bucket, "worker", statement.Sid))
		if job() == nil {
			t.Errorf("without %s the job runs all the same", statement.Sid)
		}
	}
	setPolicy(t, store, bucket, bucketPolicy(t, "corpus.json", bucket, "worker", ""))
	if err := job(); err != nil {
		t.Error("with the policy:", err)
	}
	keys := store.Keys(t, bucket, "corpus/de/")
	if !slices.Equal(keys, []string{"corpus/de/part-1"}) {
		t.Fatalf("outputs are %q", keys)
	}
	output, _ := store.Get(t, bucket, "corpus/de/part-1")
	if strings.Count(string(output), "\n") != 2 {
		t.Errorf("the output is %q", output)
	}
}
