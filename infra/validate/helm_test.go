package validate

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/strvals"
)

func newBufReader(content []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(content)) }

func chartFolder() string { return file("infra", "helm", "sluice") }

// valuesOf reads a file of values and adds a job file to them, as --set-file does.
func valuesOf(t *testing.T, name, job string) chartutil.Values {
	t.Helper()
	values, err := chartutil.ReadValues(readFile(t, "infra", "helm", "sluice", "ci", name))
	if err != nil {
		t.Fatal(err)
	}
	values["job"] = string(readFile(t, "docs", "examples", job))
	return values
}

// render does what "helm template" does, the check of values against the schema included.
func render(t *testing.T, values chartutil.Values) (string, error) {
	t.Helper()
	chart, err := loader.Load(chartFolder())
	if err != nil {
		t.Fatal(err)
	}
	options := chartutil.ReleaseOptions{Name: "reviews", Namespace: "translation", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			out.WriteString("---\n" + files[name] + "\n")
		}
	}
	return out.String(), nil
}

func mustRender(t *testing.T, name, job string) []any {
	t.Helper()
	text, err := render(t, valuesOf(t, name, job))
	if err != nil {
		t.Fatal(err)
	}
	return decodeManifests(t, name, []byte(text))
}

// cases are the values in the chart's folder ci, and the example that each is for.
var cases = map[string]string{
	"stream-keda.yaml": "kafka-secure.yml", "corpus.yaml": "corpus-s3.yml", "file-drop.yaml": "file-drop-s3.yml", "cron.yaml": "corpus-s3.yml",
	"accelerator.yaml": "corpus-s3.yml",
}

func TestChart(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(chartFolder(), "ci", "*.yaml"))
	if err != nil || len(files) != len(cases) {
		t.Fatalf("%d files of values, and %d cases: %v", len(files), len(cases), err)
	}
	for name, job := range cases {
		t.Run(name, func(t *testing.T) {
			checkPods(t, name, mustRender(t, name, job))
			linter := lint.All(chartFolder(), valuesOf(t, name, job), "translation", true)
			for _, message := range linter.Messages {
				if message.Severity >= support.WarningSev {
					t.Errorf("helm lint: %v", message)
				}
			}
		})
	}
}

func TestChartOfAStream(t *testing.T) {
	objects := mustRender(t, "stream-keda.yaml", "kafka-secure.yml")
	deployment, scaled := find[apps.Deployment](t, objects), find[scaledObject](t, objects)
	if deployment.Spec.Replicas != nil {
		t.Error("the number of replicas is set, which the scaler would fight with at every upgrade")
	}
	if scaled.Spec.ScaleTargetRef.Name != deployment.Name {
		t.Errorf("the scaler is for %s, and the deployment is %s", scaled.Spec.ScaleTargetRef.Name, deployment.Name)
	}
	if group := scaled.Spec.Triggers[0].Metadata["consumerGroup"]; group != "reviews-en-de" {
		t.Errorf("the scaler looks at group %q, and the job's is its name", group)
	}
	budget, network := find[policy.PodDisruptionBudget](t, objects), find[networking.NetworkPolicy](t, objects)
	for name, selector := range map[string]map[string]string{
		"deployment": deployment.Spec.Selector.MatchLabels, "budget": budget.Spec.Selector.MatchLabels, "network policy": network.Spec.PodSelector.MatchLabels,
	} {
		if len(selector) == 0 {
			t.Errorf("the %s selects everything", name)
		}
		for label, value := range selector {
			if deployment.Spec.Template.Labels[label] != value {
				t.Errorf("the %s selects pods with %s=%s, and there are none", name, label, value)
			}
		}
	}
	account := find[core.ServiceAccount](t, objects)
	if deployment.Spec.Template.Spec.ServiceAccountName != account.Name {
		t.Error("the pods run under another service account than the chart makes")
	}
}

