package validate

import (
	"bytes"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// The Dockerfile is read by BuildKit's own parser.
func TestDockerfile(t *testing.T) {
	parsed, err := parser.Parse(bytes.NewReader(readFile(t, "Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range parsed.Warnings {
		t.Errorf("line %v: %s", warning.Location, warning.Short)
	}
	// An environment variable takes the place of a build argument of the same name.
	environment := map[string]bool{}
	for _, stage := range stages {
		for _, command := range stage.Commands {
			switch c := command.(type) {
			case *instructions.EnvCommand:
				for _, pair := range c.Env {
					environment[pair.Key] = true
				}
			case *instructions.ArgCommand:
				for _, argument := range c.Args {
					if environment[argument.Key] {
						t.Errorf("the build argument %s is a variable, too", argument.Key)
					}
				}
			}
		}
	}
}
