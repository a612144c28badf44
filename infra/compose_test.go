package infra

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// Without a daemon no container can be started. What the containers are told can be tried all the same, with the programs that are in
// them: infra/validate loads the file as Compose does, these tests hand Prometheus its configuration and the S3 server its arguments, and
// scripts/try-streams.sh runs the jobs with the same servers.

// composeService returns the command and the environment of a service.
func composeService(t *testing.T, name string) (command []string, environment map[string]string) {
	t.Helper()
	var project struct {
		Services map[string]yaml.Node
	}
	if err := yaml.Unmarshal([]byte(read(t, "infra", "compose", "compose.yml")), &project); err != nil {
		t.Fatal(err)
	}
	var service struct {
		Command     []string
		Environment map[string]string
	}
	node := project.Services[name]
	if err := node.Decode(&service); err != nil || len(service.Command) == 0 {
		t.Fatalf("service %s: %v, %v", name, service, err)
	}
	return service.Command, service.Environment
}

func TestComposePrometheusConfiguration(t *testing.T) {
	promtool := tool(t, "promtool")
	folder := t.TempDir()
	for name, from := range map[string]string{"prometheus.yml": path("infra", "compose", "prometheus.yml"), "sluice.rules.yml": path("infra", "alerts", "sluice.rules.yml")} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, nil, promtool, "check", "config", filepath.Join(folder, "prometheus.yml"))
	command, _ := composeService(t, "prometheus")
	if command[0] != "--config.file=/etc/prometheus/prometheus.yml" {
		t.Errorf("Prometheus is told %q", command)
	}
}

// The S3 server takes the arguments that the file gives it, and serves the bucket that is a folder.
func TestComposeStore(t *testing.T) {
	program := tool(t, "versitygw")
	command, environment := composeService(t, "s3")
	folder, port := t.TempDir(), sharedtest.FreePorts(t)
	for _, name := range []string{"iam", "buckets/corpora"} { // which the service "folders" makes
		if err := os.MkdirAll(filepath.Join(folder, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	line := strings.NewReplacer("/data", folder, ":7070", fmt.Sprint("127.0.0.1:", port)).Replace(strings.Join(command, "\n"))
	server := exec.Command(program, strings.Split(line, "\n")...)
	for name, value := range environment {
		server.Env = append(server.Env, name+"="+value)
	}
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() {
		_ = server.Process.Kill()
		<-ended
	}()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		connection, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			connection.Close()
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("the server does not answer:\n%s", log.String())
		}
	}
	mustRun(t, nil, tool(t, "curl"), "-fsS", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", environment["ROOT_ACCESS_KEY"]+":"+environment["ROOT_SECRET_KEY"],
		"-H", fmt.Sprintf("x-amz-content-sha256: %x", sha256.Sum256(nil)), fmt.Sprintf("http://127.0.0.1:%d/corpora", port))
}
