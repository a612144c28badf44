package recordio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

const (
	// assembleRows is how many rows are carried over at a time.
	assembleRows = 128

	// assembleGroup is the most bytes of values in a row group of the output, whose pages are kept until it is
	// complete. An input with larger groups gets more of them.
	assembleGroup = 64 << 20
)

// AssembleParquet returns a function that writes a Parquet file with all the columns of a lane's input and the
// translations beside them. input gives the path of a lane's input; the spool is what the Encoder wrote. The same
// input and spool give the same bytes.
//
// The metadata of the file are kept, except ARROW:schema where a column was added that it does not know.
func AssembleParquet(options Options, input func(lane string) string) func(ctx context.Context, lane string, spool io.Reader, out io.Writer) error {
	return AssembleParquetFrom(options, func(_ context.Context, lane string) (*ParquetInput, error) {
		path := input(lane)
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		info, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return &ParquetInput{Name: path, Reader: file, Size: info.Size(), Close: file.Close}, nil
	})
}

// A ParquetInput is a Parquet file, wherever it lies.
type ParquetInput struct {
	Name   string
	Reader io.ReaderAt
	Size   int64
	Close  func() error
}

// AssembleParquetFrom is AssembleParquet for inputs that are not files.
func AssembleParquetFrom(options Options, open func(ctx context.Context, lane string) (*ParquetInput, error)) func(ctx context.Context, lane string, spool io.Reader, out io.Writer) error {
	return func(ctx context.Context, lane string, spool io.Reader, out io.Writer) (err error) {
		input, err := open(ctx, lane)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, input.Close()) }()
		defer damaged(input.Name, &err)
		source, err := openParquet(input.Name, input.Reader, input.Size)
		if err != nil {
			return err
		}
		a, err := newAssembler(options, source, spool, out)
		if err == nil {
			err = a.run(ctx, source)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", input.Name, err)
		}
		return nil
	}
}

type assembler struct {
	spool    *bufio.Scanner
	writer   *parquet.GenericWriter[any]
	column   int  // of the translation
	replace  bool // the column is there already
	optional bool // it may be null
	row      int64
	group    int // bytes of values in the open row group
}

func newAssembler(options Options, source *parquet.File, spool io.Reader, out io.Writer) (*assembler, error) {
	a := &assembler{spool: bufio.NewScanner(spool), optional: true, column: len(source.Schema().Columns())}
	a.spool.Buffer(nil, 1<<30)
	name := options.Target
	if name == "" {
		name = defaultTarget
	}
	schema := source.Schema()
	metadata := map[string]string{}
	for _, pair := range source.Metadata().KeyValueMetadata {
		metadata[pair.Key] = pair.Value
	}
	if there, ok := lookUp(schema, name); ok {
		if !holdsTexts(there) {
			return nil, fmt.Errorf("the column %s cannot hold translations: it is not of texts, one a row", name)
		}
		a.replace, a.column, a.optional = true, there.ColumnIndex, there.Node.Optional()
	} else {
		if group, _, _ := strings.Cut(name, "."); source.Root().Column(group) != nil {
			return nil, fmt.Errorf("the column %s cannot hold translations: %s has columns of its own, and none can be added", name, group)
		}
		schema = parquet.NewSchema(schema.Name(), widen(source.Root(), name))
		delete(metadata, "ARROW:schema")
	}
	config := parquet.DefaultWriterConfig()
	config.Schema = schema
	config.KeyValueMetadata = metadata
	config.CreatedBy = "sluice"
	a.writer = parquet.NewGenericWriter[any](out, config)
	return a, nil
}

// holdsTexts says whether any row may have a text in the column. A column in a group that may be missing may not.
func holdsTexts(column parquet.LeafColumn) bool {
	levels := 0
	if column.Node.Optional() {
		levels = 1
	}
	return column.Node.Type().Kind() == parquet.ByteArray && column.MaxRepetitionLevel == 0 && column.MaxDefinitionLevel == levels
}

func (a *assembler) run(ctx context.Context, source *parquet.File) error {
	for _, group := range source.RowGroups() {
		if err := a.copyGroup(ctx, group); err != nil {
			return err
		}
	}
	if a.spool.Scan() {
		return fmt.Errorf("there are more translations than the %d rows", a.row)
	}
	if err := a.spool.Err(); err != nil {
		return err
	}
	return a.writer.Close()
}

func (a *assembler) copyGroup(ctx context.Context, group parquet.RowGroup) error {
	rows := group.Rows()
	defer rows.Close()
	batch := make([]parquet.Row, assembleRows)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rows.ReadRows(batch)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("row %d: %w", a.row+1, err)
		}
		if writeErr := a.write(batch[:n]); writeErr != nil {
			return writeErr
		}
		if err != nil || n == 0 {
			return a.flush()
		}
	}
}

func (a *assembler) write(rows []parquet.Row) error {
	for i := range rows {
		value, err := a.translation()
		if err != nil {
			return err
		}
		if a.replace {
			at := slices.IndexFunc(rows[i], func(v parquet.Value) bool { return v.Column() == a.column })
			rows[i][at] = value
		} else {
			rows[i] = append(rows[i], value)
		}
		for _, v := range rows[i] {
			a.group += valueSize(v)
		}
		a.row++
	}
	if _, err := a.writer.WriteRows(rows); err != nil {
		return err
	}
	if a.group >= assembleGroup {
		return a.flush()
	}
	return nil
}

func valueSize(v parquet.Value) int {
	if kind := v.Kind(); kind == parquet.ByteArray || kind == parquet.FixedLenByteArray {
		return 8 + len(v.ByteArray())
	}
	return 8
}

func (a *assembler) flush() error {
	if a.group == 0 {
		return nil
	}
	a.group = 0
	return a.writer.Flush()
}

// translation reads the next one from the spool.
func (a *assembler) translation() (parquet.Value, error) {
	if !a.spool.Scan() {
		if err := a.spool.Err(); err != nil {
			return parquet.Value{}, err
		}
		return parquet.Value{}, fmt.Errorf("there are only %d translations", a.row)
	}
	var text *string
	if err := json.Unmarshal(a.spool.Bytes(), &text); err != nil {
		return parquet.Value{}, fmt.Errorf("translation of row %d: %w", a.row+1, err)
	}
	switch {
	case text != nil && a.optional:
		return parquet.ByteArrayValue([]byte(*text)).Level(0, 1, a.column), nil
	case text != nil:
		return parquet.ByteArrayValue([]byte(*text)).Level(0, 0, a.column), nil
	case a.optional:
		return parquet.NullValue().Level(0, 0, a.column), nil
	default:
		return parquet.ByteArrayValue(nil).Level(0, 0, a.column), nil
	}
}

// widen returns the root of a schema with one more column, behind the others.
func widen(root *parquet.Column, name string) parquet.Node {
	added := field{Node: parquet.Optional(parquet.String()), name: name}
	return widened{Node: root, fields: append(slices.Clone(root.Fields()), added)}
}

type widened struct {
	parquet.Node
	fields []parquet.Field
}

func (w widened) Fields() []parquet.Field { return w.fields }

func (w widened) String() string {
	var text strings.Builder
	_ = parquet.PrintSchema(&text, "", w) // a strings.Builder takes everything
	return text.String()
}

type field struct {
	parquet.Node
	name string
}

func (f field) Name() string { return f.name }

func (f field) Value(base reflect.Value) reflect.Value { return base.FieldByName(f.name) }
