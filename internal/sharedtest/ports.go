package sharedtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports for servers that tests start lie below those that systems give to outgoing connections (from 32768 on in Linux):
// a server that is killed and started again finds its port free.
const (
	firstPort = 12_000
	lastPort  = 32_000
)

// FreePorts returns a port such that it and those at the given distances from it, up to 200, are all free now. It is a
// different one each time, for tests of other packages look for ports at the same moment.
func FreePorts(t testing.TB, distances ...int) int {
	t.Helper()
	for range 100 {
		first := firstPort + rand.IntN(lastPort-firstPort)
		free := true
		for _, distance := range append([]int{0}, distances...) {
			free = free && isFree(first+distance)
		}
		if free {
			return first
		}
	}
	t.Fatal("there are no free ports")
	return 0
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	listener.Close()
	return true
}
