// Package handover has translations of a recipe made on other machines: it puts a text in pieces into a bucket of S3, with the
// models and a job for sluice run that translates the pieces, waits until that has been done, and puts the results together.
//
// # What lies in the bucket
//
// Each translation has a folder, named after everything that its result depends on, so that an equal one, after an interruption
// for example, finds what was done:
//
//	files/N-NAME    models, vocabularies and shortlist
//	in/NNNNNN.txt   the text, Lines lines an object
//	job.yml         the job, which reads in/ and writes out/; it is written last, so that whoever sees it sees all the rest
//	out/NNNNNN.txt  the translations
//
// Any number of workers may run the job: sluice run shares objects out among them, and an output appears when it is complete.
package handover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/internal/s3client"
	"github.com/sluice-mt/sluice/train/recipe"
)

// A Store is where translations are handed over.
type Store struct {
	Client         *s3client.Client
	Bucket, Prefix string        // Prefix is "" or ends with a slash
	Endpoint       string        // of a store other than Amazon's, for the jobs; workers may name another in AWS_ENDPOINT_URL
	Lines          int           // of an object
	Poll           time.Duration // between two looks at what is done
	Logger         *slog.Logger
}

// A handed is a translation in the hands of others.
type handed struct {
	*Store
	task   recipe.Translation
	folder string   // in the bucket, with a slash behind it
	files  []string // on this machine; those in the bucket have their numbers
	lines  int
}

// Translate is that of recipe.Engine: the output appears when it is complete, and an equal call continues what was interrupted.
// Nothing is known about the time that workers spend.
func (s *Store) Translate(ctx context.Context, t recipe.Translation) (recipe.Throughput, error) {
	h := &handed{Store: s, task: t, files: append(append([]string(nil), t.Models...), t.Vocabularies...)}
	if t.Shortlist != "" {
		h.files = append(h.files, t.Shortlist)
	}
	err := h.name()
	if err == nil {
		err = h.hand(ctx)
	}
	if err == nil {
		err = h.wait(ctx)
	}
	if err == nil {
		err = h.collect(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", recipe.ErrInterrupted, ctx.Err())
	}
	return recipe.Throughput{}, err
}

// name finds the folder, and how many lines there are.
func (h *handed) name() error {
	digest := sha256.New()
	what := struct {
		Options any
		NBest   bool
		Models  int
		Listed  bool
		Lines   int
	}{h.task.Options, h.task.NBest, len(h.task.Models), h.task.Shortlist != "", h.Lines}
	if err := json.NewEncoder(digest).Encode(what); err != nil {
		return err
	}
	for _, file := range h.files {
		if err := add(digest, file); err != nil {
			return err
		}
	}
	err := h.eachLine(func(line string) error {
		h.lines++
		_, err := io.WriteString(digest, line+"\n")
		return err
	})
	h.folder = h.Prefix + hex.EncodeToString(digest.Sum(nil))[:16] + "/"
	return err
}

// add adds the content of a file, and where it ends.
func add(digest hash.Hash, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	n, err := io.Copy(digest, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	fmt.Fprintf(digest, "\n%d %s\n", n, filepath.Base(path))
	return nil
}

// eachLine reads the text, or its side of a corpus.
func (h *handed) eachLine(visit func(line string) error) error {
	number := 0
	for line, err := range recipe.Lines(h.task.Input) {
		if err != nil {
			return err
		}
		number++
		if h.task.Column > 0 {
			fields := strings.Split(line, "\t")
			if len(fields) < h.task.Column {
				return fmt.Errorf("%w: %s, line %d has no column %d", recipe.ErrFormat, h.task.Input, number, h.task.Column)
			}
			line = fields[h.task.Column-1]
		}
		if err := visit(line); err != nil {
			return err
		}
	}
	return nil
}

// parts is how many objects the text makes.
func (h *handed) parts() int { return (h.lines + h.Lines - 1) / h.Lines }

// linesOf is how many lines a part has.
func (h *handed) linesOf(part int) int { return min(h.Lines, h.lines-part*h.Lines) }

func partName(part int) string { return fmt.Sprintf("%06d.txt", part) }

func (h *handed) fileName(number int) string {
	return fmt.Sprintf("files/%d-%s", number, filepath.Base(h.files[number]))
}

// hand puts everything into the bucket, unless it is there.
func (h *handed) hand(ctx context.Context) error {
	if there, err := h.has(ctx, h.folder+jobName); there || err != nil {
		return err
	}
	for i, file := range h.files {
		content, err := os.ReadFile(file)
		if err == nil {
			err = h.put(ctx, h.fileName(i), content)
		}
		if err != nil {
			return err
		}
	}
	if err := h.handText(ctx); err != nil {
		return err
	}
	job, err := h.job()
	if err != nil {
		return err
	}
	h.Logger.Info("handed over", "lines", h.lines, "objects", h.parts(), "job", s3client.URI(h.Bucket, h.folder+jobName),
		"workers", "sluice train recipe work "+s3client.URI(h.Bucket, h.Prefix))
	return h.put(ctx, jobName, job)
}

func (h *handed) handText(ctx context.Context) error {
	var text strings.Builder
	lines, part := 0, 0
	flush := func() error {
		err := h.put(ctx, "in/"+partName(part), []byte(text.String()))
		text.Reset()
		lines = 0
		part++
		return err
	}
	err := h.eachLine(func(line string) error {
		text.WriteString(line + "\n")
		if lines++; lines < h.Lines {
			return nil
		}
		return flush()
	})
	if err == nil && lines > 0 {
		err = flush()
	}
	return err
}

func (h *handed) put(ctx context.Context, name string, content []byte) error {
	_, err := h.Client.Put(ctx, h.Bucket, h.folder+name, content, s3client.Condition{}, nil)
	return err
}

func (s *Store) has(ctx context.Context, key string) (bool, error) {
	_, err := s.Client.Head(ctx, s.Bucket, key)
	if errors.Is(err, s3client.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// wait waits until all outputs are there.
func (h *handed) wait(ctx context.Context) error {
	for {
		done, err := h.count(ctx, h.folder+"out/")
		if err != nil {
			return err
		}
		if h.task.Progress != nil {
			h.task.Progress(float64(done) / float64(max(h.parts(), 1)))
		}
		if done >= h.parts() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(h.Poll):
		}
	}
}

// count counts the pieces of a text below a prefix. What else workers keep there does not count.
func (s *Store) count(ctx context.Context, prefix string) (n int, err error) {
	err = s.Client.List(ctx, s.Bucket, prefix, "", func(o *s3client.Info) (bool, error) {
		if matched, _ := path.Match("[0-9][0-9][0-9][0-9][0-9][0-9]*.txt", strings.TrimPrefix(o.Key, prefix)); matched {
			n++
		}
		return true, nil
	})
	return n, err
}
