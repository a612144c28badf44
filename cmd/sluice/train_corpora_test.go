package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/internal/s3test"
)

// TestCorporaOfS3 trains on texts in a store, one of them compressed, and wants the model that the same files give.
func TestCorporaOfS3(t *testing.T) {
	store := s3test.Fake(t)
	bucket, folder := store.Bucket(t), t.TempDir()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": store.Endpoint, "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": store.AccessKey, "AWS_SECRET_ACCESS_KEY": store.SecretKey,
	} {
		t.Setenv(name, value)
	}
	text := map[string]string{"vocab.yml": "</s>: 0\n<unk>: 1\na: 2\nb: 3\n", "train.s": strings.Repeat("a b\nb a b\n", 20), "train.t": strings.Repeat("b a\na b a\n", 20)}
	for name, content := range text {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	store.Put(t, bucket, "corpus/train.s", []byte(text["train.s"]))
	store.Put(t, bucket, "corpus/train.t.gz", gzipped(t, text["train.t"]))
	var models [2]string
	for i, sets := range []string{
		filepath.Join(folder, "train.s") + ", " + filepath.Join(folder, "train.t"),
		fmt.Sprintf("s3://%s/corpus/train.s, s3://%s/corpus/train.t.gz", bucket, bucket),
	} {
		model := filepath.Join(folder, fmt.Sprintf("model%d.npz", i))
		trainToy(t, folder, model, sets, exitOK)
		content, err := os.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		models[i] = string(content)
	}
	if models[0] != models[1] {
		t.Error("the same texts give another model from a store")
	}
	trainToy(t, folder, filepath.Join(folder, "x.npz"), fmt.Sprintf("s3://%s/missing, s3://%s/corpus/train.t.gz", bucket, bucket), exitInput)
	trainToy(t, folder, filepath.Join(folder, "x.npz"), fmt.Sprintf("s3://%s, s3://%s/corpus/train.t.gz", bucket, bucket), exitInput)
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func trainToy(t *testing.T, folder, model, sets string, want int) {
	t.Helper()
	config := filepath.Join(folder, "train.yml")
	text := fmt.Sprintf("model: %s\ntrain-sets: [%s]\nvocabs: [%s]\ndim-emb: 8\ntransformer-heads: 2\nenc-depth: 1\ndec-depth: 1\n"+
		"transformer-dim-ffn: 16\ncpu-threads: 1\nafter-batches: 3\n", model, sets, filepath.Join(folder, "vocab.yml"))
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	command(t, want, "train", "--config", config, "--quiet")
}
