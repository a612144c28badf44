package monitor

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Access says who may see the page and what goes with it, and who may change what the job does.
//
// The zero Access is for the machine itself: requests that come from it, by a name of it, and from no page of another site. With
// Network they may come from anywhere and need the token, all but those of Open.
type Access struct {
	Network bool
	Token   string                   // "" is that nobody has one: then nothing can be changed, and nothing be seen from elsewhere
	Open    func(*http.Request) bool // tells what holds no data, such as the page before it has asked for any; nil is nothing
}

// refusal says why a request is not answered.
type refusal struct {
	status int
	text   string
}

// reading lets through what only reads.
func (g *gate) reading(next http.Handler) http.Handler {
	return g.let(next, func(r *http.Request) *refusal {
		if g.access.Network && (g.access.Open == nil || !g.access.Open(r)) {
			return g.authorised(r)
		}
		return nil
	})
}

// changing lets through what changes what the job does: whoever it comes from needs the token.
func (g *gate) changing(next http.Handler) http.Handler {
	return g.let(next, func(r *http.Request) *refusal {
		if g.access.Token == "" {
			return &refusal{http.StatusForbidden, "nothing can be changed from here: the job has no observe.token"}
		}
		if r.Method != http.MethodPost {
			return &refusal{http.StatusMethodNotAllowed, "only POST changes something"}
		}
		return g.authorised(r)
	})
}

// A gate stands before the page.
type gate struct {
	access  Access
	guesses *bucket       // wrong tokens
	places  chan struct{} // requests that are being answered
}

// Most requests for the page that are answered at a time, and wrong tokens in a second.
const (
	mostRequests = 16
	mostGuesses  = 10
)

func newGate(access Access) *gate {
	return &gate{access: access, guesses: newBucket(mostGuesses, mostGuesses), places: make(chan struct{}, mostRequests)}
}

// let answers requests that are allowed, some at a time.
func (g *gate) let(next http.Handler, allowed func(*http.Request) *refusal) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		refused := g.fromHere(r)
		if refused == nil && (crossOrigin.Check(r) != nil || fromAnotherSite(r)) {
			refused = &refusal{http.StatusForbidden, "requests from pages of other sites are not answered"}
		}
		if refused == nil {
			refused = allowed(r)
		}
		if refused != nil {
			http.Error(w, refused.text, refused.status)
			return
		}
		select {
		case g.places <- struct{}{}:
			defer func() { <-g.places }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
		}
	})
}

// setSecurityHeaders lets a browser load nothing from elsewhere, show the page inside no other, and keep nothing.
func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// fromHere refuses what comes from elsewhere, unless it may. The name that was asked for counts as well: a page of another site can
// have its own name lead here, but not ours. A proxy on this machine speaks for others.
func (g *gate) fromHere(r *http.Request) *refusal {
	if g.access.Network {
		return nil
	}
	proxied := r.Header.Get("Forwarded") != "" || r.Header.Get("X-Forwarded-For") != ""
	if isLoopback(r.RemoteAddr) && isLoopback(r.Host) && !proxied {
		return nil
	}
	return &refusal{http.StatusForbidden, "the page is shown on the machine itself, as http://localhost (observe.page: network shows it elsewhere)"}
}

// isLoopback says whether an address, with or without a port, is this machine itself.
func isLoopback(address string) bool {
	host := address
	if h, _, err := net.SplitHostPort(address); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// fromAnotherSite says whether a browser sent the request for another site's page. To follow a link to the page is allowed.
func fromAnotherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none" &&
		!(r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate")
}

// authorised refuses requests without the token. Who guesses is slowed down, and everybody with him.
func (g *gate) authorised(r *http.Request) *refusal {
	if !g.guesses.has() {
		return &refusal{http.StatusTooManyRequests, "too many wrong tokens; wait a second"}
	}
	token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.access.Token))
	if isBearer && g.access.Token != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
		return nil
	}
	if isBearer {
		g.guesses.take()
	}
	return &refusal{http.StatusUnauthorized, "this needs the token of the job (observe.token) as a bearer token"}
}

// A bucket holds permissions: so many, and so many more each second.
type bucket struct {
	mutex     sync.Mutex
	left      float64
	most      float64
	perSecond float64
	last      time.Time
}

func newBucket(most, perSecond float64) *bucket {
	return &bucket{left: most, most: most, perSecond: perSecond, last: time.Now()}
}

// has says whether there is a permission.
func (b *bucket) has() bool { return b.draw(0) }

// take takes a permission, and says whether there was one.
func (b *bucket) take() bool { return b.draw(1) }

func (b *bucket) draw(n float64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := time.Now()
	b.left = min(b.most, b.left+now.Sub(b.last).Seconds()*b.perSecond)
	b.last = now
	if b.left < 1 {
		return false
	}
	b.left -= n
	return true
}
