package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// examined runs the doctor over a job. It returns what was found, by the names of the checks, with the status before it.
func examined(t *testing.T, job string) (found map[string]string, code int) {
	t.Helper()
	said := new(transcript)
	path := jobOf(t, job+fmt.Sprintf("translate: {models: %q, slots: 4}\n", filepath.Join(sharedtest.Root(), "models", "ende-tiny")))
	code = exitCode(execute(t.Context(), said, "doctor", "--json", path))
	text, _, _ := strings.Cut(said.String(), "\nsluice:")
	var report examination
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if report.OK != (code == exitOK) {
		t.Errorf("ok is %v, the code %d", report.OK, code)
	}
	found = map[string]string{}
	for _, c := range report.Checks {
		found[c.Name] = c.Status + " " + c.Found
		if c.Status == "fail" && c.Advice == "" {
			t.Errorf("%s fails without advice: %s", c.Name, c.Found)
		}
	}
	if report.Request == nil || report.Request.Memory < 64 || report.Request.Cores < 1 {
		t.Errorf("asks for %+v", report.Request)
	}
	return found, code
}

func expectFound(t *testing.T, found map[string]string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if !strings.HasPrefix(found[name], text) && !(strings.HasPrefix(found[name], text[:4]) && strings.Contains(found[name], strings.TrimSpace(text[4:]))) {
			t.Errorf("%s: %q, want %q", name, found[name], text)
		}
	}
}

func TestDoctorOfFiles(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "in.txt"), []byte("text\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	job := fmt.Sprintf("name: files\nsource: {files: {paths: %q}}\nsink: {files: {folder: %q}}\n", filepath.Join(folder, "in.txt"), filepath.Join(folder, "a", "out"))
	found, code := examined(t, job)
	if code != exitOK {
		t.Errorf("code %d: %v", code, found)
	}
	expectFound(t, found, map[string]string{"job file": "ok", "processor": "", "model": "ok translates in int8", "model file": "ok", "input": "ok 1 files", "sink": "ok"})
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	found, code = examined(t, strings.Replace(job, "in.txt", "missing.txt", 1))
	if code != exitInput {
		t.Errorf("code %d without an input: %v", code, found)
	}
	found, code = examined(t, strings.Replace(job, filepath.Join(folder, "a"), filepath.Join(folder, "in.txt"), 1))
	if code != exitOutput {
		t.Errorf("code %d where the folder is a file: %v", code, found)
	}
}

func TestDoctorOfObjects(t *testing.T) {
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	store.Put(t, bucket, "in/a", []byte("text\n"))
	access := fmt.Sprintf("endpoint: %q, path-style: true, region: us-east-1, access-key: %q, secret-key: %q", store.Endpoint, store.AccessKey, store.SecretKey)
	job := fmt.Sprintf("name: objects\nsource: {s3: {inputs: [s3://%s/in/, s3://%s/empty/], %s}}\nsink: {s3: {prefix: s3://%s/out/, %s}}\ndead-letters: s3://%s/failed/\n",
		bucket, bucket, access, bucket, access, bucket)
	found, code := examined(t, job)
	if code != exitOK {
		t.Errorf("code %d: %v", code, found)
	}
	expectFound(t, found, map[string]string{"input": "warn holds nothing yet", "output": "ok", "dead letters": "ok"})
	if keys := store.Keys(t, bucket, ""); len(keys) != 1 {
		t.Errorf("left behind: %q", keys)
	}
	found, code = examined(t, strings.ReplaceAll(job, bucket, "no-such-bucket"))
	if code != exitInput || !strings.HasPrefix(found["output"], "fail") {
		t.Errorf("code %d without the bucket: %v", code, found)
	}
}

// A store that does not keep conditions is found out.
func TestDoctorOfACarelessStore(t *testing.T) {
	store := s3test.Careless(t)
	bucket, folder := store.Bucket(t), t.TempDir()
	access := fmt.Sprintf("endpoint: %q, path-style: true, region: us-east-1, access-key: %q, secret-key: %q", store.Endpoint, store.AccessKey, store.SecretKey)
	found, code := examined(t, fmt.Sprintf("name: careless\nsource: {files: {paths: %q}}\nsink: {s3: {prefix: s3://%s/out/, %s}}\n", folder, bucket, access))
	if code != exitOutput {
		t.Errorf("code %d", code)
	}
	expectFound(t, found, map[string]string{"output": "fail conditional writes"})
}

