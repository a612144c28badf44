// Package validate checks the files of infra with the types and tools of those who read them: the Kubernetes API, Helm, Kustomize,
// Compose, GoReleaser, HCL. It is a module of its own so that the program does not depend on them.
//
//	go test -C infra/validate ./...
package validate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// file returns the path of a file of the repository.
func file(elements ...string) string {
	return filepath.Join(append([]string{"..", ".."}, elements...)...)
}

func readFile(t *testing.T, elements ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(file(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A scaledObject has the fields of KEDA's that are used here. Its own package brings in the SDKs of every cloud.
type scaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount *int32 `json:"minReplicaCount"`
		MaxReplicaCount *int32 `json:"maxReplicaCount"`
		PollingInterval *int32 `json:"pollingInterval"`
		CooldownPeriod  *int32 `json:"cooldownPeriod"`
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior *autoscaling.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type              string            `json:"type"`
			Metadata          map[string]string `json:"metadata"`
			AuthenticationRef *struct {
				Name string `json:"name"`
			} `json:"authenticationRef"`
		} `json:"triggers"`
	} `json:"spec"`
}

// newObject returns an empty object of a kind, nil if the kind is not known here.
func newObject(kind string) any {
	switch kind {
	case "v1 ConfigMap":
		return new(core.ConfigMap)
	case "v1 ServiceAccount":
		return new(core.ServiceAccount)
	case "apps/v1 Deployment":
		return new(apps.Deployment)
	case "batch/v1 Job":
		return new(batch.Job)
	case "batch/v1 CronJob":
		return new(batch.CronJob)
	case "policy/v1 PodDisruptionBudget":
		return new(policy.PodDisruptionBudget)
	case "networking.k8s.io/v1 NetworkPolicy":
		return new(networking.NetworkPolicy)
	case "monitoring.coreos.com/v1 PodMonitor":
		return new(monitoring.PodMonitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		return new(monitoring.PrometheusRule)
	case "keda.sh/v1alpha1 ScaledObject":
		return new(scaledObject)
	}
	return nil
}

// decodeManifests decodes every document. A field that the API does not have, or that is there twice, fails the test.
func decodeManifests(t *testing.T, where string, content []byte) (objects []any) {
	t.Helper()
	reader := kyaml.NewYAMLReader(newBufReader(content))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if len(bytes.TrimSpace(document)) == 0 || len(bytes.TrimSpace(bytes.Trim(document, "-\n "))) == 0 {
			continue
		}
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatalf("%s: %v\n%s", where, err, document)
		}
		if kind.Kind == "" {
			continue // nothing but comments
		}
		object := newObject(kind.APIVersion + " " + kind.Kind)
		if object == nil {
			t.Errorf("%s: %s %s is not known here", where, kind.APIVersion, kind.Kind)
			continue
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Errorf("%s: %s: %v", where, kind.Kind, err)
		}
		objects = append(objects, object)
	}
}

// find returns the only object of a type.
func find[T any](t *testing.T, objects []any) *T {
	t.Helper()
	var found *T
	for _, object := range objects {
		if o, ok := object.(*T); ok {
			if found != nil {
				t.Fatalf("there are two %T", o)
			}
			found = o
		}
	}
	if found == nil {
		t.Fatalf("there is no %T", found)
	}
	return found
}