func TestChartOfAFileDrop(t *testing.T) {
	trigger := find[scaledObject](t, mustRender(t, "file-drop.yaml", "file-drop-s3.yml")).Spec.Triggers[0]
	if trigger.Type != "aws-sqs-queue" || trigger.Metadata["queueLength"] != "10" || trigger.AuthenticationRef == nil || trigger.AuthenticationRef.Name != "aws" {
		t.Errorf("the scaler looks at %+v", trigger)
	}
	values := valuesOf(t, "file-drop.yaml", "file-drop-s3.yml")
	queue := ""
	for _, variable := range values["env"].([]any) {
		if v := variable.(map[string]any); v["name"] == "QUEUE_URL" {
			queue = v["value"].(string)
		}
	}
	if queue != trigger.Metadata["queueURL"] {
		t.Errorf("the scaler looks at %s, and the job reads %s", trigger.Metadata["queueURL"], queue)
	}
}

func TestChartOfACorpus(t *testing.T) {
	job := find[batch.Job](t, mustRender(t, "corpus.yaml", "corpus-s3.yml"))
	if *job.Spec.CompletionMode != batch.IndexedCompletion || *job.Spec.Completions != 16 {
		t.Errorf("the job is %v with %d completions", *job.Spec.CompletionMode, *job.Spec.Completions)
	}
	told := ""
	for _, variable := range job.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "JOB_COMPLETIONS" {
			told = variable.Value
		}
	}
	if told != "16" {
		t.Errorf("workers are told of %q parts: the rest would be translated by nobody", told)
	}
	if job.Spec.Template.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Error("a policy for failures asks that pods are not restarted in place")
	}
}

func TestChartPassesTheJobFileOn(t *testing.T) {
	for name, job := range cases {
		objects := mustRender(t, name, job)
		if got, want := find[core.ConfigMap](t, objects).Data["job.yml"], string(readFile(t, "docs", "examples", job)); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s: the job file has changed on its way:\n%s", name, got)
		}
	}
}

func TestChartRefuses(t *testing.T) {
	change := func(name string, value any) error {
		values := valuesOf(t, "corpus.yaml", "corpus-s3.yml")
		values[name] = value
		_, err := render(t, values)
		return err
	}
	expectError(t, change("job", ""), "job")
	expectError(t, change("job", "name: x\ngrace-period: 60s\nobserve: {listen: ':9090'}\n"), "terminationGracePeriodSeconds")
	expectError(t, change("job", "name: x\ngrace-period: 1m\nobserve: {listen: ':9090'}\n"), "in seconds")
	expectError(t, change("job", "name: x\n"), "observe.listen")
	expectError(t, change("job", "name: [x\n"), "no YAML")
	expectError(t, change("terminationGracePeriodSeconds", 25), "terminationGracePeriodSeconds")
	expectError(t, change("workload", "daemon"), "workload")
	expectError(t, change("model", map[string]any{"url": "s3://b/m.tar", "client": "x"}), "model")
	expectError(t, change("replicas", 3), "replicas")
}

// The chart can only read files of its own folder.
func TestChartsRulesAreTheRules(t *testing.T) {
	copied, err := os.ReadFile(filepath.Join(chartFolder(), "files", "sluice.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied, readFile(t, "infra", "alerts", "sluice.rules.yml")) {
		t.Error("infra/helm/sluice/files/sluice.rules.yml is another than infra/alerts/sluice.rules.yml: copy it")
	}
}

var setOption = regexp.MustCompile(`--set '?([^' \n]+)`)

// The command in infra/README.md is one that works.
func TestDocumentedInstallation(t *testing.T) {
	command := string(readFile(t, "infra", "README.md"))
	options := setOption.FindAllStringSubmatch(command, -1)
	if len(options) == 0 || !strings.Contains(command, "--set-file job=docs/examples/kafka.yml") {
		t.Fatal("infra/README.md shows no installation")
	}
	values := map[string]any{"job": string(readFile(t, "docs", "examples", "kafka.yml"))}
	for _, option := range options {
		if err := strvals.ParseInto(option[1], values); err != nil {
			t.Fatal(err)
		}
	}
	text, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	objects := decodeManifests(t, "infra/README.md", []byte(text))
	checkPods(t, "infra/README.md", objects)
	worker := find[apps.Deployment](t, objects).Spec.Template.Spec.Containers[0]
	if !slices.ContainsFunc(worker.Env, func(v core.EnvVar) bool { return v.Name == "KAFKA_BOOTSTRAP" && v.Value != "" }) {
		t.Error("the job's variable is not set")
	}
}
