// Package faultproxy is an HTTP proxy that does to requests what networks and servers under load do, so that tests
// can see what becomes of it. Which request suffers what is decided by a function, and so is repeatable.
package faultproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// A Fault is what happens to one request. The zero value is nothing.
type Fault struct {
	Refuse     bool          // the connection is cut before the server sees the request
	LoseAnswer bool          // the server does what it was asked, and the connection is cut before its answer comes
	Status     int           // instead of asking the server, this is answered, with Code as the error's name
	Code       string        //
	CutAfter   int64         // of the answer's body only so many bytes come before the connection is cut; 0 is all
	Delay      time.Duration // before the server is asked
	SlowBytes  int64         // with SlowPause: after so many bytes of the answer's body ...
	SlowPause  time.Duration // ... it pauses for so long, every time
	HangAfter  int64         // after so many bytes of the answer's body nothing comes any more, nor does the end; 0 is never
}

// A Proxy stands before a server.
type Proxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy
	plan    atomic.Pointer[func(*http.Request) Fault]
	faults  atomic.Int64
	closing chan struct{}
}

// New starts a proxy before the server at a URL. It lets everything through until a plan is set.
func New(target string) (*Proxy, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{closing: make(chan struct{})}
	p.forward = &httputil.ReverseProxy{
		// The host is part of what the client signed, so it stays.
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			panic(http.ErrAbortHandler) // the server has gone: so does the connection
		},
		FlushInterval: -1,
		Transport:     &http.Transport{DisableCompression: true, IdleConnTimeout: 30 * time.Millisecond, MaxIdleConnsPerHost: 16},
	}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	return p, nil
}

// URL is where the proxy is reached.
func (p *Proxy) URL() string { return p.server.URL }

// Plan sets what happens to the requests that come from now on; nil lets them through. The function is called by
// several goroutines at once.
func (p *Proxy) Plan(plan func(*http.Request) Fault) {
	if plan == nil {
		p.plan.Store(nil)
		return
	}
	p.plan.Store(&plan)
}

// Faults is how many requests have suffered something.
func (p *Proxy) Faults() int { return int(p.faults.Load()) }

// Close stops the proxy and cuts its connections.
func (p *Proxy) Close() {
	close(p.closing)
	p.server.CloseClientConnections()
	p.server.Close()
	p.forward.Transport.(*http.Transport).CloseIdleConnections()
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	var fault Fault
	if plan := p.plan.Load(); plan != nil {
		fault = (*plan)(r)
	}
	if fault != (Fault{}) {
		p.faults.Add(1)
	}
	if fault.Delay > 0 && !p.pause(r.Context(), fault.Delay) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case fault.Refuse:
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		refuse(w, r, fault)
	case fault.LoseAnswer:
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case fault.CutAfter > 0 || fault.HangAfter > 0 || fault.SlowPause > 0:
		p.forward.ServeHTTP(&limping{ResponseWriter: w, proxy: p, request: r, fault: fault}, r)
	default:
		p.forward.ServeHTTP(w, r)
	}
}

// refuse answers as S3 does when it does not want to.
func refuse(w http.ResponseWriter, r *http.Request, fault Fault) {
	_, _ = io.Copy(io.Discard, r.Body)
	var body bytes.Buffer
	fmt.Fprintf(&body, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>made by the test</Message></Error>`, fault.Code)
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(fault.Status)
	_, _ = w.Write(body.Bytes())
}

func (p *Proxy) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-p.closing:
		return false
	}
}

// limping passes an answer on with the faults that concern its body.
type limping struct {
	http.ResponseWriter
	proxy   *Proxy
	request *http.Request
	fault   Fault
	passed  int64
	slow    int64 // bytes since the last pause
}

// Unwrap lets the answer be flushed.
func (l *limping) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *limping) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := int64(len(p) - done)
		if l.fault.SlowPause > 0 {
			n = min(n, l.fault.SlowBytes-l.slow)
		}
		for _, limit := range []int64{l.fault.CutAfter, l.fault.HangAfter} {
			if limit > 0 {
				n = min(n, limit-l.passed)
			}
		}
		written, err := l.ResponseWriter.Write(p[done : done+int(n)])
		done += written
		l.passed += int64(written)
		l.slow += int64(written)
		if err != nil {
			return done, err
		}
		l.suffer()
	}
	return done, nil
}

// suffer does what is due after the bytes that have passed.
func (l *limping) suffer() {
	_ = http.NewResponseController(l.ResponseWriter).Flush() // what cannot be flushed comes later
	switch {
	case l.fault.CutAfter > 0 && l.passed >= l.fault.CutAfter:
		panic(http.ErrAbortHandler)
	case l.fault.HangAfter > 0 && l.passed >= l.fault.HangAfter:
		select {
		case <-l.request.Context().Done():
		case <-l.proxy.closing:
		}
		panic(http.ErrAbortHandler)
	case l.fault.SlowPause > 0 && l.slow >= l.fault.SlowBytes:
		l.slow = 0
		if !l.proxy.pause(l.request.Context(), l.fault.SlowPause) {
			panic(http.ErrAbortHandler)
		}
	}
}
