package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	source "github.com/sluice-mt/sluice/consumer/s3"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/internal/s3test"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/producer"
)

// fixture is a sink on a fake store, and what its lanes are made of.
type fixture struct {
	store  *s3test.Store
	bucket string
	config Config
	input  fakeInput
}

// fakeInput recognises inputs by a word.
type fakeInput struct{ word *string }

func (f fakeInput) Identity(string) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"word": *f.word})
}

func (f fakeInput) Changes(_ string, stored json.RawMessage) ([]string, error) {
	var old map[string]string
	if err := json.Unmarshal(stored, &old); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("the word was %s and is now %s", old["word"], *f.word)}, nil
}

func newFixture(t testing.TB) *fixture {
	store := s3test.Fake(t)
	word := "one"
	f := &fixture{store: store, bucket: store.Bucket(t), input: fakeInput{&word}}
	f.config = Config{
		Client: store.Client(t), Job: "test", Output: "s3://" + f.bucket + "/out/", Encoder: recordio.NewTextEncoder(), Input: f.input,
		MadeWith: map[string]string{"model": "m1"}, Key: func(lane string) (string, error) { return lane, nil },
	}
	return f
}

func (f *fixture) sink(t testing.TB) *Sink {
	t.Helper()
	s := New(f.config)
	if err := s.Connect(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

// run returns the outputs of a lane from one record to another.
func run(from, to int) []job.Output {
	var list []job.Output
	for i := from; i < to; i++ {
		text := fmt.Sprint("record ", i)
		list = append(list, job.Output{Record: job.Record{Seq: int64(i), Text: text, End: job.Position{Record: int64(i + 1), Offset: int64(i + 1)}},
			Result: job.Result{Hypotheses: []job.Hypothesis{{Text: text}}}})
	}
	return list
}

func TestWhatIsThereIsPassedOverOnlyIfItWouldBeTheSame(t *testing.T) {
	f := newFixture(t)
	if err := writeOne(withTimeout(t), f.sink(t), 3); err != nil {
		t.Fatal(err)
	}
	expect := func(what string, is error, says ...string) {
		t.Helper()
		_, _, err := f.sink(t).Open(withTimeout(t), "lane.txt")
		var changed *producer.ChangedError
		if is != nil && !errors.Is(err, is) || is == nil && !errors.As(err, &changed) {
			t.Errorf("%s: %v", what, err)
		}
		for _, part := range says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %q", what, err, part)
			}
		}
	}
	expect("the same", producer.ErrDone)
	*f.input.word = "two"
	expect("another input", nil, "the word was one and is now two", "overwrite")
	f.config.MadeWith = map[string]string{"model": strings.Repeat("m2 ", 40), "beam": "4"}
	expect("other options", nil, "the word was one", "model was m1 and is now sha256:", "beam was not set and is now 4")
	f.store.Put(t, f.bucket, "out/lane.txt", []byte("foreign"))
	expect("an object that is not ours", ErrExists, "do not say that sluice has made it")
}

func TestOverwrite(t *testing.T) {
	f := newFixture(t)
	f.store.Put(t, f.bucket, "out/lane.txt", []byte("foreign"))
	f.config.Overwrite = true
	sink := f.sink(t)
	if err := writeOne(withTimeout(t), sink, 3); err != nil {
		t.Fatal(err)
	}
	if data, info := f.store.Get(t, f.bucket, "out/lane.txt"); len(linesOf(t, data)) != 3 || info.Metadata[metaRecords] != "3" {
		t.Errorf("%q, %v", data, info.Metadata)
	}
	w, _, err := sink.Open(withTimeout(t), "lane.txt")
	if err != nil {
		t.Fatal(err)
	}
	f.store.Put(t, f.bucket, "out/lane.txt", []byte("replaced meanwhile"))
	if err := w.Finish(withTimeout(t)); !errors.Is(err, ErrExists) {
		t.Errorf("what came meanwhile was overwritten: %v", err)
	}
	w.Close()
}

