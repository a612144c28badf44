package monitor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const token = "a token of a test"

// pageOf stands in the place of the page.
var pageOf = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page ", r.URL.Path) })

func isOpen(r *http.Request) bool { return r.URL.Path == "/" }

// A request says where it comes from, what for, and what a browser adds.
type request struct {
	method, path, from, host string
	headers                  string // Name: value, separated by semicolons
}

func (q request) send(handler http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(q.method, q.path, nil)
	r.RemoteAddr, r.Host = q.from, q.host
	for header := range strings.SplitSeq(q.headers, "; ") {
		if name, value, ok := strings.Cut(header, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestWhoMaySee(t *testing.T) {
	const here, elsewhere = "127.0.0.1:5000", "10.0.0.7:5000"
	bearer := "Authorization: Bearer " + token
	local := newGate(Access{Token: token, Open: isOpen})
	network := newGate(Access{Network: true, Token: token, Open: isOpen})
	tests := []struct {
		name string
		gate *gate
		request
		want int
	}{
		{"from here", local, request{"GET", "/api/state", here, "localhost:9090", ""}, 200},
		{"by address", local, request{"GET", "/api/state", here, "127.0.0.1:9090", ""}, 200},
		{"IPv6", local, request{"GET", "/", "[::1]:5000", "[::1]:9090", ""}, 200},
		{"mapped", local, request{"GET", "/", "[::ffff:127.0.0.1]:5000", "LOCALHOST", ""}, 200},
		{"from elsewhere", local, request{"GET", "/", elsewhere, "localhost:9090", ""}, 403},
		{"from elsewhere with the token", local, request{"GET", "/", elsewhere, "10.0.0.1:9090", bearer}, 403},
		{"another name leads here", local, request{"GET", "/api/state", here, "evil.example:9090", ""}, 403},
		{"no name", local, request{"GET", "/", here, "", ""}, 403},
		{"by a proxy", local, request{"GET", "/", here, "localhost:9090", "X-Forwarded-For: 10.0.0.7"}, 403},
		{"by another proxy", local, request{"GET", "/", here, "localhost:9090", "Forwarded: for=10.0.0.7"}, 403},
		{"own page", local, request{"GET", "/api/state", here, "localhost:9090", "Sec-Fetch-Site: same-origin"}, 200},
		{"own page posts", local, request{"POST", "/api/translate", here, "localhost:9090", "Sec-Fetch-Site: same-origin; Origin: http://localhost:9090"}, 200},
		{"another site", local, request{"GET", "/api/state", here, "localhost:9090", "Sec-Fetch-Site: cross-site"}, 403},
		{"another port", local, request{"GET", "/api/state", here, "localhost:9090", "Sec-Fetch-Site: same-site"}, 403},
		{"another site posts", local, request{"POST", "/api/translate", here, "localhost:9090", "Sec-Fetch-Site: cross-site"}, 403},
		{"another site posts with an old browser", local, request{"POST", "/api/translate", here, "localhost:9090", "Origin: http://evil.example"}, 403},
		{"a link", local, request{"GET", "/", here, "localhost:9090", "Sec-Fetch-Site: cross-site; Sec-Fetch-Mode: navigate"}, 200},
		{"a link to data", local, request{"GET", "/api/state", here, "localhost:9090", "Sec-Fetch-Site: cross-site; Sec-Fetch-Mode: navigate"}, 403},

		{"the page", network, request{"GET", "/", elsewhere, "sluice.example", ""}, 200},
		{"data without the token", network, request{"GET", "/api/state", elsewhere, "sluice.example", ""}, 401},
		{"data without the token from here", network, request{"GET", "/api/state", here, "localhost", ""}, 401},
		{"data with another token", network, request{"GET", "/api/state", elsewhere, "sluice.example", bearer + "x"}, 401},
		{"data with the token", network, request{"GET", "/api/state", elsewhere, "sluice.example", bearer}, 200},
		{"data with the token, for another site", network, request{"GET", "/api/state", elsewhere, "sluice.example", bearer + "; Sec-Fetch-Site: cross-site"}, 403},
	}
	for _, test := range tests {
		if w := test.send(test.gate.reading(pageOf)); w.Code != test.want {
			t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.want)
		} else if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", test.name, w.Header())
		}
	}
}

func TestWhoMayChange(t *testing.T) {
	bearer := "Authorization: Bearer " + token
	for _, test := range []struct {
		name   string
		access Access
		request
		want int
	}{
		{"from here without the token", Access{Token: token}, request{"POST", "/act/stop", "127.0.0.1:1", "localhost", ""}, 401},
		{"with the token", Access{Token: token}, request{"POST", "/act/stop", "127.0.0.1:1", "localhost", bearer}, 200},
		{"by a link", Access{Token: token}, request{"GET", "/act/stop", "127.0.0.1:1", "localhost", bearer}, 405},
		{"from elsewhere", Access{Token: token}, request{"POST", "/act/stop", "10.0.0.7:1", "localhost", bearer}, 403},
		{"from elsewhere, where that is allowed", Access{Network: true, Token: token, Open: isOpen}, request{"POST", "/act/stop", "10.0.0.7:1", "sluice.example", bearer}, 200},
		{"for another site", Access{Token: token}, request{"POST", "/act/stop", "127.0.0.1:1", "localhost", bearer + "; Sec-Fetch-Site: cross-site"}, 403},
		{"nobody has a token", Access{}, request{"POST", "/act/stop", "127.0.0.1:1", "localhost", "Authorization: Bearer "}, 403},
		{"nobody has a token, anywhere", Access{Network: true}, request{"POST", "/act/stop", "10.0.0.7:1", "localhost", "Authorization: Bearer "}, 403},
	} {
		if w := test.send(newGate(test.access).changing(pageOf)); w.Code != test.want {
			t.Errorf("%s: %d %s, want %d", test.name, w.Code, w.Body, test.want)
		}
	}
}

// Without a token to compare with, none is right.
func TestNoTokenIsNoToken(t *testing.T) {
	gate := newGate(Access{Network: true})
	if w := (request{"GET", "/api/state", "10.0.0.7:1", "x", "Authorization: Bearer "}).send(gate.reading(pageOf)); w.Code != 401 {
		t.Errorf("an empty token: %d", w.Code)
	}
}

// Who guesses tokens is slowed down.
func TestGuessing(t *testing.T) {
	handler := newGate(Access{Network: true, Token: token}).reading(pageOf)
	codes := map[int]int{}
	for i := range 1000 {
		codes[request{"GET", "/api/state", "10.0.0.7:1", "x", fmt.Sprint("Authorization: Bearer ", i)}.send(handler).Code]++
	}
	if codes[401] > 5*mostGuesses || codes[429] < 900 {
		t.Errorf("of a thousand guesses: %v", codes)
	}
}

// abused is a server whose page takes long to answer.
func abused(t *testing.T) (server *Server, release func()) {
	t.Helper()
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-held
		}
		fmt.Fprint(w, "page")
	})
	server, err := Listen(Config{
		Address: "127.0.0.1:0", Page: slow, Pipeline: func() Pipeline { return fixed{} }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Ready(true)
	t.Cleanup(func() {
		release()
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return server, release
}

// expectWell checks that probes and metrics are answered within a second.
func expectWell(t *testing.T, server *Server, during string) {
	t.Helper()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		response, err := client.Get("http://" + server.Address() + path)
		if err != nil {
			t.Errorf("%s: %s: %v", during, path, err)
			continue
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusOK || err != nil {
			t.Errorf("%s: %s: %d, %v", during, path, response.StatusCode, err)
		}
	}
}

// Whatever is done to the page, the probes of the scheduler are answered.
func TestAbuse(t *testing.T) {
	server, release := abused(t)
	address := server.Address()
	expectWell(t, server, "at rest")

	t.Run("many requests that take long", func(t *testing.T) {
		codes := make(chan int, 3*mostRequests)
		var group sync.WaitGroup
		for range 3 * mostRequests {
			group.Go(func() {
				if response, err := http.Get("http://" + address + "/slow"); err == nil {
					codes <- response.StatusCode
					response.Body.Close()
				}
			})
		}
		for range 2 * mostRequests {
			if code := <-codes; code != http.StatusServiceUnavailable {
				t.Errorf("a request too many: %d", code)
			}
		}
		expectWell(t, server, "while requests hang")
		release()
		group.Wait()
	})

	t.Run("long headers", func(t *testing.T) {
		r, _ := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
		r.Header.Set("X-Long", strings.Repeat("x", 1<<20))
		response, err := http.DefaultClient.Do(r)
		if err == nil { // the server may hang up before all is sent
			response.Body.Close()
			if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%d", response.StatusCode)
			}
		}
		expectWell(t, server, "after long headers")
	})

	t.Run("no HTTP", func(t *testing.T) {
		for _, text := range []string{"\x16\x03\x01\x02\x00", "GET / HTTP/9.9\r\n\r\n", "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "\x00\x00\x00\x00\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
			c := dial(t, address)
			fmt.Fprint(c, text)
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			if line, _ := bufio.NewReader(c).ReadString('\n'); strings.Contains(line, "200") {
				t.Errorf("%q: %s", text, line)
			}
		}
		expectWell(t, server, "after other protocols")
	})

	t.Run("connections that say nothing", func(t *testing.T) {
		var closed int
		for range mostOfOneHost + 50 {
			c := dial(t, address)
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localho") // and no more
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
				closed++
			}
		}
		if closed < 40 {
			t.Errorf("%d of 50 connections too many were closed", closed)
		}
	})
}

// Connections that say nothing are closed after a time, and those who hold them are the only ones who have none.
func TestSilentConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time to pass")
	}
	server, _ := abused(t)
	for range mostOfOneHost {
		fmt.Fprint(dial(t, server.Address()), "GET / HTTP/1.1\r\nHost: localho")
	}
	time.Sleep(headerTimeout + 500*time.Millisecond)
	expectWell(t, server, "after silent connections")
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// One host's connections are bounded, those of all are, and a connection that ends gives its place to another.
func TestLimitedListener(t *testing.T) {
	l := newLimitedListener(nil, 3, 2)
	for i, step := range []struct {
		host  string
		leave bool
		want  bool
	}{{"a", false, true}, {"a", false, true}, {"a", false, false}, {"b", false, true}, {"c", false, false}, {"a", true, true}, {"c", false, true}, {"c", false, false}} {
		if step.leave {
			l.leave(step.host)
		} else if got := l.enter(step.host); got != step.want {
			t.Errorf("step %d: %s enters: %v", i, step.host, got)
		}
	}
	for _, host := range []string{"a", "b", "c"} {
		l.leave(host)
	}
	if len(l.hosts) != 0 || l.all != 0 {
		t.Errorf("left over: %v, %d", l.hosts, l.all)
	}
}
