// Package recordio turns bytes into records and translated records back into bytes, in four formats.
//
// Text: one record a line. TSV: one record a row, of which one column is translated. JSONL: one record a line, of
// which one string is translated. Parquet: one record a row, of which one column is translated.
//
// What holds for all of them:
//
//   - One record in is one record out. A record that cannot be read has Record.Err, is flagged job.Unreadable, and is
//     written as it was read; a line too long to keep is written as an empty one.
//   - A line ends in LF; one CR before it is dropped. NUL, U+2028, U+0085 and all other characters are part of the
//     line. A last line without LF counts, and an empty file has no lines. A byte order mark at the very beginning is
//     dropped.
//   - Text that is not valid UTF-8 is repaired with U+FFFD for translation and flagged job.InvalidText. What is
//     carried through keeps its bytes.
//   - What is written holds no line break inside a line.
package recordio

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/internal/job"
)

// A Format is a way to lay out records.
type Format int

// The formats.
const (
	Text Format = iota
	TSV
	JSONL
	Parquet
)

var formatNames = [...]string{"text", "tsv", "jsonl", "parquet"}

// String returns the name of the format, such as "tsv".
func (f Format) String() string { return formatNames[f] }

// ParseFormat returns the format of that name.
func ParseFormat(name string) (Format, error) {
	for f, known := range formatNames {
		if name == known {
			return Format(f), nil
		}
	}
	return Text, fmt.Errorf("unknown format %q: it is one of %s", name, strings.Join(formatNames[:], ", "))
}

// DefaultMaxLine is the longest line that is kept, in bytes.
const DefaultMaxLine = 4 << 20

const (
	defaultTarget = "translation"
	defaultJSON   = "text"
)

// Options say how records lie in the bytes and what is translated. The zero value is plain text.
type Options struct {
	Format Format

	// Field is what is translated. TSV: a column's number from 1, or, with Header, its name ("" is the first column).
	// JSONL: a path such as a.b[0].c or a["b.c"] ("" is text). Parquet: a column, its path joined by dots ("" is
	// text).
	Field string

	// Further are the texts of the second source and those after it, for models of several sources, in the notation of Field:
	// a record's text is all of them, divided by tabs. Tabs inside them become spaces. TSV and JSONL only.
	Further []string

	// Target is where the translation goes: the same notation as Field. What is there already is replaced; the same
	// as Field replaces the source. A TSV column that does not exist is appended, and so is a member of a JSON object
	// and a column of a Parquet file. "" appends, under the name translation where there are names.
	Target string

	// Prefix is a text with which the translation is forced to begin, in the notation of Field; "" is none. TSV: LastColumn
	// is the last one. A record whose prefix is empty, or whose JSON has none, is translated freely.
	Prefix string

	// Columns is the number of columns that a row of a TSV file must have; 0 means as many as the first row.
	Columns int

	// Header says that the first row of a TSV file holds the names of the columns. It is a record of its own, with
	// nothing to translate.
	Header bool

	// MaxLine is the longest line that is kept, in bytes; 0 means DefaultMaxLine. A longer one is passed over.
	MaxLine int
}

// LastColumn stands for the last column of a TSV file, as Options.Prefix.
const LastColumn = "-1"

// Check says what is wrong with the options.
func (o Options) Check() error {
	if o.Columns != 0 && o.Format != TSV || o.Columns < 0 {
		return fmt.Errorf("%s cannot have %d columns", o.Format, o.Columns)
	}
	if o.Prefix != "" && o.Format != TSV && o.Format != JSONL {
		return fmt.Errorf("%s has no field for a prefix that a translation is forced to begin with: say --format tsv or jsonl", o.Format)
	}
	if len(o.Further) > 0 && o.Format != TSV && o.Format != JSONL {
		return fmt.Errorf("%s has no fields for further sources: say --format tsv or jsonl", o.Format)
	}
	if o.Header && o.Format != TSV {
		return fmt.Errorf("only tsv has a header, not %s", o.Format)
	}
	if o.MaxLine < 0 {
		return fmt.Errorf("the longest line cannot have %d bytes", o.MaxLine)
	}
	switch o.Format {
	case Text:
		if o.Field != "" || o.Target != "" {
			return errors.New("plain text has no fields: say --format tsv, jsonl or parquet")
		}
	case TSV:
		if strings.ContainsAny(o.Target, "\t\r\n") {
			return fmt.Errorf("a column cannot have the name %q", o.Target)
		}
		if !o.Header {
			err := errors.Join(checkColumn(o.Field), checkColumn(o.Target))
			for _, further := range o.Further {
				err = errors.Join(err, checkColumn(further))
			}
			if o.Prefix != LastColumn {
				err = errors.Join(err, checkColumn(o.Prefix))
			}
			return err
		}
	case JSONL:
		_, fieldErr := parsePath(o.Field)
		_, targetErr := parsePath(o.Target)
		_, prefixErr := parsePath(o.Prefix)
		err := errors.Join(fieldErr, targetErr, prefixErr)
		for _, further := range o.Further {
			_, furtherErr := parsePath(further)
			err = errors.Join(err, furtherErr)
		}
		return err
	}
	return nil
}

func checkColumn(name string) error {
	if _, ok := columnNumber(name); !ok && name != "" {
		return fmt.Errorf("column %q is not a number from 1, and without a header there are no names", name)
	}
	return nil
}

// columnNumber reads a number from 1 and returns it from 0.
func columnNumber(name string) (int, bool) {
	n, err := strconv.Atoi(name)
	return n - 1, err == nil && n >= 1 && n <= 1<<20
}

func (o Options) maxLine() int {
	if o.MaxLine == 0 {
		return DefaultMaxLine
	}
	return o.MaxLine
}

// An Error says where in the input something is wrong.
type Error struct {
	Input  string // name of the file
	Line   int64  // number of the line from 1, 0 if not known
	Offset int64  // byte at which the line begins, after decompression
	Err    error
}

// Error names the file, the line, the byte and the reason.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s, byte %d: %v", e.Input, e.Offset, e.Err)
	}
	return fmt.Sprintf("%s, line %d, byte %d: %v", e.Input, e.Line, e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// A Decoder gives the records of one input in order. Next returns io.EOF after the last one. Any other error is of
// the input as a whole; what is wrong with a single record is in its Err.
type Decoder interface {
	Next() (job.Record, error)
}

// repair makes text valid UTF-8 and returns the flag that says so.
func repair(text string) (string, job.Flags) {
	if utf8.ValidString(text) {
		return text, 0
	}
	return strings.ToValidUTF8(text, string(utf8.RuneError)), job.InvalidText
}

// besides joins the texts of several sources. The tabs between them are the only ones.
func besides(texts []string) string {
	for i, text := range texts {
		texts[i] = strings.ReplaceAll(text, "\t", " ")
	}
	return strings.Join(texts, "\t")
}
