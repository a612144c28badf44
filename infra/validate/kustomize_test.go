package validate

import (
	"bytes"
	"testing"

	batch "k8s.io/api/batch/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
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

func TestKustomizeTellsHowManyParts(t *testing.T) {
	job := find[batch.Job](t, built(t, "corpus"))
	for _, variable := range job.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "JOB_COMPLETIONS" && variable.Value == "8" && *job.Spec.Completions == 8 {
			return
		}
	}
	t.Error("workers are not told how many parts there are: the rest would be translated by nobody")
}
