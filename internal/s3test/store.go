// Package s3test gives tests a store that speaks S3: a fake one in the process, or a real server.
package s3test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// A Store is where a test keeps its objects.
type Store struct {
	Endpoint             string
	AccessKey, SecretKey string
}

// buckets counts those that were made, so that each test has its own.
var buckets atomic.Int64

// Config is how the store is spoken to: such that failures are tried again soon, and no connection is left when a
// test ends.
func (s *Store) Config() s3client.Config {
	return s3client.Config{
		Endpoint: s.Endpoint, Region: "us-east-1", PathStyle: true, AccessKey: s.AccessKey, SecretKey: s.SecretKey,
		MaxBackoff: 100 * time.Millisecond,
		Transport: &http.Transport{
			IdleConnTimeout: 30 * time.Millisecond, MaxIdleConnsPerHost: 16, DisableCompression: true, ResponseHeaderTimeout: 10 * time.Second,
		},
	}
}

// Client returns a client of the store.
func (s *Store) Client(t testing.TB) *s3client.Client {
	t.Helper()
	client, err := s3client.New(context.Background(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Bucket makes a bucket and returns its name.
func (s *Store) Bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test-%d-%d", os.Getpid(), buckets.Add(1))
	if err := s.Client(t).CreateBucket(context.Background(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Fake starts a store in the process. gofakes3 keeps the conditions of writes only where an object is written at
// once, and cannot copy into parts; what it lacks is done in front of it.
func Fake(t testing.TB) *Store { return serve(t, &conditions{next: copies{fakeHandler()}}) }

// Careless starts a store in the process that ignores the conditions of completed uploads and of replacements.
func Careless(t testing.TB) *Store { return serve(t, fakeHandler()) }

func fakeHandler() http.Handler {
	return gofakes3.New(s3mem.New(), gofakes3.WithLogger(gofakes3.DiscardLog()), gofakes3.WithTimeSkewLimit(0)).Server()
}

func serve(t testing.TB, handler http.Handler) *Store {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // gofakes3 answers some errors twice
	server.Start()
	t.Cleanup(server.Close)
	return &Store{Endpoint: server.URL, AccessKey: "testuser", SecretKey: "secretsecret"}
}

// conditions keeps If-None-Match and If-Match as S3 does. Writes take place one after the other.
type conditions struct {
	next  http.Handler
	mutex sync.Mutex
}

func (c *conditions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ifNoneMatch, ifMatch := r.Header.Get("If-None-Match"), r.Header.Get("If-Match")
	writes := r.Method == http.MethodPut || r.Method == http.MethodPost
	if writes {
		c.mutex.Lock()
		defer c.mutex.Unlock()
	}
	if ifNoneMatch != "" || ifMatch != "" {
		etag, exists := c.look(r)
		if ifNoneMatch != "" && exists || ifMatch != "" && etag != ifMatch && (exists || writes) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusPreconditionFailed)
			fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>PreconditionFailed</Code><Message>At least one of the pre-conditions you specified did not hold</Message></Error>`)
			return
		}
		if writes {
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
		}
	}
	c.next.ServeHTTP(w, r)
}

// copies makes a part of an object that is there.
type copies struct{ next http.Handler }

func (c copies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := r.Header.Get("X-Amz-Copy-Source")
	if from == "" || r.URL.Query().Get("partNumber") == "" {
		c.next.ServeHTTP(w, r)
		return
	}
	path, err := url.PathUnescape(from)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	get := r.Clone(r.Context())
	get.Method, get.Body, get.ContentLength, get.Header = http.MethodGet, http.NoBody, 0, http.Header{}
	get.URL = &url.URL{Path: "/" + strings.TrimPrefix(path, "/")}
	if part := r.Header.Get("X-Amz-Copy-Source-Range"); part != "" {
		get.Header.Set("Range", part)
	}
	source := httptest.NewRecorder()
	c.next.ServeHTTP(source, get)
	if source.Code >= 300 {
		w.WriteHeader(source.Code)
		_, _ = w.Write(source.Body.Bytes())
		return
	}
	if want := r.Header.Get("X-Amz-Copy-Source-If-Match"); want != "" && want != source.Header().Get("ETag") {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	put := r.Clone(r.Context())
	put.Body, put.ContentLength, put.Header = io.NopCloser(source.Body), int64(source.Body.Len()), http.Header{"Content-Length": {fmt.Sprint(source.Body.Len())}}
	written := httptest.NewRecorder()
	c.next.ServeHTTP(written, put)
	w.WriteHeader(written.Code)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><CopyPartResult><ETag>%s</ETag></CopyPartResult>`, written.Header().Get("ETag"))
}

// look asks for the ETag of the object that a request is about.
func (c *conditions) look(r *http.Request) (etag string, exists bool) {
	head := r.Clone(r.Context())
	head.Method, head.Body, head.ContentLength = http.MethodHead, http.NoBody, 0
	head.Header = http.Header{}
	head.URL.RawQuery = ""
	answer := httptest.NewRecorder()
	c.next.ServeHTTP(answer, head)
	return answer.Header().Get("ETag"), answer.Code == http.StatusOK
}

// Gateway starts versitygw, a real server that keeps objects as files. The test is skipped where it is not installed.
func Gateway(t testing.TB) *Store {
	t.Helper()
	program := gatewayProgram(t)
	folder := t.TempDir()
	for _, name := range []string{"buckets", "iam", "versions"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	address := fmt.Sprintf("127.0.0.1:%d", sharedtest.FreePorts(t))
	command := exec.Command(program, "--quiet", "--port", address, "--iam-dir", filepath.Join(folder, "iam"),
		"posix", "--versioning-dir", filepath.Join(folder, "versions"), filepath.Join(folder, "buckets"))
	command.Env = append(os.Environ(), "ROOT_ACCESS_KEY=testuser", "ROOT_SECRET_KEY=secretsecret")
	var messages strings.Builder
	command.Stdout, command.Stderr = &messages, &messages
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
			break
		}
		if time.Now().After(deadline) {
			_ = command.Process.Kill()
			_ = command.Wait()
			t.Fatalf("versitygw does not answer: %s", messages.String())
		}
	}
	return &Store{Endpoint: "http://" + address, AccessKey: "testuser", SecretKey: "secretsecret"}
}

// gatewayProgram looks where scripts/s3.sh looks.
func gatewayProgram(t testing.TB) string {
	t.Helper()
	const name = "versitygw"
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	folders := []string{filepath.Join(sharedtest.Root(), ".cache", "bin")}
	if output, err := exec.Command("go", "env", "GOPATH").Output(); err == nil {
		folders = append(folders, filepath.Join(strings.TrimSpace(string(output)), "bin"))
	}
	for _, folder := range folders {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path
		}
	}
	return sharedtest.Program(t, name)
}

// Put stores an object. One that is there is removed first, since the fake store keeps its metadata otherwise.
func (s *Store) Put(t testing.TB, bucket, key string, data []byte) {
	t.Helper()
	client := s.Client(t)
	if err := client.Delete(context.Background(), bucket, key); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(context.Background(), bucket, key, data, s3client.Condition{}, nil); err != nil {
		t.Fatal(err)
	}
}

// Get returns an object's content and what is known of it; nil if there is none.
func (s *Store) Get(t testing.TB, bucket, key string) ([]byte, *s3client.Info) {
	t.Helper()
	data, info, err := s.Client(t).ReadAll(context.Background(), bucket, key, 1<<30)
	if err != nil {
		if info, headErr := s.Client(t).Head(context.Background(), bucket, key); headErr == nil {
			t.Fatalf("%v, though it is there: %+v", err, info)
		}
		return nil, nil
	}
	return data, info
}

// Keys lists all objects below a prefix.
func (s *Store) Keys(t testing.TB, bucket, prefix string) []string {
	t.Helper()
	var keys []string
	err := s.Client(t).List(context.Background(), bucket, prefix, "", func(info *s3client.Info) (bool, error) {
		keys = append(keys, info.Key)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Uploads counts the uploads that are open below a prefix.
func (s *Store) Uploads(t testing.TB, bucket, prefix string) int {
	t.Helper()
	uploads, err := s.Client(t).Uploads(context.Background(), bucket, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return len(uploads)
}
