//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

func notification(bucket, key string) string {
	return fmt.Sprintf(`{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":%q},"object":{"key":%q}}}]}`, bucket, key)
}

// A store writes to a topic what it has: objects are translated as they come, notifications that lead nowhere are passed over, and
// a job that was stopped goes on behind the last one.
func TestNotificationsFromATopic(t *testing.T) {
	cluster, store := kafkatest.StartFake(t), s3test.Fake(t)
	bucket := store.Bucket(t)
	cluster.CreateTopic(t, "new-objects", 1)
	path := filepath.Join(t.TempDir(), "job.yml")
	access := fmt.Sprintf("endpoint: %q, path-style: true, region: us-east-1, access-key: %q, secret-key: %q", store.Endpoint, store.AccessKey, store.SecretKey)
	text := fmt.Sprintf("name: drop\nsource: {s3: {inputs: s3://%s/in/, topic: {brokers: [%s], topics: new-objects, session: 6s, rebalance: 6s}, %s}}\n"+
		"sink: {s3: {prefix: s3://%s/out/, %s}}\ntranslate: {models: %s}\n",
		bucket, cluster.Brokers[0], access, bucket, access, filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for round := range 2 {
		for i := range 3 {
			key := fmt.Sprintf("in/%d-%d", round, i)
			store.Put(t, bucket, key, []byte("some text\n"))
			cluster.Write(t, kafkatest.Texts("new-objects", 0, notification(bucket, key))...)
			want = append(want, fmt.Sprintf("out/%d-%d", round, i))
			cluster.Write(t, kafkatest.Texts("new-objects", 0, "not a notification", notification(bucket, "in/removed"))...)
		}
		command := exec.Command("sluice-echo", "run", path)
		command.Stderr = os.Stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); len(store.Keys(t, bucket, "out/")) < len(want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = command.Process.Kill()
				t.Fatalf("after 30 s there are %q", store.Keys(t, bucket, "out/"))
			}
		}
		time.Sleep(500 * time.Millisecond) // for what comes behind the last object
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("to be stopped is how a job without end ends, but: %v", err)
		}
	}
	got := store.Keys(t, bucket, "out/")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if content, _ := store.Get(t, bucket, "out/0-0"); string(content) != "SOME TEXT\n" {
		t.Errorf("%q", content)
	}
	if offset := cluster.GroupOffset(t, "drop.notifications", "new-objects", 0); offset != 18 {
		t.Errorf("the group has stored %d, want 18", offset)
	}
}
