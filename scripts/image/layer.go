package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A blob is content that goes by its hash.
type blob struct {
	digest string // sha256:…
	data   []byte
}

func newBlob(data []byte) blob {
	sum := sha256.Sum256(data)
	return blob{"sha256:" + hex.EncodeToString(sum[:]), data}
}

// A layer is a compressed tar file.
type layer struct {
	blob
	diffID string // digest of what is in it, not compressed
}

// makeLayer packs a file or a folder, to lie at a path in the image. Owner, times and order of entries are fixed; of the
// mode only the right to execute is kept.
func makeLayer(from, to string) (layer, error) {
	var plain bytes.Buffer
	out := tar.NewWriter(&plain)
	if err := parents(out, to); err != nil {
		return layer{}, err
	}
	err := filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		return addEntry(out, name, path.Join(to, filepath.ToSlash(below)))
	})
	if err != nil {
		return layer{}, err
	}
	if err := out.Close(); err != nil {
		return layer{}, err
	}
	var packed bytes.Buffer
	compressor, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return layer{}, err
	}
	if _, err := compressor.Write(plain.Bytes()); err != nil {
		return layer{}, err
	}
	if err := compressor.Close(); err != nil {
		return layer{}, err
	}
	return layer{newBlob(packed.Bytes()), newBlob(plain.Bytes()).digest}, nil
}

// parents adds the folders that lead to a path.
func parents(out *tar.Writer, to string) error {
	elements := strings.Split(strings.Trim(path.Dir(to), "/"), "/")
	for i, element := range elements {
		if element == "" {
			continue
		}
		if err := out.WriteHeader(folder(path.Join(elements[:i+1]...))); err != nil {
			return err
		}
	}
	return nil
}

func folder(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: strings.Trim(name, "/") + "/", Mode: 0o755, Format: tar.FormatUSTAR}
}

func addEntry(out *tar.Writer, name, to string) error {
	info, err := os.Stat(name) // what a link points to, not the link
	if err != nil {
		return err
	}
	if info.IsDir() {
		return out.WriteHeader(folder(to))
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(to, "/"), Size: info.Size(), Mode: mode, Format: tar.FormatUSTAR}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(out, file)
	return err
}
