package monitor

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// What the server allows. Whoever asks slowly, much or from many connections loses his own connection and nobody else's: the
// probes of a scheduler go on being answered.
const (
	mostConnections = 512
	mostOfOneHost   = 128
	mostHeaderBytes = 16 << 10
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	profileTimeout  = 3 * time.Minute // of an answer, where profiles are served: they take as long as they are asked to
	idleTimeout     = time.Minute
	mostScrapes     = 8
	scrapeTimeout   = 20 * time.Second
)

func newHTTPServer(handler http.Handler, pprof bool) *http.Server {
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: mostHeaderBytes,
	}
	if pprof {
		s.WriteTimeout = profileTimeout
	}
	return s
}

// A limitedListener closes connections beyond a number, over all and for each host.
type limitedListener struct {
	net.Listener
	most, ofOne int

	mutex sync.Mutex
	all   int
	hosts map[string]int
}

func newLimitedListener(of net.Listener, most, ofOne int) *limitedListener {
	return &limitedListener{Listener: of, most: most, ofOne: ofOne, hosts: map[string]int{}}
}

// Accept waits for the next connection that is within the limits.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(connection)
		if !l.enter(host) {
			_ = connection.Close() // there is nobody to tell
			continue
		}
		return &limitedConnection{Conn: connection, leave: sync.OnceFunc(func() { l.leave(host) })}, nil
	}
}

func hostOf(connection net.Conn) string {
	host, _, err := net.SplitHostPort(connection.RemoteAddr().String())
	if err != nil {
		return connection.RemoteAddr().String()
	}
	return host
}

func (l *limitedListener) enter(host string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.all >= l.most || l.hosts[host] >= l.ofOne {
		return false
	}
	l.all++
	l.hosts[host]++
	return true
}

func (l *limitedListener) leave(host string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.all--
	if l.hosts[host]--; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
}

type limitedConnection struct {
	net.Conn
	leave func()
}

// Close closes the connection and frees its place.
func (c *limitedConnection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