// podOf returns the pod that an object makes, nil if it makes none.
func podOf(object any) *core.PodTemplateSpec {
	switch o := object.(type) {
	case *apps.Deployment:
		return &o.Spec.Template
	case *batch.Job:
		return &o.Spec.Template
	case *batch.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// checkPods checks every pod among the objects, and that the job file it mounts is among them, too.
func checkPods(t *testing.T, where string, objects []any) {
	t.Helper()
	jobs := map[string]string{}
	for _, object := range objects {
		if m, ok := object.(*core.ConfigMap); ok {
			jobs[m.Name] = m.Data["job.yml"]
		}
	}
	pods := 0
	for _, object := range objects {
		pod := podOf(object)
		if pod == nil {
			continue
		}
		pods++
		for _, problem := range podProblems(pod, jobs) {
			t.Errorf("%s: %T: %s", where, object, problem)
		}
	}
	if pods == 0 {
		t.Errorf("%s: there is no pod", where)
	}
}

// podProblems lists what is wrong with a pod.
func podProblems(pod *core.PodTemplateSpec, jobs map[string]string) (problems []string) {
	problem := func(format string, arguments ...any) { problems = append(problems, fmt.Sprintf(format, arguments...)) }
	spec := &pod.Spec
	if c := spec.SecurityContext; c == nil || c.RunAsNonRoot == nil || !*c.RunAsNonRoot || c.RunAsUser == nil || *c.RunAsUser != 65532 ||
		c.SeccompProfile == nil || c.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		problem("it may run as root, or without seccomp")
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		problem("it gets a token of the cluster, which it has no use for")
	}
	for _, container := range append(append([]core.Container{}, spec.InitContainers...), spec.Containers...) {
		c := container.SecurityContext
		if c == nil || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem || c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation ||
			c.Capabilities == nil || len(c.Capabilities.Drop) != 1 || c.Capabilities.Drop[0] != "ALL" || len(c.Capabilities.Add) > 0 {
			problem("container %s has rights that it does not need", container.Name)
		}
		if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
			problem("container %s does not say what it needs", container.Name)
		}
	}
	worker := &spec.Containers[0]
	for name, probe := range map[string]struct {
		probe *core.Probe
		path  string
	}{"startup": {worker.StartupProbe, "/readyz"}, "readiness": {worker.ReadinessProbe, "/readyz"}, "liveness": {worker.LivenessProbe, "/healthz"}} {
		if probe.probe == nil || probe.probe.HTTPGet == nil || probe.probe.HTTPGet.Path != probe.path || probe.probe.HTTPGet.Port.String() != "metrics" {
			problem("the %s probe does not ask %s", name, probe.path)
		}
	}
	problems = append(problems, memoryProblems(worker)...)
	return append(problems, jobProblems(pod, jobs)...)
}

// memoryProblems compares GOMEMLIMIT with the limit of the container, of which it has to be four fifths: the alert says so.
func memoryProblems(worker *core.Container) []string {
	for _, variable := range worker.Env {
		if variable.Name == "GOMEMLIMIT" {
			var mib int64
			if _, err := fmt.Sscanf(variable.Value, "%dMiB", &mib); err != nil {
				return []string{"GOMEMLIMIT is " + variable.Value}
			}
			if limit := worker.Resources.Limits.Memory().Value() >> 20; mib != limit*4/5 {
				return []string{fmt.Sprintf("GOMEMLIMIT is %d MiB and the limit %d MiB", mib, limit)}
			}
			return nil
		}
	}
	return []string{"GOMEMLIMIT is not set"}
}

// jobProblems looks for the job file that a pod runs, and compares its grace period with the pod's.
func jobProblems(pod *core.PodTemplateSpec, jobs map[string]string) []string {
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		text, ok := jobs[volume.ConfigMap.Name]
		if !ok {
			return []string{"its job file " + volume.ConfigMap.Name + " is not there"}
		}
		var job struct {
			Name  string `json:"name"`
			Grace string `json:"grace-period"`
		}
		if err := yaml.Unmarshal([]byte(text), &job); err != nil || job.Name == "" {
			return []string{fmt.Sprintf("its job file is none: %v\n%s", err, text)}
		}
		grace := 25 * time.Second
		if job.Grace != "" {
			var err error
			if grace, err = time.ParseDuration(job.Grace); err != nil {
				return []string{err.Error()}
			}
		}
		given := pod.Spec.TerminationGracePeriodSeconds
		if given == nil || time.Duration(*given)*time.Second <= grace+5*time.Second {
			return []string{"it is killed before the job has ended by itself"}
		}
		return nil
	}
	return []string{"it has no job file"}
}

// expectError checks that an error came and speaks of what it should.
func expectError(t *testing.T, err error, about string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), about) {
		t.Errorf("got %v, want an error about %q", err, about)
	}
}
