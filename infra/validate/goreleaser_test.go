package validate

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// loadReleases reads the configuration as GoReleaser does: a field that it does not know is an error.
func loadReleases(t *testing.T) config.Project {
	t.Helper()
	project, err := config.Load(file(".goreleaser.yml"))
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestReleasesAreReproducible(t *testing.T) {
	for _, build := range loadReleases(t).Builds {
		if !slices.Contains(build.Flags, "-trimpath") || build.ModTimestamp != "{{ .CommitTimestamp }}" || !slices.Contains(build.Env, "CGO_ENABLED=0") {
			t.Errorf("what is built depends on the machine or the time: %v, %v, %q", build.Flags, build.Env, build.ModTimestamp)
		}
	}
	for _, archive := range loadReleases(t).Archives {
		for _, content := range append(archive.Files, config.File{Source: "the program", Info: archive.BuildsInfo}) {
			if content.Info.MTime != "{{ .CommitDate }}" {
				t.Errorf("%s has the time of the build", content.Source)
			}
		}
	}
	for _, pack := range loadReleases(t).NFPMs {
		if pack.MTime == "" {
			t.Error("packages have the time of the build")
		}
	}
}

// scripts/release.sh builds without GoReleaser what it would, and compares two builds.
func TestScriptBuildsTheSame(t *testing.T) {
	builds := loadReleases(t).Builds
	if len(builds) != 2 || !slices.Equal(builds[0].Tags, []string{"nogpu"}) || len(builds[1].Tags) != 0 {
		t.Fatal("there is to be a static program, and one that looks for GPUs")
	}
	build := builds[0]
	script := string(readFile(t, "scripts", "release.sh"))
	if want := "targets=(" + strings.Join(build.Targets, " ") + ")"; !strings.Contains(script, want) {
		t.Errorf("scripts/release.sh has no line %q", want)
	}
	if want := "gpu_targets=(" + strings.Join(builds[1].Targets, " ") + ")"; !strings.Contains(script, want) {
		t.Errorf("scripts/release.sh has no line %q", want)
	}
	want := strings.Join(build.Flags, " ") + " -ldflags '" + strings.Join(build.Ldflags, " ") + "'"
	if !strings.Contains(script, want) {
		t.Errorf("scripts/release.sh does not build with %q", want)
	}
}

// A folder that Git does not ignore would make every program that is released one "with changes".
func TestReleasesAreMadeWhereGitDoesNotLook(t *testing.T) {
	folder := loadReleases(t).Dist
	if folder == "" {
		folder = "dist"
	}
	ignore := exec.Command("git", "check-ignore", "-q", folder+"/sluice")
	ignore.Dir = file()
	if err := ignore.Run(); err != nil {
		t.Errorf("%s is not in .gitignore: %v", folder, err)
	}
}

func TestReleasesHold(t *testing.T) {
	project := loadReleases(t)
	// "go install" refuses a module that replaces others.
	if module := string(readFile(t, "go.mod")); strings.Contains(module, "\nreplace ") || strings.Contains(module, "\nexclude ") {
		t.Error("go.mod replaces or excludes modules: go install of it fails")
	}
	systems := strings.Join(project.Builds[0].Targets, " ")
	for _, system := range []string{"linux_amd64", "linux_arm64", "darwin_arm64", "windows_amd64"} {
		if !strings.Contains(systems, system) {
			t.Errorf("nothing is built for %s", system)
		}
	}
	if len(project.SBOMs) != len(project.Builds) || project.Checksum.NameTemplate == "" || len(project.NFPMs) == 0 || !slices.Contains(project.NFPMs[0].Formats, "deb") {
		t.Error("a release is to have a bill of materials, checksums and a Debian package")
	}
	for _, content := range project.Archives[0].Files {
		if found, err := filepath.Glob(file(content.Source)); err != nil || len(found) == 0 {
			t.Errorf("the archives hold %s, which is not there", content.Source)
		}
	}
	for _, content := range project.NFPMs[0].Contents {
		if found, err := filepath.Glob(file(content.Source)); err != nil || len(found) == 0 {
			t.Errorf("the package holds %s, which is not there", content.Source)
		}
	}
}
