package recordio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/sluice-mt/sluice/internal/job"
)

// parquetBatch is how many values are read at a time.
const parquetBatch = 256

// parquetDecoder reads one column of a file, page by page.
type parquetDecoder struct {
	name   string
	groups []parquet.RowGroup
	column int
	rows   int64
	at     job.Position

	group  int // the next one to open
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	batch  []parquet.Value
	unread []parquet.Value // of batch
}

// NewParquetDecoder returns a Decoder of one column of a Parquet file. The offset of a position is the number of the
// row. A row without a value has no text, and no translation either. Memory is that of one page and, where the column
// has one, its dictionary.
func NewParquetDecoder(options Options, name string, file io.ReaderAt, size int64, at job.Position) (_ Decoder, err error) {
	defer damaged(name, &err)
	opened, err := openParquet(name, file, size)
	if err != nil {
		return nil, err
	}
	column, err := textColumn(opened, options.Field)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := &parquetDecoder{name: name, groups: opened.RowGroups(), column: column.ColumnIndex, rows: opened.NumRows(), at: at, batch: make([]parquet.Value, parquetBatch)}
	if err := d.seek(at.Offset); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// openParquet reads the footer. Its length, which stands before the last four bytes, is checked here because the
// library allocates what it says. A page may still ask for up to 2 GiB, which a damaged file does not fill.
func openParquet(name string, file io.ReaderAt, size int64) (*parquet.File, error) {
	var tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("%s: not a Parquet file: it has %d bytes", name, size)
	}
	if _, err := file.ReadAt(tail[:], size-8); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if footer := int64(binary.LittleEndian.Uint32(tail[:])); footer > size-12 {
		return nil, fmt.Errorf("%s: not a Parquet file, or a damaged one: a footer of %d bytes in a file of %d", name, footer, size)
	}
	opened, err := parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("%s: not a Parquet file, or a damaged one: %w", name, err)
	}
	return opened, nil
}

// damaged turns a panic into an error: the library has some left for files that contradict themselves.
func damaged(name string, err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("%s: the Parquet file is damaged: %v", name, reason)
	}
}

// textColumn finds the column that is translated.
func textColumn(file *parquet.File, field string) (parquet.LeafColumn, error) {
	if field == "" {
		field = defaultJSON
	}
	column, ok := lookUp(file.Schema(), field)
	if !ok {
		var names []string
		for _, path := range file.Schema().Columns() {
			names = append(names, strings.Join(path, "."))
		}
		return column, fmt.Errorf("there is no column %s: the file has %s", field, strings.Join(names, ", "))
	}
	kind := column.Node.Type().Kind()
	if column.MaxRepetitionLevel > 0 || kind != parquet.ByteArray && kind != parquet.FixedLenByteArray {
		return column, fmt.Errorf("the column %s is not of texts, one a row", field)
	}
	return column, nil
}

// lookUp finds a column by its path joined by dots, or by a name that has dots in it.
func lookUp(schema *parquet.Schema, name string) (parquet.LeafColumn, bool) {
	column, ok := schema.Lookup(strings.Split(name, ".")...)
	if !ok {
		column, ok = schema.Lookup(name)
	}
	return column, ok
}

// seek goes to a row, counted from the first of the file.
func (d *parquetDecoder) seek(row int64) error {
	if row < 0 || row > d.rows {
		return fmt.Errorf("cannot continue at row %d of %d", row, d.rows)
	}
	for d.group < len(d.groups) && row >= d.groups[d.group].NumRows() {
		row -= d.groups[d.group].NumRows()
		d.group++
	}
	if d.group == len(d.groups) {
		return nil
	}
	d.openGroup()
	return d.pages.SeekToRow(row)
}

func (d *parquetDecoder) openGroup() {
	d.pages = d.groups[d.group].ColumnChunks()[d.column].Pages()
	d.group++
}

// Rows returns the row that comes next and how many there are.
func (d *parquetDecoder) Rows() (next, total int64) { return d.at.Offset, d.rows }

// Next returns the next row's record.
func (d *parquetDecoder) Next() (record job.Record, err error) {
	defer damaged(d.name, &err)
	for len(d.unread) == 0 {
		if err := d.read(); err != nil {
			if err == io.EOF {
				err = d.complete()
			}
			return job.Record{}, err
		}
	}
	value := d.unread[0]
	d.unread = d.unread[1:]
	record = job.Record{Seq: d.at.Record}
	if value.IsNull() {
		record.Carry = absentValue{}
	} else {
		record.Text, record.Flags = repair(string(value.ByteArray()))
	}
	record.Size = len(record.Text)
	d.at.Record++
	d.at.Offset++
	record.End = d.at
	return record, nil
}

// complete returns io.EOF if there were as many rows as the file said.
func (d *parquetDecoder) complete() error {
	if d.at.Offset != d.rows {
		return fmt.Errorf("%s: the Parquet file is damaged: it says that it has %d rows, and the column has %d values", d.name, d.rows, d.at.Offset)
	}
	return io.EOF
}

// read fills the batch from the current page, or goes to the next page or group.
func (d *parquetDecoder) read() error {
	switch {
	case d.values != nil:
		n, err := d.values.ReadValues(d.batch)
		d.unread = d.batch[:n]
		if err == nil {
			return nil
		}
		if !errors.Is(err, io.EOF) {
			return d.located(err)
		}
		if n == 0 {
			parquet.Release(d.page)
			d.values = nil
		}
		return nil
	case d.pages != nil:
		page, err := d.pages.ReadPage()
		if errors.Is(err, io.EOF) {
			err = d.pages.Close()
			d.pages = nil
			return err
		}
		if err != nil {
			return d.located(err)
		}
		d.page, d.values = page, page.Values()
		return nil
	case d.group < len(d.groups):
		d.openGroup()
		return nil
	default:
		return io.EOF
	}
}

func (d *parquetDecoder) located(err error) error {
	return fmt.Errorf("%s, row %d: %w", d.name, d.at.Offset+1, err)
}