// What a user may not do is named, one operation at a time, and nothing is joined or written to find out.
func TestDoctorOfTopics(t *testing.T) {
	allow := func(resource kmsg.ACLResourceType, name string, prefix bool, operations ...kmsg.ACLOperation) (list []kfake.ACL) {
		pattern := kmsg.ACLResourcePatternTypeLiteral
		if prefix {
			pattern = kmsg.ACLResourcePatternTypePrefixed
		}
		for _, operation := range operations {
			list = append(list, kfake.ACL{Resource: resource, Name: name, Pattern: pattern, Operation: operation, Allow: true})
		}
		return list
	}
	const read, write, describe = kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe
	topic := kmsg.ACLResourceTypeTopic
	reader := append(allow(topic, "in", false, read, describe), allow(topic, "out", false, read, describe)...)
	reader = append(reader, allow(topic, "failed", false, describe)...)
	worker := append(append([]kfake.ACL{}, allow(topic, "in", false, read, describe)...), allow(topic, "out", false, read, write, describe)...)
	worker = append(worker, allow(topic, "failed", false, read, write, describe)...)
	worker = append(worker, allow(kmsg.ACLResourceTypeGroup, "job", false, read)...)
	worker = append(worker, allow(kmsg.ACLResourceTypeTransactionalId, "job/", true, write, describe)...)
	fake := kafkatest.StartFake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "password"),
		kfake.User("PLAIN", "worker", "password", worker...), kfake.User("PLAIN", "reader", "password", reader...))
	cluster := kafkatest.Connect(fake.Brokers, kgo.SASL(plain.Auth{User: "admin", Pass: "password"}.AsMechanism()))
	cluster.CreateTopic(t, "in", 3)
	cluster.CreateTopic(t, "out", 3)
	cluster.CreateTopic(t, "failed", 1)
	cluster.CreateTopic(t, "narrow", 1)
	job := func(user, out string) string {
		access := fmt.Sprintf("brokers: [%s], sasl: {mechanism: PLAIN, user: %s, password: password}", fake.Brokers[0], user)
		return fmt.Sprintf("name: job\nsource: {kafka: {topics: in, %s}}\nsink: {kafka: {topic: %s, %s}}\ndead-letters: failed\n", access, out, access)
	}
	found, code := examined(t, job("worker", "out"))
	if code != exitOK {
		t.Errorf("the worker: code %d: %v", code, found)
	}
	expectFound(t, found, map[string]string{
		"topic in": "ok 3 partitions, permissions suffice", "topic out": "ok 3 partitions, permissions suffice", "topic failed": "ok", "group job": "ok", "transactions": "ok",
	})
	found, code = examined(t, job("reader", "out"))
	if code != exitInput { // the group
		t.Errorf("the reader: code %d: %v", code, found)
	}
	expectFound(t, found, map[string]string{
		"topic in": "ok 3 partitions", "topic out": "fail 3 partitions; WRITE is not allowed", "topic failed": "fail 1 partitions; READ and WRITE is not allowed",
		"group job": "fail", "transactions": "fail",
	})
	found, code = examined(t, job("admin", "narrow"))
	if code != exitOutput {
		t.Errorf("a narrow topic: code %d: %v", code, found)
	}
	expectFound(t, found, map[string]string{"partitions": "fail in has 3, and narrow has 1"})
}

func TestMemoryOfTheSystem(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := file("MemTotal:       16000000 kB\nMemFree: 1 kB\n")
	for _, test := range []struct {
		name         string
		root         fstest.MapFS
		total, limit int64
	}{
		{"nothing", fstest.MapFS{}, 0, 0},
		{"no group", fstest.MapFS{"proc/meminfo": machine}, 16_000_000 << 10, 0},
		{"second version, the parent's limit", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("1048576\n"),
			"sys/fs/cgroup/memory.max": file("4194304\n"),
		}, 16_000_000 << 10, 1 << 20},
		{"inside a container", fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("2097152")}, 0, 2 << 20},
		{"first version", fstest.MapFS{"proc/self/cgroup": file("4:cpu:/x\n3:memory:/docker/1\n"), "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": file("3145728\n")}, 0, 3 << 20},
		{"first version without a limit", fstest.MapFS{"proc/self/cgroup": file("3:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0, 0},
		{"nonsense", fstest.MapFS{"proc/meminfo": file("MemTotal: lots kB\n"), "proc/self/cgroup": file("::\n\n0::\n")}, 0, 0},
	} {
		if total, limit := totalMemory(test.root), memoryLimit(test.root); total != test.total || limit != test.limit {
			t.Errorf("%s: %d and %d, want %d and %d", test.name, total, limit, test.total, test.limit)
		}
	}
}

func TestMemoryCheck(t *testing.T) {
	limited := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/memory.max": {Data: []byte("104857600\n")}} // 100 MiB
	for _, test := range []struct {
		need, goal int64
		want       string
	}{{200 << 20, 0, "fail"}, {90 << 20, 0, "warn"}, {50 << 20, 0, "warn"}, {50 << 20, 80 << 20, "ok"}} {
		e := &examination{resident: test.need}
		e.memory(limited, test.goal)
		if len(e.Checks) != 1 || e.Checks[0].Status != test.want || test.want != "ok" && e.Checks[0].Advice == "" {
			t.Errorf("%d of 100 MiB: %+v", test.need>>20, e.Checks)
		}
	}
}

func TestProcessorCheck(t *testing.T) {
	for found, want := range map[string]string{
		"int8: AVX-512 VNNI; float32: AVX-512": "ok", "int8: AVX2; float32: AVX2": "warn", "int8: AVX-VNNI; float32: AVX2": "ok", "int8: generic; float32: generic": "warn", "int8: NEON SDOT": "ok",
	} {
		e := new(examination)
		if e.processor([]string{found}); e.Checks[0].Status != want {
			t.Errorf("%s: %+v", found, e.Checks)
		}
	}
}
