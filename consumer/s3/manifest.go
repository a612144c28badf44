package s3

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-mt/sluice/internal/s3client"
)

// What a manifest may have.
const (
	mostManifestLine = 1 << 20
	mostManifestJSON = 256 << 20
)

// ParseManifest reads a list of objects. It is either text, one name such as s3://bucket/key a line, in which empty
// lines are passed over, or the JSON of Amazon Redshift's manifests, {"entries": [{"url": "s3://bucket/key"}, …]}.
// Names stand as they are: nothing in them is escaped.
func ParseManifest(in io.Reader) ([]string, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	for {
		first, err := buffered.ReadByte()
		if err == io.EOF {
			return nil, errors.New("it is empty")
		}
		if err != nil {
			return nil, err
		}
		if first == ' ' || first == '\n' || first == '\r' || first == '\t' {
			continue
		}
		if err := buffered.UnreadByte(); err != nil {
			return nil, err
		}
		if first == '{' {
			return parseEntries(buffered)
		}
		return parseNames(buffered)
	}
}

func parseNames(in io.Reader) ([]string, error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, mostManifestLine)
	var names []string
	number := 1
	for ; scanner.Scan(); number++ {
		name := string(bytes.TrimSuffix(bytes.TrimPrefix(scanner.Bytes(), []byte("\xef\xbb\xbf")), []byte{'\r'}))
		if name == "" {
			continue
		}
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		names = append(names, name)
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d has more than %d bytes, but a line is the name of one object", number, mostManifestLine)
	} else if err != nil {
		return nil, fmt.Errorf("line %d: %w", number, err)
	}
	return names, nil
}

func parseEntries(in io.Reader) ([]string, error) {
	var manifest struct {
		Entries []struct {
			URL string `json:"url"`
		} `json:"entries"`
	}
	limited := &io.LimitedReader{R: in, N: mostManifestJSON}
	if err := json.NewDecoder(limited).Decode(&manifest); err != nil {
		if limited.N == 0 {
			return nil, fmt.Errorf("it has more than %d MiB: list the names one a line", mostManifestJSON>>20)
		}
		return nil, err
	}
	if len(manifest.Entries) == 0 {
		return nil, errors.New("it has no entries")
	}
	names := make([]string, len(manifest.Entries))
	for i, entry := range manifest.Entries {
		if err := checkName(entry.URL); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		names[i] = entry.URL
	}
	return names, nil
}

func checkName(name string) error {
	_, key, err := s3client.ParseURI(name)
	if err == nil && key == "" {
		err = fmt.Errorf("%q names a bucket, not an object", name)
	}
	return err
}
