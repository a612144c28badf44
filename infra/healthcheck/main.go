// Healthcheck asks a running job whether it is well, for images that have neither a shell nor curl.
//
//	healthcheck [HOST:PORT [PATH]]    127.0.0.1:9090 and /healthz if nothing is said
//
// It ends with 0 if the answer is 200, with 1 otherwise.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// patience is for everything together, and less than the timeout in the Dockerfile.
const patience = 4 * time.Second

func main() {
	address, path := "127.0.0.1:9090", "/healthz"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if len(os.Args) > 2 {
		path = os.Args[2]
	}
	if err := ask(address, path); err != nil {
		fmt.Fprintln(os.Stderr, "healthcheck:", err)
		os.Exit(1)
	}
}

// ask speaks HTTP by hand: the package net/http would make the program four times as large.
func ask(address, path string) error {
	connection, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(connection, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, address); err != nil {
		return err
	}
	status, err := bufio.NewReader(io.LimitReader(connection, 4096)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	fields := strings.Fields(status)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/") || fields[1] != "200" {
		return fmt.Errorf("%s answers %q", path, strings.TrimSpace(status))
	}
	return nil
}
