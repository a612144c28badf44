package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/sluice-mt/sluice/internal/kafkatest"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/pipeline/page"
)

// A transcript is what commands print, at any moment.
type transcript struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (t *transcript) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.buffer.Write(text)
}

func (t *transcript) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.buffer.String()
}

// execute runs a command line in this process, with the demo model's engine.
func execute(ctx context.Context, output io.Writer, arguments ...string) error {
	root := newRootCommand(beginEngine)
	root.SetArgs(arguments)
	root.SetOut(output)
	root.SetErr(output)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(output, "sluice:", err)
	}
	return err
}

var servedAt = regexp.MustCompile(`metrics are served.* address=(\S+)`)

// startJob starts a job and waits until its page is served. It returns where, and how the job ended.
func startJob(t *testing.T, output *transcript, path string) (address string, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	end := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() { end <- execute(ctx, output, "run", path) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	for {
		if found := servedAt.FindStringSubmatch(output.String()); found != nil {
			return "http://" + found[1], end
		}
		select {
		case err := <-end:
			t.Fatalf("%v\n%s", err, output)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ask asks for a page, with the token if there is one.
func ask(t *testing.T, method, url, token, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// stateOf asks for the state until it is as wanted.
func stateOf(t *testing.T, address string, wanted func(*page.State) bool) page.State {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		var state page.State
		status, text := ask(t, http.MethodGet, address+"/api/state", "", "")
		if err := json.Unmarshal([]byte(text), &state); status != http.StatusOK || err != nil {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		if wanted(&state) {
			return state
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("the job does not get there: %s", text)
		}
	}
}

// jobOf writes a job file.
func jobOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.yml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// A job has secrets of every kind, and does everything that it can do and that can go wrong. None of the secrets appears anywhere.
func TestSecretsStaySecret(t *testing.T) {
	canaries := map[string]string{
		"KAFKA_PASSWORD": "canary-kafka-password", "ACCESS_KEY": "canary-access-key", "SECRET_KEY": "canary-secret-key", "TOKEN": "canary-token-of-observe",
	}
	for name, value := range canaries {
		t.Setenv(name, value)
	}
	fake := kafkatest.StartFake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "sluice", canaries["KAFKA_PASSWORD"]))
	cluster := kafkatest.Connect(fake.Brokers, kgo.SASL(plain.Auth{User: "sluice", Pass: canaries["KAFKA_PASSWORD"]}.AsMechanism()))
	cluster.CreateTopic(t, "de", 1)
	cluster.CreateTopic(t, "failed", 1)
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	store.Put(t, bucket, "in/a", []byte("{\"text\": \"Two children play.\"}\n{\"text\": 5}\n"))
	job := fmt.Sprintf(`name: canary
source: {s3: {inputs: s3://%s/in/, poll: 200ms, endpoint: %q, path-style: true, region: us-east-1, access-key: "${ACCESS_KEY}", secret-key: "${SECRET_KEY}"}}
sink: {kafka: {brokers: [%s], topic: de, sasl: {mechanism: PLAIN, user: sluice, password: "${KAFKA_PASSWORD}"}}}
records: {format: jsonl, field: text, targets: de}
translate: {models: %q}
dead-letters: failed
observe: {listen: "127.0.0.1:0", token: "${TOKEN}", pprof: true, log-level: debug}
`, bucket, store.Endpoint, fake.Brokers[0], filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
	said := new(transcript)
	address, ended := startJob(t, said, jobOf(t, job))

	state := stateOf(t, address, func(s *page.State) bool { return s.Total.Written == 2 && s.Kept.Failed == 1 && s.Total.Done == 1 })
	if state.Total.Flags["unreadable"] != 1 || state.Total.Words != 3 {
		t.Errorf("%+v", state.Total)
	}
	var pages strings.Builder
	get := func(method, path, token, body string, want int) {
		t.Helper()
		status, text := ask(t, method, address+path, token, body)
		if status != want {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
		pages.WriteString(text)
	}
	for _, path := range []string{"/", "/page.js", "/api/job", "/api/state", "/api/history", "/api/records", "/metrics", "/healthz", "/readyz", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"} {
		get(http.MethodGet, path, "", "", http.StatusOK)
	}
	get(http.MethodPost, "/api/translate", "", `{"text": "Two children play."}`, http.StatusOK)
	get(http.MethodPost, "/act/stop", "", "", http.StatusUnauthorized)
	get(http.MethodPost, "/act/stop", "a wrong token, a wrong token", "", http.StatusUnauthorized)
	for _, want := range []string{`"source.s3.secret-key","value":"(hidden)"`, `"observe.token","value":"(hidden)"`, "text: ", "Zwei Kinder spielen.", "sluice_records_total"} {
		if !strings.Contains(pages.String(), want) {
			t.Errorf("the pages lack %s", want)
		}
	}
	get(http.MethodPost, "/act/stop", canaries["TOKEN"], "", http.StatusOK)
	if err := <-ended; err != nil {
		t.Errorf("a job that is told to end: %v", err)
	}

	// What is wrong is told without the secret that it is about.
	for _, wrong := range [][2]string{
		{"mechanism: PLAIN", "mechanism: SCRAM-SHA-512"}, // no such login
		{"user: sluice", "user: somebody"},
		{`password: "${KAFKA_PASSWORD}"`, `password: ["${KAFKA_PASSWORD}"]`},
		{`secret-key: "${SECRET_KEY}"`, `secret-key: {a: "${SECRET_KEY}"}`},
		{`secret-key: "${SECRET_KEY}"`, `secret-key: "${SECRET_KEY}", secret-key-file: x`},
		{`token: "${TOKEN}"`, `token: "${TOKEN}", token-file: x`},
		{`token: "${TOKEN}"`, `token: "${TOKEN}", listen: "${TOKEN}"`},
		{"region: us-east-1", "region: ''"},
		{fake.Brokers[0], "127.0.0.1"},
		{"inputs: s3://" + bucket, "inputs: s3://no-such-bucket"},
	} {
		text := strings.Replace(job, wrong[0], wrong[1], 1)
		if text == job {
			t.Fatalf("%q changes nothing", wrong)
		}
		path := jobOf(t, text)
		for _, arguments := range [][]string{{"lint", path}, {"run", "--dry-run", path}} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // which is enough to be told, and less than the program's patience
			_ = execute(ctx, said, arguments...)
			cancel()
		}
	}
	for name, canary := range canaries {
		for what, text := range map[string]string{"pages": pages.String(), "log and errors": said.String()} {
			if at := strings.Index(text, canary); at >= 0 {
				t.Errorf("%s is in the %s: …%s…", name, what, text[max(0, at-100):min(len(text), at+100)])
			}
		}
	}
}

// A job from files knows how much there is, and its page says how much is done. It is not shown to others.
func TestPageOfFiles(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "in.en"), bytes.Repeat([]byte("A man is reading a newspaper.\n"), 20000), 0o666); err != nil {
		t.Fatal(err)
	}
	path := jobOf(t, fmt.Sprintf("name: files\nsource: {files: {paths: %q}}\nsink: {files: {folder: %q}}\ntranslate: {models: %q}\nobserve: {listen: '127.0.0.1:0'}\ngrace-period: 5s\n",
		filepath.Join(folder, "in.en"), filepath.Join(folder, "out"), filepath.Join(sharedtest.Root(), "models", "ende-tiny")))
	said := new(transcript)
	address, _ := startJob(t, said, path)
	state := stateOf(t, address, func(s *page.State) bool { return s.Left != nil && s.Left.Share > 0 && s.Now.Words > 0 })
	if state.Left.Of != "input" || state.Left.Share >= 1 || state.Engine == nil || state.Engine.Workers < 1 || !state.Ready {
		t.Errorf("%+v", state)
	}
	if status, text := ask(t, http.MethodPost, address+"/act/stop", "x", ""); status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		t.Errorf("without a token there is something to change: %d %s", status, text)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/state", nil)
	r.Host = "other.example"
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("under another name: %d", response.StatusCode)
	}
}
