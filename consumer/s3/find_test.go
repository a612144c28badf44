package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/consumer"
	"github.com/sluice-mt/sluice/internal/faultproxy"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/internal/shard"
)

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// connected returns a source that is closed with the test, and its lanes.
func connected(t testing.TB, config Config) (*Source, []*lane) {
	t.Helper()
	source := New(config)
	ctx := withTimeout(t)
	if err := source.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	var lanes []*lane
	t.Cleanup(func() {
		for _, l := range lanes {
			l.Close()
		}
		source.Close(context.Background())
	})
	for {
		l, err := source.Next(ctx)
		if errors.Is(err, consumer.ErrEndOfInput) {
			return source, lanes
		}
		if err != nil {
			t.Fatal(err)
		}
		lanes = append(lanes, l.(*lane))
	}
}

// readAll reads a lane from its beginning.
func readAll(t testing.TB, l consumer.Lane) ([]string, error) {
	t.Helper()
	ctx := withTimeout(t)
	if err := l.Start(ctx, job.Position{}); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for {
		records, err := l.Read(ctx)
		if err != nil {
			return texts, err
		}
		for _, record := range records {
			texts = append(texts, record.Text)
		}
	}
}

func TestWhichObjectsCountAndWhereTheirOutputsGo(t *testing.T) {
	store := s3test.Fake(t)
	client, bucket, other := store.Client(t), store.Bucket(t), store.Bucket(t)
	for _, key := range []string{"a/1.txt", "a/2 ü+%.txt", "a/b/3.txt", "a/part-4", "a/.hidden", "a/_sluice/x", "a/b/.git/x", "c/5.txt", "a/out/6.txt"} {
		store.Put(t, bucket, key, []byte("x\n"))
	}
	store.Put(t, bucket, "a/", nil)
	store.Put(t, bucket, "a/empty", nil)
	store.Put(t, other, "a/1.txt", []byte("x\n"))
	at := func(keys ...string) []string {
		for i := range keys {
			keys[i] = "s3://" + bucket + "/" + keys[i]
		}
		return keys
	}
	for _, test := range []struct {
		inputs []string
		want   string
	}{
		{at("a/"), "1.txt, 2 ü+%.txt, b/3.txt, empty, part-4"},
		{at("a/p*"), "part-4"},
		{at("a/b/3.txt"), "3.txt"},
		{at("a/b/", "c/5.txt"), "a/b/3.txt, c/5.txt"},
		{append(at("c/"), "s3://"+other), bucket + "/c/5.txt, " + other + "/a/1.txt"},
		{at(""), "a/1.txt, a/2 ü+%.txt, a/b/3.txt, a/empty, a/part-4, c/5.txt"},
	} {
		source, lanes := connected(t, Config{Client: client, Inputs: test.inputs, Exclude: at("a/out/")})
		var got []string
		for _, l := range lanes {
			relative, err := source.Relative(l.Name())
			if err != nil {
				t.Error(err)
			}
			got = append(got, relative)
			if l.Name() != l.object.info.URI() {
				t.Errorf("lane %s is of %s", l.Name(), l.object.info.URI())
			}
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%q: %q, want %q", test.inputs, got, test.want)
		}
	}
	source := New(Config{Client: client, Inputs: at("a/none.txt")})
	if err := source.Connect(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	defer source.Close(context.Background())
	if _, err := source.Next(withTimeout(t)); !errors.Is(err, s3client.ErrNotFound) {
		t.Errorf("an object that is not there: %v", err)
	}
}

func TestManifestsName(t *testing.T) {
	store := s3test.Fake(t)
	client, bucket := store.Client(t), store.Bucket(t)
	store.Put(t, bucket, "a/1*", []byte("x\n"))
	store.Put(t, bucket, "a/2.txt", []byte("x\n"))
	names := fmt.Sprintf("s3://%s/a/1*\r\n\ns3://%s/a/2.txt", bucket, bucket)
	store.Put(t, bucket, "list.gz", packed(t, ".gz", names))
	local := filepath.Join(t.TempDir(), "list.json")
	redshift := fmt.Sprintf(`{"entries": [{"url": "s3://%s/a/2.txt", "mandatory": true}]}`, bucket)
	if err := os.WriteFile(local, []byte(redshift), 0o666); err != nil {
		t.Fatal(err)
	}
	_, lanes := connected(t, Config{Client: client, Manifests: []string{"s3://" + bucket + "/list.gz", local}})
	var got []string
	for _, l := range lanes {
		got = append(got, l.object.info.Key)
	}
	if !slices.Equal(got, []string{"a/1*", "a/2.txt", "a/2.txt"}) {
		t.Errorf("%q", got)
	}
}

// The ranges of an object, one after the other, have the lines of the whole, wherever they are cut.
func TestRangesMeetAtLineEnds(t *testing.T) {
	store := s3test.Fake(t)
	client, bucket := store.Client(t), store.Bucket(t)
	rapid.Check(t, func(r *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`[a-zä]{0,30}`), 1, 40).Draw(r, "lines")
		data := strings.Join(lines, "\n")
		if rapid.Bool().Draw(r, "last line break") {
			data += "\n"
		}
		if data == "" {
			return
		}
		store.Put(t, bucket, "key", []byte(data))
		split := int64(rapid.IntRange(1, len(data)+2).Draw(r, "split"))
		_, whole := connected(t, Config{Client: client, Inputs: []string{"s3://" + bucket + "/key"}})
		want, _ := readAll(t, whole[0])
		source, lanes := connected(t, Config{Client: client, Inputs: []string{"s3://" + bucket + "/key"}, Split: split})
		var got []string
		for i, l := range lanes {
			texts, _ := readAll(t, l)
			got = append(got, texts...)
			if done, total := l.Progress(); done != total {
				r.Errorf("%s: %d of %d bytes at the end", l.Name(), done, total)
			}
			info, err := source.Range(l.Name())
			if err != nil || info.Count != len(lanes) || info.Index != i || info.Whole != "s3://"+bucket+"/key" {
				r.Errorf("%s: %+v, %v", l.Name(), info, err)
			}
		}
		if !slices.Equal(got, want) {
			r.Fatalf("%d ranges have %q, the whole %q", len(lanes), got, want)
		}
	})
}