// An object that appears after the lane was opened is never written over.
func TestAnOutputThatAppearsMeanwhile(t *testing.T) {
	for name, appears := range map[string]func(*fixture){
		"other options": func(f *fixture) {
			other := f.config
			other.MadeWith = map[string]string{"model": "m9"}
			if err := writeOne(context.Background(), New(other).checked(t), 5); err != nil {
				t.Fatal(err)
			}
		},
		"not ours": func(f *fixture) { f.store.Put(t, f.bucket, "out/lane.txt", []byte("foreign")) },
	} {
		for _, n := range []int{3, 100_000} { // in one request, and in parts
			f := newFixture(t)
			f.config.PartSize = s3client.MinPart
			w, _, err := f.sink(t).Open(withTimeout(t), "lane.txt")
			if err != nil {
				t.Fatal(err)
			}
			appears(f)
			before, _ := f.store.Get(t, f.bucket, "out/lane.txt")
			long := run(0, n)
			for i := range long {
				long[i].Result.Hypotheses[0].Text += strings.Repeat(" x", 30)
			}
			err = errors.Join(w.Write(withTimeout(t), long), w.Finish(withTimeout(t)))
			var changed *producer.ChangedError
			if !errors.As(err, &changed) && !errors.Is(err, ErrExists) {
				t.Errorf("%s: %v", name, err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if after, _ := f.store.Get(t, f.bucket, "out/lane.txt"); !bytes.Equal(before, after) {
				t.Errorf("%s: it was overwritten", name)
			}
			if keys := f.store.Keys(t, f.bucket, ""); len(keys) != 1 || f.store.Uploads(t, f.bucket, "") > 0 {
				t.Errorf("%s: left behind: %q, %d uploads", name, keys, f.store.Uploads(t, f.bucket, ""))
			}
		}
	}
}

// checked returns the sink as if it had been connected.
func (s *Sink) checked(t testing.TB) *Sink {
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAStoreThatIgnoresConditionsIsRefused(t *testing.T) {
	f := newFixture(t)
	careless := s3test.Careless(t)
	f.config.Client, f.config.Output = careless.Client(t), "s3://"+careless.Bucket(t)+"/out/"
	if err := New(f.config).Connect(withTimeout(t)); !errors.Is(err, s3client.ErrNoConditions) {
		t.Errorf("error %v", err)
	}
	f.config.AtLeastOnce = true
	if err := writeOne(withTimeout(t), f.sink(t), 3); err != nil {
		t.Errorf("at least once: %v", err)
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	good := newFixture(t).config
	for i, change := range []func(*Config){
		func(c *Config) { c.Client = nil },
		func(c *Config) { c.Job = "" },
		func(c *Config) { c.Job = "a/b" },
		func(c *Config) { c.Output = "s3://b/out" },
		func(c *Config) { c.Output = "/out/" },
		func(c *Config) { c.PartSize = 1 << 20 },
		func(c *Config) { c.DeadLetters = c.Output },
		func(c *Config) { c.Chain, c.Overwrite = &Chain{}, true },
		func(c *Config) {
			c.MadeWith = map[string]string{"x": strings.Repeat("ü", 30), strings.Repeat("y", 900): ""}
		},
	} {
		bad := good
		change(&bad)
		if err := New(bad).Connect(withTimeout(t)); err == nil {
			t.Errorf("change %d was accepted", i)
		}
	}
	sink := New(good).checked(t)
	sink.config.Key = func(string) (string, error) { return strings.Repeat("k", 1001), nil }
	if _, _, err := sink.Open(withTimeout(t), "lane"); err == nil {
		t.Error("a key that is too long was accepted")
	}
}

func TestMetadataComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.String()
		identity, _ := json.Marshal(map[string]string{"object": text.Draw(r, "object")})
		m := &made{writer: s3client.NewToken(), job: "j", input: identity, records: rapid.Int64Min(-1).Draw(r, "records"),
			madeWith: producer.ShortMadeWith(rapid.MapOfN(rapid.StringN(0, 5, 20), text, 0, 3).Draw(r, "made with"))}
		if rapid.Bool().Draw(r, "chain") {
			m.end = &job.Position{Record: rapid.Int64Min(0).Draw(r, "record"), Offset: rapid.Int64Min(0).Draw(r, "offset")}
		}
		data, err := m.encode()
		if err != nil {
			r.Skip("too long")
		}
		size := 0
		for name, value := range data {
			size += len(name) + len(value)
			if strings.Trim(value, " ") != value || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
				r.Fatalf("%s: %q cannot be in a header", name, value)
			}
		}
		if size > 2048 {
			r.Fatalf("%d bytes of metadata", size)
		}
		got, err := parseMade(&s3client.Info{Metadata: data})
		if err != nil {
			r.Fatal(err)
		}
		if got.writer != m.writer || got.records != m.records || len(producer.MadeWithChanges(got.madeWith, m.madeWith)) > 0 || storedInput(m.input) != string(got.input) {
			r.Fatalf("got %+v, want %+v", got, m)
		}
		if (got.end == nil) != (m.end == nil) || got.end != nil && *got.end != *m.end {
			r.Fatalf("got %+v, want %+v", got.end, m.end)
		}
	})
}

