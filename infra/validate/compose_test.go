package validate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// loadCompose reads the project as Compose does: against its schema, with references resolved.
func loadCompose(t *testing.T) *types.Project {
	t.Helper()
	folder := file("infra", "compose")
	details := types.ConfigDetails{
		WorkingDir: folder, Environment: types.Mapping{}, ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(folder, "compose.yml")}},
	}
	project, err := loader.LoadWithContext(t.Context(), details, loader.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeMountsWhatThereIs(t *testing.T) {
	project := loadCompose(t)
	for name, service := range project.Services {
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil || !volume.ReadOnly {
				t.Errorf("%s mounts %s, which is not there or can be written: %v", name, volume.Source, err)
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s opens port %s to the network, without a password", name, port.Published)
			}
		}
		if service.Build == nil && !strings.Contains(service.Image, ":") || strings.HasSuffix(service.Image, ":latest") {
			t.Errorf("%s has the image %s: name a version", name, service.Image)
		}
	}
}

func TestComposeRunsSluiceWithoutRights(t *testing.T) {
	project := loadCompose(t)
	for _, name := range []string{"sluice", "corpus"} {
		s, ok := project.Services[name]
		if !ok {
			t.Fatalf("there is no service %s", name)
		}
		if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || s.Privileged || len(s.SecurityOpt) == 0 {
			t.Errorf("%s has rights that it does not need", name)
		}
	}
	sluice := project.Services["sluice"]
	if sluice.StopGracePeriod == nil || time.Duration(*sluice.StopGracePeriod) <= 30*time.Second {
		t.Error("the workers are killed before they have ended by themselves")
	}
	if sluice.Build.Target != "with-model" || !strings.Contains(string(readFile(t, "Dockerfile")), "AS with-model") {
		t.Errorf("the image is built of stage %q, which the Dockerfile does not have", sluice.Build.Target)
	}
	if model := sluice.Build.Args["WITH_MODEL"]; model == nil {
		t.Error("no model is built in")
	} else if _, err := os.Stat(file(*model)); err != nil {
		t.Error(err)
	}
}

// The topics that are made have to be those that the job names.
func TestComposeMakesTheTopicsOfTheJob(t *testing.T) {
	made := strings.Join(loadCompose(t).Services["topics"].Command, " ")
	for _, line := range strings.Split(string(readFile(t, "docs", "examples", "kafka.yml")), "\n") {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && (key == "topics" || key == "topic" || key == "dead-letters") && !strings.Contains(made, " "+value+" ") && !strings.Contains(made, " "+value+";") {
			t.Errorf("%s is not made", value)
		}
	}
}