func TestWhatIsNotDivided(t *testing.T) {
	store := s3test.Fake(t)
	client, bucket := store.Client(t), store.Bucket(t)
	text := strings.Repeat("line\n", 1000)
	store.Put(t, bucket, "in/plain", []byte(text))
	store.Put(t, bucket, "in/packed", packed(t, ".gz", text))
	for _, test := range []struct {
		records recordio.Options
		split   int64
		want    int
	}{
		{recordio.Options{}, 4999, 3},
		{recordio.Options{}, 5000, 2},
		{recordio.Options{}, 30, 168},
		{recordio.Options{Format: recordio.JSONL}, 2500, 3},
		{recordio.Options{Format: recordio.TSV}, 2500, 3},
		{recordio.Options{Format: recordio.TSV, Header: true}, 2500, 2},
		{recordio.Options{Format: recordio.Parquet}, 2500, 2},
	} {
		if _, lanes := connected(t, Config{Client: client, Inputs: []string{"s3://" + bucket + "/in/"}, Split: test.split, Records: test.records}); len(lanes) != test.want {
			t.Errorf("%+v in ranges of %d: %d lanes, want %d", test.records, test.split, len(lanes), test.want)
		}
	}
}

func TestShardsTakeEverythingOnce(t *testing.T) {
	store := s3test.Fake(t)
	client, bucket := store.Client(t), store.Bucket(t)
	store.Put(t, bucket, "large", []byte(strings.Repeat("line\n", 1000)))
	for i := range 20 {
		store.Put(t, bucket, fmt.Sprint("small", i), []byte("x\n"))
	}
	owners := map[string]int{}
	for index := range 3 {
		_, lanes := connected(t, Config{Client: client, Inputs: []string{"s3://" + bucket}, Split: 500, Shard: shard.Shard{Index: index, Count: 3}})
		for _, l := range lanes {
			owners[l.Name()]++
		}
		if len(lanes) == 0 || len(lanes) == 30 {
			t.Errorf("shard %d has %d lanes", index, len(lanes))
		}
	}
	for name, n := range owners {
		if n != 1 {
			t.Errorf("%s belongs to %d shards", name, n)
		}
	}
	if len(owners) != 30 {
		t.Errorf("%d lanes, want 30", len(owners))
	}
}