func FuzzParseMade(f *testing.F) {
	f.Add("w", `{"a":"b"}`, "3", `{"record":1,"input":0,"offset":2}`)
	f.Fuzz(func(t *testing.T, writer, madeWith, records, end string) {
		m, err := parseMade(&s3client.Info{Metadata: map[string]string{metaWriter: writer, metaMadeWith: madeWith, metaRecords: records, metaEnd: end}})
		if err == nil && m.end != nil && (m.end.Offset < 0 || m.end.Record < 0) {
			t.Errorf("%+v", m.end)
		}
	})
}

// Another job below the same prefix has uploads of its own, and this job has one that is young.
func TestOnlyOwnAbandonedUploadsAreDropped(t *testing.T) {
	f := newFixture(t)
	f.config.PartSize = s3client.MinPart
	begin := func(name string) producer.Writer {
		config := f.config
		config.Job = name
		w, _, err := New(config).checked(t).Open(withTimeout(t), "lane of "+name)
		if err != nil {
			t.Fatal(err)
		}
		long := run(0, 60_000)
		for i := range long {
			long[i].Result.Hypotheses[0].Text = strings.Repeat("x", 100)
		}
		if err := w.Write(withTimeout(t), long); err != nil {
			t.Fatal(err)
		}
		return w
	}
	own, foreign := begin("test"), begin("other")
	client := f.store.Client(t)
	if _, err := client.BeginUpload(withTimeout(t), f.bucket, "out/lane of test", nil); err != nil { // of nobody that is known
		t.Fatal(err)
	}
	sink := New(f.config).checked(t)
	if err := sink.Clean(withTimeout(t), time.Hour); err != nil || f.store.Uploads(t, f.bucket, "") != 3 {
		t.Errorf("%d uploads are left of 3 young ones, %v", f.store.Uploads(t, f.bucket, ""), err)
	}
	if err := sink.Clean(withTimeout(t), 0); err != nil || f.store.Uploads(t, f.bucket, "") != 2 {
		t.Errorf("%d uploads are left, want those of another job and of nobody, %v", f.store.Uploads(t, f.bucket, ""), err)
	}
	if err := own.Finish(withTimeout(t)); err == nil {
		t.Error("an upload that was dropped was completed")
	}
	own.Close()
	if err := errors.Join(foreign.Finish(withTimeout(t)), foreign.Close()); err != nil {
		t.Errorf("the other job: %v", err)
	}
}

func TestAssembledOutputs(t *testing.T) {
	f := newFixture(t)
	f.config.Assemble = func(_ context.Context, lane string, spool io.Reader, out io.Writer) error {
		data, err := io.ReadAll(spool)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s has %d lines\n", lane, bytes.Count(data, []byte("\n")))
		}
		return err
	}
	if err := writeOne(withTimeout(t), f.sink(t), 30); err != nil {
		t.Fatal(err)
	}
	if data, _ := f.store.Get(t, f.bucket, "out/lane.txt"); string(data) != "lane.txt has 30 lines\n" {
		t.Errorf("%q", data)
	}
}

// A Parquet object comes out with all its columns and the translations beside them.
func TestParquetFromObjectToObject(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		type row struct {
			ID          int    `parquet:"id"`
			Text        string `parquet:"text"`
			Translation string `parquet:"translation,optional"`
		}
		rows := make([]row, 3000)
		for i := range rows {
			rows[i] = row{ID: i, Text: fmt.Sprint("text ", i)}
		}
		var data bytes.Buffer
		if err := parquet.Write(&data, rows, parquet.MaxRowsPerRowGroup(700)); err != nil {
			t.Fatal(err)
		}
		bucket, client := store.Bucket(t), store.Client(t)
		store.Put(t, bucket, "in/a.parquet", data.Bytes())
		options := recordio.Options{Format: recordio.Parquet}
		for range 2 { // the second has nothing to do
			from := source.New(source.Config{Client: client, Inputs: []string{"s3://" + bucket + "/in/"}, Records: options})
			to := New(Config{Client: client, Job: "test", Output: "s3://" + bucket + "/out/", Key: from.Relative, Encoder: recordio.NewEncoder(options), Input: from,
				Assemble: recordio.AssembleParquetFrom(options, from.Parquet)})
			if err := pipeline.New(pipeline.Config{}, from, to, capitals{}).Run(withTimeout(t)); err != nil {
				t.Fatal(err)
			}
		}
		out, _ := store.Get(t, bucket, "out/a.parquet")
		got, err := parquet.Read[row](bytes.NewReader(out), int64(len(out)))
		if err != nil || len(got) != len(rows) {
			t.Fatalf("%d rows, %v", len(got), err)
		}
		for i, row := range got {
			if row.ID != i || row.Text != rows[i].Text || row.Translation != strings.ToUpper(row.Text) {
				t.Fatalf("row %d is %+v", i, row)
			}
		}
	})
}

