package s3

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/recordio"
	"github.com/sluice-mt/sluice/internal/s3client"
)

// stream is the inflated bytes of an object. It is a recordio.Stream.
type stream struct {
	lane    *lane
	raw     *s3client.Reader // nil before the first byte of a range is asked for
	inflate *compress.Reader // nil for a range
	plain   io.Reader
	offset  int64 // of the next byte of plain
}

// newStream opens a whole object.
func newStream(l *lane) (*stream, error) {
	raw, err := l.source.config.Client.OpenAt(l.ctx, &l.object.info, 0)
	if err != nil {
		return nil, err
	}
	s := &stream{lane: l, raw: raw}
	if err := checkEncoding(raw.Info()); err != nil {
		raw.Close()
		return nil, err
	}
	if s.inflate, err = compress.NewReader(counted{s}); err != nil {
		raw.Close()
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	s.plain = s.inflate
	return s, nil
}

// checkEncoding refuses what cannot be told from the content.
func checkEncoding(info *s3client.Info) error {
	switch info.Encoding {
	case "", "identity", "aws-chunked", "gzip", "x-gzip", "zstd", "bzip2", "x-bzip2", "xz", "gzip,aws-chunked", "aws-chunked,gzip":
		return nil
	default:
		return fmt.Errorf("%s has the Content-Encoding %s, which is not known: store it plain, or compressed with gzip, zstd, bzip2 or xz", info.URI(), info.Encoding)
	}
}

// counted counts the bytes of the object on their way.
type counted struct{ *stream }

func (c counted) Read(p []byte) (int, error) {
	n, err := c.raw.Read(p)
	c.lane.done.Add(int64(n))
	return n, err
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.plain.Read(p)
	s.offset += int64(n)
	return n, err
}

// SkipTo continues at a byte behind a line break.
func (s *stream) SkipTo(offset int64) error {
	size := s.lane.object.info.Size
	if s.inflate == nil || s.inflate.Format() == compress.Plain {
		if offset > size {
			return fmt.Errorf("cannot continue at byte %d: the object ends at byte %d", offset, size)
		}
		return s.seek(offset)
	}
	if offset <= s.offset {
		return fmt.Errorf("byte %d has been passed already", offset)
	}
	last, err := recordio.Skip(s, offset-s.offset)
	if err == io.EOF {
		return fmt.Errorf("cannot continue at byte %d: the object ends at byte %d", offset, s.offset)
	}
	if err != nil {
		return err
	}
	if last == '\n' {
		return nil
	}
	if n, err := s.inflate.Read(make([]byte, 1)); n == 0 && err == io.EOF {
		return nil // a last line may end without a line break
	}
	return errNoLine(offset)
}

func errNoLine(offset int64) error {
	return fmt.Errorf("cannot continue at byte %d: no line begins there", offset)
}

// seek asks for the bytes of a plain object from the one before offset on, and checks that it ends a line.
func (s *stream) seek(offset int64) error {
	if err := s.open(offset - 1); err != nil {
		return err
	}
	var last [1]byte
	if _, err := io.ReadFull(s.raw, last[:]); err != nil {
		return err
	}
	if last[0] != '\n' && offset != s.lane.object.info.Size {
		return errNoLine(offset)
	}
	s.offset = offset
	s.lane.done.Store(offset - s.lane.part.from)
	return nil
}

// open asks for the bytes of a plain object from one on.
func (s *stream) open(offset int64) error {
	if s.raw != nil {
		s.raw.Close()
	}
	var err error
	s.raw, err = s.lane.source.config.Client.OpenAt(s.lane.ctx, &s.lane.object.info, offset)
	s.plain, s.offset = counted{s}, offset
	return err
}

func (s *stream) Close() error {
	if s.inflate != nil {
		s.inflate.Close()
	}
	if s.raw != nil {
		return s.raw.Close()
	}
	return nil
}

// ranged returns a decoder of the lines that begin in the lane's range. The offset of a position counts from the
// beginning of the object.
func (l *lane) ranged(at job.Position) (recordio.Decoder, io.Closer, error) {
	s := &stream{lane: l}
	if at == (job.Position{}) {
		start, err := s.firstLine(l.part)
		if err != nil {
			s.Close()
			return nil, nil, err
		}
		at.Offset = start
	}
	if at.Offset >= l.part.to {
		l.done.Store(l.part.to - l.part.from)
		return nothing{}, s, nil
	}
	if at.Offset == 0 {
		if err := s.open(0); err != nil {
			return nil, nil, err
		}
	}
	decoder, err := recordio.NewDecoder(l.source.config.Records, l.object.info.URI(), s, at)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return &rangeDecoder{Decoder: decoder, next: at.Offset, lane: l}, s, nil
}

// firstLine finds where the first line begins that does not begin before the range.
func (s *stream) firstLine(p part) (int64, error) {
	if p.from == 0 {
		return 0, nil
	}
	if err := s.open(p.from - 1); err != nil {
		return 0, err
	}
	at := p.from - 1
	buffered := bufio.NewReaderSize(s.raw, 64<<10)
	for {
		piece, err := buffered.ReadSlice('\n')
		at += int64(len(piece))
		switch {
		case err == nil || err == io.EOF || at >= p.to: // a line that goes on behind the range leaves nothing in it
			return at, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return 0, err
		}
	}
}

type nothing struct{}

func (nothing) Next() (job.Record, error) { return job.Record{}, io.EOF }

// rangeDecoder ends with the last line that begins in the range.
type rangeDecoder struct {
	recordio.Decoder
	next int64 // where the next line begins
	lane *lane
}

func (d *rangeDecoder) Next() (job.Record, error) {
	if d.next >= d.lane.part.to {
		d.lane.done.Store(d.lane.part.to - d.lane.part.from)
		return job.Record{}, io.EOF
	}
	record, err := d.Decoder.Next()
	forgetLine(err)
	forgetLine(record.Err)
	if err == nil {
		d.next = record.End.Offset
	}
	return record, err
}

// forgetLine takes away the number of a line that was counted from the beginning of the range.
func forgetLine(err error) {
	var located *recordio.Error
	if errors.As(err, &located) {
		located.Line = 0
	}
}

// parquet returns a decoder of a Parquet file.
func (l *lane) parquet(at job.Position) (recordio.Decoder, io.Closer, error) {
	file := l.source.config.Client.At(l.ctx, &l.object.info)
	decoder, err := recordio.NewParquetDecoder(l.source.config.Records, l.name, file, l.object.info.Size, at)
	if err != nil {
		return nil, nil, err
	}
	return &measured{rows: decoder.(rows), lane: l}, io.NopCloser(nil), nil
}

// rows is a decoder that knows how many records there are.
type rows interface {
	recordio.Decoder
	Rows() (next, total int64)
}

// measured tells the progress by rows, as if they all had the same size.
type measured struct {
	rows
	lane *lane
}

func (m *measured) Next() (job.Record, error) {
	record, err := m.rows.Next()
	next, total := m.rows.Rows()
	part := m.lane.object.info.Size
	if err != io.EOF && total > 0 {
		part = int64(float64(part) * float64(next) / float64(total))
	}
	m.lane.done.Store(part)
	return record, err
}
