package validate

import (
	"bytes"
	"slices"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// built does what "kubectl kustomize" does.
func built(t *testing.T, overlay string) []any {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), file("infra", "kustomize", overlay))
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decodeManifests(t, overlay, text)
}

// The overlays, and the example whose copy each has: Kustomize reads no file outside of its folder.
var overlays = map[string]string{"stream": "kafka-secure.yml", "corpus": "corpus-s3.yml", "file-drop": "file-drop-s3.yml"}

func TestKustomize(t *testing.T) {
	for overlay, example := range overlays {
		t.Run(overlay, func(t *testing.T) {
			objects := built(t, overlay)
			checkPods(t, overlay, objects)
			if !bytes.Equal(readFile(t, "infra", "kustomize", overlay, "job.yml"), readFile(t, "docs", "examples", example)) {
				t.Errorf("infra/kustomize/%s/job.yml is another than docs/examples/%s: copy it", overlay, example)
			}
			network := find[networking.NetworkPolicy](t, objects)
			for _, object := range objects {
				pod := podOf(object)
				if pod == nil {
					continue
				}
				for label, value := range network.Spec.PodSelector.MatchLabels {
					if pod.Labels[label] != value {
						t.Errorf("the network policy is for pods with %s=%s, and there are none", label, value)
					}
				}
				if image := pod.Spec.Containers[0].Image; image == "ghcr.io/sluice-mt/sluice" {
					t.Error("the image has no tag")
				}
			}
		})
	}
}

// The scaler is for the deployment, which sets no number itself, and looks at what the job reads.
func TestKustomizeWithAScaler(t *testing.T) {
	objects := built(t, "stream-keda")
	checkPods(t, "stream-keda", objects)
	deployment, scaled := find[apps.Deployment](t, objects), find[scaledObject](t, objects)
	if deployment.Spec.Replicas != nil || scaled.Spec.ScaleTargetRef.Name != deployment.Name || scaled.Namespace != deployment.Namespace {
		t.Errorf("%v workers of %s, and a scaler of %s", deployment.Spec.Replicas, deployment.Name, scaled.Spec.ScaleTargetRef.Name)
	}
	var job struct {
		Name   string `json:"name"`
		Source struct {
			Kafka struct {
				Topics string `json:"topics"`
			} `json:"kafka"`
		} `json:"source"`
	}
	if err := yaml.Unmarshal(readFile(t, "infra", "kustomize", "stream", "job.yml"), &job); err != nil {
		t.Fatal(err)
	}
	trigger := scaled.Spec.Triggers[0].Metadata
	if trigger["consumerGroup"] != job.Name || trigger["topic"] != job.Source.Kafka.Topics || job.Name == "" {
		t.Errorf("the scaler looks at %v, and the job is %+v", trigger, job)
	}
	worker := deployment.Spec.Template.Spec.Containers[0]
	if !slices.ContainsFunc(worker.Env, func(v core.EnvVar) bool { return v.Value == trigger["bootstrapServers"] }) {
		t.Errorf("the scaler asks brokers that the job does not: %s", trigger["bootstrapServers"])
	}
}

func TestKustomizeTellsHowManyParts(t *testing.T) {
	job := find[batch.Job](t, built(t, "corpus"))
	for _, variable := range job.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "JOB_COMPLETIONS" && variable.Value == "8" && *job.Spec.Completions == 8 {
			return
		}
	}
	t.Error("workers are not told how many parts there are: the rest would be translated by nobody")
}