// A range that is written anew after others have joined all of them leaves nothing behind.
func TestARangeThatComesLate(t *testing.T) {
	f := newFixture(t)
	f.config.DeadLetters = "s3://" + f.bucket + "/dead/"
	f.config.Key = func(string) (string, error) { return "whole.txt", nil }
	f.config.Range = func(lane string) (Range, error) {
		identity, err := f.input.Identity(lane)
		return Range{Whole: "whole", Index: int(lane[0] - '0'), Count: 2, Identity: identity}, err
	}
	slow, quick := f.sink(t), f.sink(t)
	write := func(sink *Sink, lane string, from, to int) producer.Writer {
		w, _, err := sink.Open(withTimeout(t), lane)
		if err != nil {
			t.Fatal(err)
		}
		outputs := run(from, to)
		outputs[1].Result.Err = errors.New("poison")
		if err := w.Write(withTimeout(t), outputs); err != nil {
			t.Fatal(err)
		}
		return w
	}
	finish := func(w producer.Writer) {
		if err := errors.Join(w.Finish(withTimeout(t)), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	late := write(slow, "0", 0, 5)
	finish(write(quick, "0", 0, 5))
	finish(write(quick, "1", 5, 8))
	finish(late)
	for range 2 {
		if _, _, err := f.sink(t).Open(withTimeout(t), "1"); !errors.Is(err, producer.ErrDone) {
			t.Errorf("Open: %v", err)
		}
	}
	data, _ := f.store.Get(t, f.bucket, "out/whole.txt")
	if got := linesOf(t, data); !slices.Equal(got, []string{"record 0", "record 2", "record 3", "record 4", "record 5", "record 7"}) {
		t.Errorf("%q", got)
	}
	keys := f.store.Keys(t, f.bucket, "")
	if len(keys) != 2 || !strings.HasPrefix(keys[0], "dead/whole.txt.") {
		t.Fatalf("%q", keys)
	}
	if letters, _ := f.store.Get(t, f.bucket, keys[0]); len(linesOf(t, letters)) != 2 {
		t.Errorf("%s", letters)
	}
}

// Ranges of an object with parts large enough are joined without being read, and those between by reading.
func TestRangesAreJoinedByCopying(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		bucket := store.Bucket(t)
		line := strings.Repeat("x", 999) + "\n"
		store.Put(t, bucket, "in/large.txt", []byte(strings.Repeat(line, 20_000)))
		c := copyJob{Endpoint: store.Endpoint, Bucket: bucket, Split: 5_300_000, PartSize: s3client.MinPart, Attempts: 3}
		if err := c.run(withTimeout(t)); err != nil {
			t.Fatal(err)
		}
		if data, _ := store.Get(t, bucket, "out/large.txt"); string(data) != strings.ToUpper(strings.Repeat(line, 20_000)) {
			t.Errorf("%d bytes, want 20 MB, or other ones", len(data))
		}
		if keys := store.Keys(t, bucket, ""); len(keys) != 2 || store.Uploads(t, bucket, "") > 0 {
			t.Errorf("left behind: %q", keys)
		}
	})
}

// All keys that S3 allows come through from source to sink.
func TestOddKeysComeThrough(t *testing.T) {
	stores(t, func(t *testing.T, store *s3test.Store) {
		bucket := store.Bucket(t)
		names := []string{"a b+c.txt", "ü/日本 語.txt", "%2F%20.txt", "a&b=c?d#e.txt", "~tilde'quote\"x.txt", "x;y:z@w.txt", "trailing ", "[1/2]", "double  space"}
		for _, name := range names {
			store.Put(t, bucket, "in/"+name, []byte(strings.Repeat(name+"\n", 3)))
		}
		c := copyJob{Endpoint: store.Endpoint, Bucket: bucket, Attempts: 3}
		for range 2 {
			if err := c.run(withTimeout(t)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			if data, _ := store.Get(t, bucket, "out/"+name); string(data) != strings.ToUpper(strings.Repeat(name+"\n", 3)) {
				t.Errorf("%q has %q", name, data)
			}
		}
		if keys := store.Keys(t, bucket, "out/"); len(keys) != len(names) {
			t.Errorf("%q", keys)
		}
	})
}
