package kafkaclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// Compression is how batches are compressed.
type Compression int

// The codecs, with the numbers that the protocol gives them.
const (
	None Compression = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var compressionNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the name, as producers are configured with.
func (c Compression) String() string { return compressionNames[c] }

// ParseCompression returns the codec of that name; "" is None.
func ParseCompression(name string) (Compression, error) {
	if name == "" {
		return None, nil
	}
	for c, known := range compressionNames {
		if name == known {
			return Compression(c), nil
		}
	}
	return None, fmt.Errorf("unknown compression %q: it is none, gzip, snappy, lz4 or zstd", name)
}

// mostWindow is how far back a zstd frame may refer; brokers and clients stay far below.
const mostWindow = 32 << 20

// An Inflater undoes the compression of batches. It is used by one goroutine at a time; its zero value is ready.
type Inflater struct {
	zstd *zstd.Decoder
	out  bytes.Buffer
}

// mostKept is how much room an Inflater keeps for the next batch.
const mostKept = 4 << 20

// inflate returns what was compressed. It is valid until the next call. The size that a stream claims is not believed.
func (i *Inflater) inflate(codec int, data []byte, limit int) ([]byte, error) {
	if codec == int(None) {
		if len(data) > limit {
			return nil, ErrBatchTooLarge
		}
		return data, nil
	}
	if codec >= len(compressionNames) {
		return nil, fmt.Errorf("codec %d is not known", codec)
	}
	reader, done, err := i.reader(Compression(codec), data)
	if err != nil {
		return nil, err
	}
	defer done()
	if i.out.Cap() > mostKept {
		i.out = bytes.Buffer{}
	}
	i.out.Reset()
	i.out.Grow(min(limit, 4*len(data)) + bytes.MinRead)
	n, err := i.out.ReadFrom(io.LimitReader(reader, int64(limit)+1))
	if n > int64(limit) || errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return nil, ErrBatchTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("inflate %s: %w", Compression(codec), err)
	}
	return i.out.Bytes(), nil
}

func (i *Inflater) reader(codec Compression, data []byte) (reader io.Reader, done func(), err error) {
	source := bytes.NewReader(data)
	if codec != Zstd {
		reader := compress.Compression(codec).Codec().NewReader(source)
		return reader, func() { _ = reader.Close() }, nil // it only goes back to its pool
	}
	if i.zstd == nil {
		i.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
		if err != nil {
			return nil, nil, err
		}
	}
	return i.zstd, func() {}, i.zstd.Reset(source)
}
