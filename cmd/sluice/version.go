package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/kernels"
)

// A versionReport is what "sluice version" tells.
type versionReport struct {
	Version  string   `json:"version"`
	Revision string   `json:"revision,omitempty"`
	Modified bool     `json:"modified"` // built from a checkout with uncommitted changes
	Time     string   `json:"time,omitempty"`
	Go       string   `json:"go"`
	OS       string   `json:"os"`
	Arch     string   `json:"arch"`
	CPU      []string `json:"cpuFeatures"`
	Kernels  []string `json:"kernels"`
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	output := newGroup("Output options")
	output.flags.BoolVar(&asJSON, "json", false, "print JSON")
	command := &cobra.Command{
		Use:   "version [--json]",
		Short: "Tell version, CPU features and chosen kernels",
		Args:  exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			report := newVersionReport()
			if asJSON {
				return writeJSON(command.OutOrStdout(), report)
			}
			return writeOutput(command.OutOrStdout(), report.text())
		},
	}
	addGroups(command, output)
	return command
}

// buildVersion is the version of the program in one word.
func buildVersion() string { return newVersionReport().Version }

func newVersionReport() versionReport {
	report := versionReport{
		Version: "devel",
		Go:      runtime.Version(),
		OS:      runtime.GOOS,
		Arch:    runtime.GOARCH,
		CPU:     cpuFeatures(),
		Kernels: kernels.Implementations(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return report
	}
	if version := info.Main.Version; version != "" && version != "(devel)" {
		report.Version = version
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			report.Revision = setting.Value
		case "vcs.modified":
			report.Modified = setting.Value == "true"
		case "vcs.time":
			report.Time = setting.Value
		}
	}
	return report
}

// text is the report for people.
func (r versionReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sluice %s\n", r.Version)
	if r.Revision != "" {
		fmt.Fprintf(&b, "revision  %s%s\n", r.Revision, map[bool]string{true: " with changes"}[r.Modified])
	}
	if r.Time != "" {
		fmt.Fprintf(&b, "time      %s\n", r.Time)
	}
	fmt.Fprintf(&b, "go        %s %s/%s\n", r.Go, r.OS, r.Arch)
	features := strings.Join(r.CPU, " ")
	if features == "" {
		features = "none that matter"
	}
	fmt.Fprintf(&b, "cpu       %s\n", features)
	for _, kernel := range r.Kernels {
		fmt.Fprintf(&b, "kernel    %s\n", kernel)
	}
	return b.String()
}

// writeJSON prints a report as indented JSON.
func writeJSON(w io.Writer, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return writeOutput(w, string(text)+"\n")
}

// writeOutput prints a text that is all that a command has to say.
func writeOutput(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return outputError{err}
	}
	return nil
}
