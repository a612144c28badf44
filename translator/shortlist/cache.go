package shortlist

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/internal/binread"
	"github.com/sluice-mt/sluice/internal/compress"
)

// cacheVersion is part of the name of cached files. Another way to choose from the same text needs another one.
const cacheVersion = "1"

// OpenCached is Open, but it keeps the binary form of a text file in a hidden file beside it, and reads that the next
// time, which takes a hundredth of the time. Its name holds a hash of the text file's content, the parameters and the
// vocabularies, so that a file made from anything else is never found. Where the folder cannot be written, or what is
// found there cannot be read, nothing is lost but time.
func OpenCached(path string, options Options) (*Shortlist, error) {
	list, err := openCached(path, options)
	if err != nil {
		return nil, fmt.Errorf("shortlist %s: %w", path, err)
	}
	return list, nil
}

func openCached(path string, options Options) (*Shortlist, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || options.Source == nil || options.Target == nil {
		return Read(file, options)
	}
	isText, err := holdsText(io.NewSectionReader(file, 0, info.Size()))
	if err != nil || !isText {
		return Read(file, options)
	}
	content := sha256.New()
	if _, err := io.Copy(content, io.NewSectionReader(file, 0, info.Size())); err != nil {
		return nil, err
	}
	if list, ok := readCached(cacheName(path, content.Sum(nil), options), options); ok {
		return list, nil
	}
	list, err := readAndCache(file, path, options)
	if err == nil {
		removeStale(path, info.ModTime())
	}
	return list, err
}

// readAndCache hashes once more, what it really reads: the file may have changed since.
func readAndCache(file io.Reader, path string, options Options) (*Shortlist, error) {
	data, err := binread.ReadAll(file, maxBytes)
	if err != nil {
		return nil, err
	}
	list, err := Read(bytes.NewReader(data), options)
	if err == nil && !(options.First == 0 && list.lastIsEmpty()) { // else the binary form would add a candidate
		content := sha256.Sum256(data)
		writeCached(cacheName(path, content[:], options), list.encode())
	}
	return list, err
}

// holdsText tells the text form, which may be compressed, from the binary one.
func holdsText(r io.Reader) (bool, error) {
	plain, err := compress.NewReader(r)
	if err != nil {
		return false, err
	}
	defer plain.Close()
	head := make([]byte, 8)
	n, err := io.ReadFull(plain, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return refuse(head[:n]) == nil && !isBinary(head[:n]), err
}

// cacheName takes the hash of the text file's bytes.
func cacheName(path string, content []byte, options Options) string {
	key := sha256.Sum256([]byte(strings.Join([]string{
		cacheVersion, hex.EncodeToString(content),
		fmt.Sprintf("%d %d %v", options.First, options.Best, options.Threshold),
		fmt.Sprintf("%q %q", options.Source.Fingerprint(), options.Target.Fingerprint()),
	}, "\n")))
	folder, name := filepath.Split(path)
	return filepath.Join(folder, fmt.Sprintf(".%s.%x.shortlist", name, key[:12]))
}

// removeStale removes what was kept of the text file as it was before it was changed: nothing will ever look for it again.
// What is younger than the text was made from it, with other parameters or for other vocabularies, and stays.
func removeStale(path string, changed time.Time) {
	folder, name := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(folder))
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && isCacheOf(entry.Name(), name) && info.ModTime().Before(changed) {
			os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
}

// isCacheOf says whether cacheName gives such a name for a text file of that name, or writeCached one for its beginnings.
func isCacheOf(entry, name string) bool {
	key, ok := strings.CutPrefix(entry, "."+name+".")
	if !ok || len(key) < 24 {
		return false
	}
	_, err := hex.DecodeString(key[:24])
	rest := key[24:]
	return err == nil && (rest == ".shortlist" || strings.HasPrefix(rest, ".shortlist.") && strings.HasSuffix(rest, ".tmp"))
}

func readCached(path string, options Options) (*Shortlist, bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil, false
	}
	data, err := os.ReadFile(path)
	if err != nil || !isBinary(data) {
		return nil, false
	}
	options.SkipChecksum = false
	list, err := decode(data, options)
	if err != nil || list.params.First != options.First || list.params.Best != options.Best {
		return nil, false
	}
	list.params.Threshold = options.Threshold
	return list, true
}

// writeCached puts the file in its place at once, so that no other process ever reads half of it. Errors are of no
// consequence: the next one to come reads the text again.
func writeCached(path string, data []byte) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
}
