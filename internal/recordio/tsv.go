package recordio

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/internal/job"
)

// tsv is the layout of tab-separated fields, without any quoting. Every row has as many fields as the options say, or as
// the first.
type tsv struct {
	options Options
	columns int // fields of the first row; 0 before it
	field   int
	further []int  // of further sources
	prefix  int    // noColumn for none
	target  int    // a column of the input, or columns to append one
	name    string // of the appended column
}

const noColumn = -1

func newTSV(options Options) (*tsv, error) {
	return &tsv{options: options}, options.Check()
}

func (t *tsv) needsFirst() bool { return true }

func (t *tsv) absent() any { return unchanged("") }

func (t *tsv) decode(row []byte, record *job.Record) error {
	line := string(row)
	if t.columns == 0 {
		if err := t.begin(line); err != nil {
			return err
		}
		if t.options.Header {
			record.Carry = unchanged(t.header(line))
			return nil
		}
	}
	if n := strings.Count(line, "\t") + 1; n != t.columns {
		record.Flags |= job.Unreadable
		record.Err = fmt.Errorf("the row has %d fields, and should have %d", n, t.columns)
		record.Carry, record.Original = unchanged(line), []byte(line)
		return nil
	}
	record.Text = rowText(line, t.field, t.further, record)
	if t.prefix != noColumn {
		at, end := fieldSpan(line, t.prefix)
		var flags job.Flags
		record.Prefix, flags = repair(line[at:end])
		record.Flags |= flags
	}
	carried := splice{line: line, at: len(line), end: len(line), lead: "\t"}
	if t.target < t.columns {
		carried.at, carried.end = fieldSpan(line, t.target)
		carried.lead = ""
	}
	record.Carry = carried
	return nil
}

// rowText returns the text of a column, and of those of further sources. The row has them.
func rowText(row string, field int, further []int, record *job.Record) string {
	texts := make([]string, 1+len(further))
	for i := range texts {
		column := field
		if i > 0 {
			column = further[i-1]
		}
		at, end := fieldSpan(row, column)
		var flags job.Flags
		texts[i], flags = repair(row[at:end])
		record.Flags |= flags
	}
	return strings.Join(texts, "\t")
}

// begin learns from the first row how many columns there are, and which of them are meant.
func (t *tsv) begin(line string) error {
	names := strings.Split(line, "\t")
	var err error
	field, target := t.options.Field, t.options.Target
	if field == "" {
		field = "1"
	}
	if t.options.Columns != 0 && !t.options.Header {
		names = make([]string, t.options.Columns) // whatever the first row has
	}
	if t.options.Columns != 0 && len(names) != t.options.Columns {
		return fmt.Errorf("the header has %d fields, and should have %d", len(names), t.options.Columns)
	}
	if t.field, err = t.find(names, field); err != nil {
		return err
	}
	for _, further := range t.options.Further {
		column, err := t.find(names, further)
		if err != nil {
			return err
		}
		t.further = append(t.further, column)
	}
	if t.prefix, err = t.findPrefix(names); err != nil {
		return err
	}
	t.target, t.name = len(names), defaultTarget
	if target != "" {
		if t.target, err = t.find(names, target); err != nil {
			if _, numbered := columnNumber(target); numbered {
				return err
			}
			t.target, t.name = len(names), target
		}
	}
	t.columns = len(names)
	return nil
}

// findPrefix returns the column of the prefix, noColumn if there is none.
func (t *tsv) findPrefix(names []string) (int, error) {
	var column int
	var err error
	switch t.options.Prefix {
	case "":
		return noColumn, nil
	case LastColumn:
		column = len(names) - 1
	default:
		column, err = t.find(names, t.options.Prefix)
	}
	if err == nil && column == t.field {
		err = fmt.Errorf("column %d of %d cannot be translated and be the beginning of its translation", column+1, len(names))
	}
	return column, err
}

// find returns the column of that name or number. The number after the last one is allowed for a target.
func (t *tsv) find(names []string, wanted string) (int, error) {
	if t.options.Header {
		if i := slices.Index(names, wanted); i >= 0 {
			return i, nil
		}
	}
	i, numbered := columnNumber(wanted)
	switch {
	case numbered && i < len(names), numbered && i == len(names) && wanted == t.options.Target && wanted != t.options.Field:
		return i, nil
	case numbered:
		return 0, fmt.Errorf("there is no column %s: the first row has %d", wanted, len(names))
	default:
		return 0, fmt.Errorf("there is no column %q in the header: it names %q", wanted, names)
	}
}

// header is the first row of the output.
func (t *tsv) header(line string) string {
	if t.target < t.columns {
		return line
	}
	return line + "\t" + t.name
}

// fieldSpan returns where the field lies in the line, which has it.
func fieldSpan(line string, field int) (at, end int) {
	for range field {
		at += strings.IndexByte(line[at:], '\t') + 1
	}
	end = len(line)
	if i := strings.IndexByte(line[at:], '\t'); i >= 0 {
		end = at + i
	}
	return at, end
}
