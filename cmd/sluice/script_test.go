package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-mt/sluice/internal/sharedtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sluice":              func() { os.Exit(run(os.Args[1:])) },
		"sluice-echo":         func() { os.Exit(runWith(newRootCommand(beginEcho), os.Args[1:])) },
		"sluice-stuck":        func() { os.Exit(runWith(newRootCommand(beginStuck), os.Args[1:])) },
		"sluice-unprivileged": runUnprivileged,
	})
}

// TestScript runs the command lines in testdata/script. $MODEL is the folder of the demo model.
func TestScript(t *testing.T) {
	cache := t.TempDir() // for all scripts, as a user has one: what is measured there once is not measured again
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: scriptCommands(),
		Condition: func(name string) (bool, error) {
			switch name {
			case "permissions":
				return permissionsCount(), nil
			case "mounts":
				return exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", t.TempDir()).Run() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("MODEL", filepath.Join(sharedtest.Root(), "models", "ende-tiny"))
			env.Setenv("XDG_CACHE_HOME", cache)
			return nil
		},
	})
}
