package handover

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-mt/sluice/internal/s3client"
)

// Pending returns the folders of translations that are not complete, in the order of their names.
func (s *Store) Pending(ctx context.Context) ([]string, error) {
	var folders, pending []string
	err := s.Client.List(ctx, s.Bucket, s.Prefix, "", func(o *s3client.Info) (bool, error) {
		name := strings.TrimPrefix(o.Key, s.Prefix)
		if folder, file, _ := strings.Cut(name, "/"); file == jobName {
			folders = append(folders, s.Prefix+folder+"/")
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		handed, err := s.count(ctx, folder+"in/")
		if err != nil {
			return nil, err
		}
		done, err := s.count(ctx, folder+"out/")
		if err != nil {
			return nil, err
		}
		if done < handed {
			pending = append(pending, folder)
		}
	}
	return pending, nil
}

// Fetch brings the files and the job of a translation below a folder of this machine, unless they are there, and returns the
// path of the folder with the job in it.
func (s *Store) Fetch(ctx context.Context, folder, to string) (string, error) {
	local := filepath.Join(to, filepath.Base(folder))
	if err := os.MkdirAll(filepath.Join(local, "files"), 0o777); err != nil {
		return "", err
	}
	err := s.Client.List(ctx, s.Bucket, folder+"files/", "", func(o *s3client.Info) (bool, error) {
		name := strings.TrimPrefix(o.Key, folder)
		if !filepath.IsLocal(name) {
			return false, fmt.Errorf("%s is no file of a translation", o.URI())
		}
		return true, s.fetch(ctx, o, filepath.Join(local, filepath.FromSlash(name)))
	})
	if err != nil {
		return "", err
	}
	job, err := s.Client.Head(ctx, s.Bucket, folder+jobName)
	if err != nil {
		return "", err
	}
	return local, s.fetch(ctx, job, filepath.Join(local, jobName))
}

// fetch brings an object, unless there is a file of its size: names stand for contents.
func (s *Store) fetch(ctx context.Context, o *s3client.Info, path string) error {
	if found, err := os.Stat(path); err == nil && found.Size() == o.Size {
		return nil
	}
	r, err := s.Client.Open(ctx, o.Bucket, o.Key, o.ETag)
	if err != nil {
		return err
	}
	defer r.Close()
	temporary, err := os.CreateTemp(filepath.Dir(path), "fetching")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = io.Copy(temporary, r)
	if closing := temporary.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("fetching %s: %w", o.URI(), err)
	}
	return os.Rename(temporary.Name(), path)
}
