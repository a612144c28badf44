package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const cannotDrop = 125

// runUnprivileged is the command with the permissions of files in force. They mean nothing to root, so root gives up the
// capabilities that go past them, for good, and starts the command in its own place.
func runUnprivileged() {
	if os.Geteuid() == 0 {
		runtime.LockOSThread() // capabilities belong to a thread, and the one that starts a program hands them on
		for _, capability := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
				fmt.Fprintln(os.Stderr, "cannot give up a capability:", err)
				os.Exit(cannotDrop)
			}
		}
	}
	program, err := os.Executable()
	if err == nil {
		err = syscall.Exec(program, append([]string{"sluice"}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(cannotDrop)
}

// permissionsCount says whether sluice-unprivileged can be run.
func permissionsCount() bool {
	return exec.Command("sluice-unprivileged", "version").Run() == nil
}
