package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sluice": func() { os.Exit(run(os.Args[1:])) },
	})
}

// TestScript runs the command lines in testdata/script. $MODEL is the folder of the demo model.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("MODEL", filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
			return nil
		},
	})
}
