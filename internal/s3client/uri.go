package s3client

import (
	"fmt"
	"strings"
)

const scheme = "s3://"

// URI returns the name of an object, such as s3://bucket/key. The key stands as it is: nothing is escaped.
func URI(bucket, key string) string { return scheme + bucket + "/" + key }

// ParseURI takes the name of an object, or of a bucket, apart.
func ParseURI(uri string) (bucket, key string, err error) {
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok {
		return "", "", fmt.Errorf("%q is not of the form s3://bucket/key", uri)
	}
	bucket, key, _ = strings.Cut(rest, "/")
	if bucket == "" || strings.ContainsAny(bucket, " \t\r\n?*") {
		return "", "", fmt.Errorf("%q names no bucket: it must be of the form s3://bucket/key", uri)
	}
	if len(key) > maxKey {
		return "", "", fmt.Errorf("a key of %d bytes is longer than the %d that S3 allows: %.40s…", len(key), maxKey, key)
	}
	return bucket, key, nil
}

const maxKey = 1024

// escapePath escapes what a path of a URL cannot hold, as the header that names the source of a copy wants it.
func escapePath(path string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/"
	var text strings.Builder
	for i := range len(path) {
		if strings.IndexByte(plain, path[i]) >= 0 {
			text.WriteByte(path[i])
		} else {
			fmt.Fprintf(&text, "%%%02X", path[i])
		}
	}
	return text.String()
}
