package infra

import (
	"regexp"
	"strings"
	"testing"
)

var from = regexp.MustCompile(`(?m)^FROM (\S+)(?: AS (\S+))?$`)

// What linters of Dockerfiles look for, as far as it applies to an image that has no shell.
func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	stages := map[string]bool{}
	for _, match := range from.FindAllStringSubmatch(text, -1) {
		if base := match[1]; base != "scratch" && base != "${BUILDER}" && base != "${GPU_BASE}" && !stages[base] {
			t.Errorf("a stage begins with %s, which is neither scratch nor a stage nor a base that can be chosen", base)
		}
		stages[match[2]] = true
	}
	if !strings.Contains(text, `"-tags=nogpu"`) {
		t.Error("without glibc only a static program runs")
	}
	if !stages["gpu"] || !stages["with-model"] || !strings.HasSuffix(strings.TrimSpace(text), "FROM base") {
		t.Error("there is to be a stage for GPUs and one with a model, and the last stage is to be without")
	}
	builder := regexp.MustCompile(`ARG BUILDER=\S+:(\S+)`).FindStringSubmatch(text)
	if builder == nil {
		t.Fatal("the builder has no tag")
	}
	if !strings.Contains(read(t, "go.mod"), "\ngo "+builder[1]) {
		t.Errorf("the builder has Go %s, and go.mod wants another", builder[1])
	}
	for line := range strings.Lines(text) {
		for _, word := range []string{"RUN", "CMD", "ENTRYPOINT"} {
			if rest, ok := strings.CutPrefix(line, word+" "); ok && !strings.HasPrefix(rest, "[") {
				t.Errorf("%q needs a shell", strings.TrimSpace(line))
			}
		}
		if strings.HasPrefix(line, "ADD ") || strings.Contains(line, ":latest") {
			t.Errorf("%q: use COPY, and name versions", strings.TrimSpace(line))
		}
	}
}

// The health check in the Dockerfile has no arguments, so its defaults have to be what the image listens at.
func TestHealthcheckAsksWhereTheImageListens(t *testing.T) {
	if !strings.Contains(read(t, "Dockerfile"), "LISTEN=:9090") || !strings.Contains(read(t, "infra", "healthcheck", "main.go"), `"127.0.0.1:9090", "/healthz"`) {
		t.Error("the image listens at another port than the health check asks")
	}
	for _, file := range examples(t) {
		if strings.HasSuffix(file, "kafka-secure.yml") {
			continue // it listens at all addresses wherever it runs
		}
		if listen := parseExample(t, file).Observe.Listen; listen != "localhost:9090" {
			t.Errorf("%s listens at %q, outside of an image, too", file, listen)
		}
	}
}
