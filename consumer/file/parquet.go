package file

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
)

// openParquet opens an input of which only one column is read, here and there in the file.
func (l *lane) openParquet(in *input, at job.Position) (recordio.Decoder, io.Closer, error) {
	if in.pipe != nil {
		return nil, nil, fmt.Errorf("%s: a Parquet file cannot be read from a pipe: store it first", in.path)
	}
	file, err := in.open()
	if err != nil {
		return nil, nil, err
	}
	closer := closerFunc(func() error { return in.release(file) })
	info, err := file.Stat()
	if err != nil {
		closer.Close()
		return nil, nil, err
	}
	if err := in.unchanged(info); err != nil {
		closer.Close()
		return nil, nil, err
	}
	decoder, err := recordio.NewParquetDecoder(l.records, in.path, closing{file, &l.closing}, info.Size(), at)
	if err != nil {
		closer.Close()
		return nil, nil, err
	}
	before := l.done.Load()
	return &measured{rows: decoder.(rows), size: info.Size(), before: before, done: &l.done}, closer, nil
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

// closing reads until the lane is closed.
type closing struct {
	file   *os.File
	closed *atomic.Bool
}

func (c closing) ReadAt(p []byte, offset int64) (int, error) {
	if c.closed.Load() {
		return 0, errClosed
	}
	return c.file.ReadAt(p, offset)
}

// rows is a decoder that knows how many records there are.
type rows interface {
	recordio.Decoder
	Rows() (next, total int64)
}

// measured tells the progress by rows, as if they all had the same size.
type measured struct {
	rows
	size, before int64
	done         *atomic.Int64
}

func (m *measured) Next() (job.Record, error) {
	record, err := m.rows.Next()
	next, total := m.rows.Rows()
	part := m.size
	if err != io.EOF && total > 0 {
		part = int64(float64(m.size) * float64(next) / float64(total))
	}
	m.done.Store(m.before + part)
	return record, err
}
