package s3client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/faultproxy"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
)

// stores runs a test against the fake store and against a real server.
func stores(t *testing.T, test func(t *testing.T, store *s3test.Store)) {
	for name, start := range map[string]func(testing.TB) *s3test.Store{"fake": s3test.Fake, "versitygw": s3test.Gateway} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestWritesKeepTheirConditions(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		ctx, client, bucket := withTimeout(t), store.Client(t), store.Bucket(t)
		etag, err := client.Put(ctx, bucket, "key", []byte("one"), s3client.Condition{Absent: true}, map[string]string{"sluice-writer": "w"})
		if err != nil {
			t.Fatal(err)
		}
		info, err := client.Head(ctx, bucket, "key")
		if err != nil || info.ETag != etag || info.Size != 3 || info.Metadata["sluice-writer"] != "w" {
			t.Errorf("%+v, %v", info, err)
		}
		for _, condition := range []s3client.Condition{{Absent: true}, {ETag: `"0123"`}} {
			if _, err := client.Put(ctx, bucket, "key", []byte("two"), condition, nil); !errors.Is(err, s3client.ErrExists) {
				t.Errorf("%+v: %v", condition, err)
			}
		}
		if _, err := client.Put(ctx, bucket, "key", []byte("three"), s3client.Condition{ETag: etag}, nil); err != nil {
			t.Error(err)
		}
		if _, _, err := client.Get(ctx, bucket, "key", etag, s3client.Range{}); !errors.Is(err, s3client.ErrReplaced) {
			t.Errorf("reading what was replaced: %v", err)
		}
		if _, err := client.Head(ctx, bucket, "other"); !errors.Is(err, s3client.ErrNotFound) {
			t.Errorf("what is not there: %v", err)
		}
		if err := client.Probe(ctx, bucket, "probe/"); err != nil {
			t.Error(err)
		}
		if keys := store.Keys(t, bucket, ""); !slices.Equal(keys, []string{"key"}) || store.Uploads(t, bucket, "") > 0 {
			t.Errorf("left behind: %q", keys)
		}
	})
}

func TestAStoreThatIgnoresConditionsIsRefused(t *testing.T) {
	store := s3test.Careless(t)
	bucket := store.Bucket(t)
	err := store.Client(t).Probe(withTimeout(t), bucket, "p/")
	if !errors.Is(err, s3client.ErrNoConditions) {
		t.Errorf("the probe says %v", err)
	}
	if keys := store.Keys(t, bucket, ""); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

func TestUploadsOfParts(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		ctx, client, bucket := withTimeout(t), store.Client(t), store.Bucket(t)
		data := randomBytes(s3client.MinPart + 1000)
		write := func(condition s3client.Condition) error {
			u, err := client.BeginUpload(ctx, bucket, "a/b c", map[string]string{"k": "v"})
			if err != nil {
				t.Fatal(err)
			}
			var parts []s3client.Part
			for i, piece := range [][]byte{data[:s3client.MinPart], data[s3client.MinPart:]} {
				part, err := client.PutPart(ctx, u, int32(i+1), piece)
				if err != nil {
					t.Fatal(err)
				}
				parts = append(parts, part)
			}
			if _, err = client.Complete(ctx, u, parts, condition); err != nil {
				return errors.Join(err, client.Abort(ctx, u), client.Abort(ctx, u))
			}
			return nil
		}
		if err := write(s3client.Condition{Absent: true}); err != nil {
			t.Fatal(err)
		}
		if err := write(s3client.Condition{Absent: true}); !errors.Is(err, s3client.ErrExists) {
			t.Errorf("a second one: %v", err)
		}
		got, info := store.Get(t, bucket, "a/b c")
		if !bytes.Equal(got, data) || info.Metadata["k"] != "v" {
			t.Errorf("%d bytes, %v", len(got), info)
		}
		if n := store.Uploads(t, bucket, ""); n > 0 {
			t.Errorf("%d uploads are open", n)
		}
	})
}

