package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAsk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.Error(w, "no progress", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	if err := ask(address, "/healthz"); err != nil {
		t.Error("a job that is well:", err)
	}
	if ask(address, "/sick") == nil {
		t.Error("503 passes for well")
	}
	server.Close()
	if ask(address, "/healthz") == nil {
		t.Error("nobody passes for well")
	}
}

// What answers without speaking HTTP is no job.
func TestAskAStranger(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for _, answer := range []string{"SSH-2.0-x\r\n", "", "HTTP/1.1\r\n"} {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte(answer))
			_ = connection.Close()
		}
	}()
	for range 3 {
		if ask(listener.Addr().String(), "/healthz") == nil {
			t.Error("a stranger passes for well")
		}
	}
}
