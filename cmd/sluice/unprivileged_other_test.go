//go:build !linux

package main

import "os"

// runUnprivileged is the command itself: tests run as root are a matter of Linux containers.
func runUnprivileged() { os.Exit(run(os.Args[1:])) }

func permissionsCount() bool { return os.Geteuid() > 0 }