func TestCopiesOfParts(t *testing.T) { stores(t, testCopies) }

func testCopies(t *testing.T, store *s3test.Store) {
	ctx, client, bucket := withTimeout(t), store.Client(t), store.Bucket(t)
	data := randomBytes(2*s3client.MinPart + 77)
	store.Put(t, bucket, "ä + %.txt", data)
	source, err := client.Head(ctx, bucket, "ä + %.txt")
	if err != nil {
		t.Fatal(err)
	}
	u, err := client.BeginUpload(ctx, bucket, "copy", nil)
	if err != nil {
		t.Fatal(err)
	}
	var parts []s3client.Part
	for i, r := range []s3client.Range{{From: 0, Length: s3client.MinPart}, {From: s3client.MinPart, Length: s3client.MinPart + 77}} {
		part, err := client.CopyPart(ctx, u, int32(i+1), source, r)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	if _, err := client.Complete(ctx, u, parts, s3client.Condition{Absent: true}); err != nil {
		t.Fatal(err)
	}
	if got, _ := store.Get(t, bucket, "copy"); !bytes.Equal(got, data) {
		t.Errorf("%d bytes, want %d, or other ones", len(got), len(data))
	}
	source.ETag = `"0123"`
	if _, err := client.CopyPart(ctx, u, 1, source, s3client.Range{Length: source.Size}); err == nil {
		t.Error("a part was copied of an object that was replaced")
	}
}

// Bodies that are not signed arrive all the same, and nothing else is left unsigned.
func TestUnsignedBodies(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		bucket := store.Bucket(t)
		config := store.Config()
		config.Unsigned = true
		var seen []*http.Request
		config.Transport = recorder{next: config.Transport, seen: &seen}
		client, err := s3client.New(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Put(withTimeout(t), bucket, "key", []byte("data"), s3client.Condition{Absent: true}, nil); err != nil {
			t.Fatal(err)
		}
		if hash := seen[0].Header.Get("X-Amz-Content-Sha256"); hash != "UNSIGNED-PAYLOAD" {
			t.Errorf("the hash is %q", hash)
		}
		if seen[0].Header.Get("Authorization") == "" {
			t.Error("the request is not signed")
		}
		if data, _ := store.Get(t, bucket, "key"); string(data) != "data" {
			t.Errorf("%q", data)
		}
	})
}

var oddKeys = []string{"k/a b+c.txt", "k/ü/日本 語.txt", "k/%2F%20.txt", "k/a&b=c?d#e.txt", "k/~tilde'quote\"x.txt", "k/x;y:z@w.txt", "k/..dots", "k/trailing "}

func TestOddKeys(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		bucket := store.Bucket(t)
		for _, key := range oddKeys {
			store.Put(t, bucket, key, []byte(key))
		}
		keys := store.Keys(t, bucket, "k/")
		for _, key := range oddKeys {
			if data, _ := store.Get(t, bucket, key); string(data) != key || !slices.Contains(keys, key) {
				t.Errorf("%q: %q, listed %v", key, data, slices.Contains(keys, key))
			}
			parsedBucket, parsed, err := s3client.ParseURI(s3client.URI(bucket, key))
			if parsedBucket != bucket || parsed != key || err != nil {
				t.Errorf("%q was read as %q of %q, %v", key, parsed, parsedBucket, err)
			}
		}
	})
}

func TestWhatIsNoURI(t *testing.T) {
	for _, uri := range []string{"", "s3:/b/k", "http://b/k", "s3://", "s3:///key", "s3://a b/c", "s3://b/" + strings.Repeat("x", 1025)} {
		if bucket, key, err := s3client.ParseURI(uri); err == nil {
			t.Errorf("%q is %q in %q", uri, key, bucket)
		}
	}
}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data)
	return data
}