func TestAnObjectThatWasReplacedAfterItWasFound(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		client, bucket := store.Client(t), store.Bucket(t)
		for _, split := range []int64{0, 4} {
			store.Put(t, bucket, "key", []byte("before\nbefore\n"))
			source, lanes := connected(t, Config{Client: client, Inputs: []string{"s3://" + bucket + "/key"}, Split: split})
			stored, err := source.Identity(lanes[0].Name())
			if err != nil {
				t.Fatal(err)
			}
			if changes, err := source.Changes(lanes[0].Name(), stored); err != nil || len(changes) > 0 {
				t.Errorf("nothing has changed, and it says %q, %v", changes, err)
			}
			store.Put(t, bucket, "key", []byte("after!\nafter!\n"))
			if texts, err := readAll(t, lanes[0]); !errors.Is(err, consumer.ErrLaneLost) || len(texts) > 0 || !strings.Contains(err.Error(), "was replaced") {
				t.Errorf("%q, %v", texts, err)
			}
			again, lanes := connected(t, Config{Client: client, Inputs: []string{"s3://" + bucket + "/key"}, Split: split})
			if changes, err := again.Changes(lanes[0].Name(), stored); err != nil || len(changes) != 1 || !strings.Contains(changes[0], "was replaced") {
				t.Errorf("it was replaced, and it says %q, %v", changes, err)
			}
		}
	})
}

func TestAnArchivedObjectSaysSo(t *testing.T) {
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	store.Put(t, bucket, "key", []byte("x\n"))
	proxy, err := faultproxy.New(store.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	client := (&s3test.Store{Endpoint: proxy.URL(), AccessKey: store.AccessKey, SecretKey: store.SecretKey}).Client(t)
	_, lanes := connected(t, Config{Client: client, Inputs: []string{"s3://" + bucket + "/key"}})
	proxy.Plan(func(*http.Request) faultproxy.Fault { return faultproxy.Fault{Status: 403, Code: "InvalidObjectState"} })
	if _, err := readAll(t, lanes[0]); !errors.Is(err, s3client.ErrArchived) || !strings.Contains(err.Error(), "restore it first") {
		t.Errorf("error %v", err)
	}
}

func TestAnUnknownContentEncodingIsRefused(t *testing.T) {
	for encoding, ok := range map[string]bool{"": true, "gzip": true, "br": false, "deflate": false} {
		if err := checkEncoding(&s3client.Info{Bucket: "b", Key: "k", Encoding: encoding}); (err == nil) != ok {
			t.Errorf("%q: %v", encoding, err)
		}
	}
}

func TestPollingFindsWhatIsNewAndWhatWasReplaced(t *testing.T) {
	store := s3test.Fake(t)
	bucket := store.Bucket(t)
	store.Put(t, bucket, "in/b", []byte("1\n"))
	source := New(Config{Client: store.Client(t), Inputs: []string{"s3://" + bucket + "/in/"}, Poll: 5 * time.Millisecond})
	ctx := withTimeout(t)
	if err := source.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	defer source.Close(ctx)
	expect := func(key, text string) {
		t.Helper()
		l, err := source.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		texts, _ := readAll(t, l)
		if want := "s3://" + bucket + "/in/" + key; l.Name() != want || !slices.Equal(texts, []string{text}) {
			t.Errorf("%s has %q, want %q of %s", l.Name(), texts, text, want)
		}
		l.Close()
	}
	expect("b", "1")
	store.Put(t, bucket, "in/a", []byte("2\n")) // before the first in the order of keys
	expect("a", "2")
	store.Put(t, bucket, "in/b", []byte("3\n"))
	expect("b", "3")
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if l, err := source.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing is new, and %v came, %v", l, err)
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	client := s3test.Fake(t).Client(t)
	for i, config := range []Config{
		{Inputs: []string{"s3://b/k"}},
		{Client: client},
		{Client: client, Inputs: []string{"/b/k"}},
		{Client: client, Inputs: []string{"s3://b/k"}, Exclude: []string{"k"}},
		{Client: client, Inputs: []string{"s3://b/k"}, Split: -1},
		{Client: client, Inputs: []string{"s3://b/k"}, Records: recordio.Options{Field: "x"}},
		{Client: client, Feed: &fakeQueue{}, Shard: shard.Shard{Index: 0, Count: 2}},
		{Client: client, Feed: &fakeQueue{}, Manifests: []string{"x"}},
	} {
		if err := New(config).Connect(context.Background()); err == nil {
			t.Errorf("settings %d were accepted", i)
		}
	}
}