// proxied puts a proxy before a store.
func proxied(t *testing.T, store *s3test.Store) (*faultproxy.Proxy, *s3client.Client) {
	t.Helper()
	proxy, err := faultproxy.New(store.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	config := store.Config()
	config.Endpoint, config.StallTimeout = proxy.URL(), 100*time.Millisecond
	client, err := s3client.New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return proxy, client
}

func TestReadingGoesOnAfterEveryFault(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	store := s3test.Fake(t)
	bucket, data := store.Bucket(t), randomBytes(300_000)
	store.Put(t, bucket, "key", data)
	proxy, client := proxied(t, store)
	for name, fault := range map[string]faultproxy.Fault{
		"cut":    {CutAfter: 40_000},
		"hang":   {HangAfter: 70_001},
		"slow":   {SlowBytes: 50_000, SlowPause: 5 * time.Millisecond},
		"refuse": {Refuse: true},
		"503":    {Status: 503, Code: "SlowDown"},
		"500":    {Status: 500, Code: "InternalError"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			proxy.Plan(func(*http.Request) faultproxy.Fault {
				if n := requests.Add(1); fault.CutAfter > 0 || fault.HangAfter > 0 || n%3 != 0 {
					return fault
				}
				return faultproxy.Fault{}
			})
			before := proxy.Faults()
			r, err := client.Open(withTimeout(t), bucket, "key", "")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, want %d, or other ones, %v", len(got), len(data), err)
			}
			if proxy.Faults() == before {
				t.Error("there was no fault")
			}
			proxy.Plan(func(*http.Request) faultproxy.Fault {
				if requests.Add(1)%3 != 0 {
					return fault
				}
				return faultproxy.Fault{}
			})
			checkRandomReads(t, client.At(withTimeout(t), r.Info()), data)
		})
	}
	proxy.Plan(func(*http.Request) faultproxy.Fault { return faultproxy.Fault{Status: 503, Code: "SlowDown"} })
	if _, err := client.Open(withTimeout(t), bucket, "key", ""); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("a store that never answers: %v", err)
	}
}

// An answer that is cut in its middle is asked for again, whatever it is the answer to.
func TestAnswersThatAreCut(t *testing.T) {
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	for i := range 20 {
		store.Put(t, bucket, fmt.Sprint("key", i), []byte("x"))
	}
	proxy, client := proxied(t, store)
	var cut atomic.Int64
	proxy.Plan(func(*http.Request) faultproxy.Fault {
		if cut.Add(1)%3 != 0 {
			return faultproxy.Fault{CutAfter: 100}
		}
		return faultproxy.Fault{}
	})
	found := 0
	err := client.List(withTimeout(t), bucket, "key", "", func(*s3client.Info) (bool, error) { found++; return true, nil })
	if err != nil || found != 20 {
		t.Errorf("%d objects of 20 were listed, %v", found, err)
	}
	if _, err := client.BeginUpload(withTimeout(t), bucket, "large", nil); err != nil {
		t.Error(err)
	}
}

func checkRandomReads(t *testing.T, r *s3client.ReaderAt, data []byte) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		from, n := random.IntN(len(data)), 1+random.IntN(5000)
		p := make([]byte, n)
		got, err := r.ReadAt(p, int64(from))
		want := data[from:min(len(data), from+n)]
		if !bytes.Equal(p[:got], want) || (err != nil) != (len(want) < n) || err != nil && err != io.EOF {
			t.Fatalf("%d bytes at %d: %d bytes, %v", n, from, got, err)
		}
	}
}

func TestAnObjectThatIsReplacedWhileItIsRead(t *testing.T) {
	store := s3test.Fake(t)
	bucket, data := store.Bucket(t), randomBytes(200_000)
	store.Put(t, bucket, "key", data)
	proxy, client := proxied(t, store)
	proxy.Plan(func(*http.Request) faultproxy.Fault { return faultproxy.Fault{CutAfter: 30_000} })
	r, err := client.Open(withTimeout(t), bucket, "key", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 20_000)); err != nil {
		t.Fatal(err)
	}
	store.Put(t, bucket, "key", randomBytes(200_001))
	if n, err := io.Copy(io.Discard, r); !errors.Is(err, s3client.ErrReplaced) {
		t.Errorf("%d bytes, then %v", n, err)
	}
}

func TestALostAnswerToAConditionalWriteLooksLikeAnotherWriter(t *testing.T) {
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	proxy, client := proxied(t, store)
	var lost atomic.Bool
	proxy.Plan(func(r *http.Request) faultproxy.Fault {
		return faultproxy.Fault{LoseAnswer: r.Method == http.MethodPut && !lost.Swap(true)}
	})
	_, err := client.Put(withTimeout(t), bucket, "key", []byte("mine"), s3client.Condition{Absent: true}, map[string]string{"sluice-writer": "me"})
	if !errors.Is(err, s3client.ErrExists) {
		t.Fatalf("the second attempt says %v", err)
	}
	if _, info := store.Get(t, bucket, "key"); info == nil || info.Metadata["sluice-writer"] != "me" {
		t.Errorf("%+v", info)
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	good := s3client.Config{Region: "eu-central-1", AccessKey: "a", SecretKey: "b"}
	if _, err := s3client.New(context.Background(), good); err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(*s3client.Config){
		func(c *s3client.Config) { c.SecretKey = "" },
		func(c *s3client.Config) { c.Anonymous = true },
		func(c *s3client.Config) { c.KMSKey = "k" },
		func(c *s3client.Config) { c.Encryption = "rot13" },
		func(c *s3client.Config) { c.CustomerKey = []byte("short") },
		func(c *s3client.Config) { c.CustomerKey, c.Encryption = make([]byte, 32), "AES256" },
		func(c *s3client.Config) { c.Checksums = "never" },
	} {
		bad := good
		change(&bad)
		if _, err := s3client.New(context.Background(), bad); err == nil {
			t.Errorf("change %d was accepted", i)
		}
	}
}

// What is set once must be on every request.
func TestEveryRequestCarriesWhatWasSet(t *testing.T) {
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	store.Put(t, bucket, "key", []byte("data"))
	var seen []*http.Request
	config := store.Config()
	config.RequesterPays, config.Owner, config.Encryption, config.KMSKey = true, "123456789012", "aws:kms", "key-id"
	config.Transport = recorder{next: config.Transport, seen: &seen}
	client, err := s3client.New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := withTimeout(t)
	for _, err := range []error{
		func() error { _, err := client.Head(ctx, bucket, "key"); return err }(),
		func() error { _, _, err := client.ReadAll(ctx, bucket, "key", 10); return err }(),
		func() error { _, err := client.Put(ctx, bucket, "k", nil, s3client.Condition{}, nil); return err }(),
		func() error { _, err := client.FirstAfter(ctx, bucket, "", ""); return err }(),
		func() error {
			u, err := client.BeginUpload(ctx, bucket, "k", nil)
			return errors.Join(err, client.Abort(ctx, u))
		}(),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, r := range seen {
		what := fmt.Sprint(r.Method, " ", r.URL)
		if r.Header.Get("X-Amz-Request-Payer") != "requester" || r.Header.Get("X-Amz-Expected-Bucket-Owner") != "123456789012" {
			t.Errorf("%s lacks the payer or the owner: %v", what, r.Header)
		}
		begins := r.Method == http.MethodPut || r.Method == http.MethodPost
		if begins && (r.Header.Get("X-Amz-Server-Side-Encryption") != "aws:kms" || r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "key-id") {
			t.Errorf("%s lacks the encryption: %v", what, r.Header)
		}
	}
	if len(seen) < 6 {
		t.Errorf("%d requests", len(seen))
	}
}

type recorder struct {
	next http.RoundTripper
	seen *[]*http.Request
}

func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	*r.seen = append(*r.seen, request)
	return r.next.RoundTrip(request)
}
