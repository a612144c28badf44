package recordio

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/internal/job"
)

// ValueOptions say where the text lies in the value of a message, and where its translations go. The zero value is
// text and nothing else.
type ValueOptions struct {
	// Format is Text, TSV (a value is one row, of as many columns as it likes) or JSONL (a value is one JSON value,
	// which may stretch over several lines).
	Format Format

	// Field is what is translated: a column's number from 1 ("" is 1), or a path as in Options.Field ("" is text).
	Field string

	// Further are the texts of the second source and those after it, as in Options.Further.
	Further []string

	// Targets are where the translations go, best first, in the notation of Options.Target. None at all stands for
	// one with the default name. Where there are fewer hypotheses than targets the rest are null, or empty columns.
	Targets []string

	// MaxSize is the longest value that is read, in bytes; 0 is no limit. A longer one cannot be translated.
	MaxSize int
}

// A Value is the layout of the values of messages. It may be used by several goroutines.
//
// A value is not a line: text may hold line breaks, and keeps them. Of TSV and JSON, whatever is not a target is
// written back byte for byte.
type Value struct {
	format  Format
	most    int // bytes of a value; 0 is no limit
	field   int // TSV: column from 0
	further []int
	columns []int
	paths   []*jsonl // JSON: one for each target; the field is the same in all
}

// NewValue checks the options.
func NewValue(options ValueOptions) (*Value, error) {
	v := &Value{format: options.Format, most: options.MaxSize}
	targets := options.Targets
	if len(targets) == 0 {
		targets = []string{""}
	}
	switch options.Format {
	case Text:
		if options.Field != "" || len(options.Targets) > 0 || len(options.Further) > 0 {
			return nil, errors.New("a value of plain text has no fields: its format is tsv or jsonl where it has")
		}
		return v, nil
	case TSV:
		return v, v.useColumns(options.Field, options.Further, targets)
	case JSONL:
		return v, v.usePaths(options, targets)
	default:
		return nil, fmt.Errorf("the value of a message cannot be %s", options.Format)
	}
}

// appended stands for a column behind the last one.
const appended = -1

func (v *Value) useColumns(field string, further, targets []string) error {
	if err := checkColumn(field); err != nil {
		return err
	}
	if field != "" {
		v.field, _ = columnNumber(field)
	}
	for _, name := range further {
		column, ok := columnNumber(name)
		if !ok {
			return fmt.Errorf("column %q is not a number from 1", name)
		}
		v.further = append(v.further, column)
	}
	for _, target := range targets {
		column := appended
		if target != "" {
			var ok bool
			if column, ok = columnNumber(target); !ok {
				return fmt.Errorf("column %q is not a number from 1", target)
			}
			if slices.Contains(v.columns, column) {
				return fmt.Errorf("column %s is the target of two translations", target)
			}
		}
		v.columns = append(v.columns, column)
	}
	return nil
}

func (v *Value) usePaths(options ValueOptions, targets []string) error {
	for i, target := range targets {
		layout, err := newJSON(Options{Format: JSONL, Field: options.Field, Further: options.Further, Target: target})
		if err != nil {
			return err
		}
		for j, other := range v.paths {
			if within(layout.target, other.target) || within(other.target, layout.target) {
				return fmt.Errorf("the targets %q and %q lie in each other", targets[j], targets[i])
			}
		}
		v.paths = append(v.paths, layout)
	}
	return nil
}

// within says whether a path begins with another.
func within(path, other []step) bool {
	return len(path) >= len(other) && slices.Equal(path[:len(other)], other)
}

// A filling is a value as it was read, and where in it the translations go.
type filling struct {
	value string
	gaps  []gap // in the order of their places
}

// A gap is where a translation goes: it replaces the bytes from at to end.
type gap struct {
	at, end    int
	lead       string // written before it
	hypothesis int
}

// Decode puts the text of a value into the record's Text, and what Append needs into its Carry. A value that cannot
// be read gives a record with Err, flagged job.Unreadable. Original is set where Text does not tell all; it is the
// given slice, which must not be changed afterwards.
func (v *Value) Decode(value []byte, record *job.Record) {
	if v.most > 0 && len(value) > v.most {
		record.Original, record.Flags = value, record.Flags|job.Unreadable
		record.Err = fmt.Errorf("the value has %d bytes, and %d are allowed", len(value), v.most)
		record.Carry = filling{}
		return
	}
	whole := string(value)
	if v.format == Text {
		var flags job.Flags
		record.Text, flags = repair(whole)
		record.Flags |= flags
		if flags != 0 {
			record.Original = value
		}
		return
	}
	record.Original = value
	carried := filling{value: whole}
	var err error
	if v.format == TSV {
		err = v.decodeRow(&carried, record)
	} else {
		err = v.decodeJSON(&carried, record, value)
	}
	if err != nil {
		record.Text, record.Err = "", err
		record.Flags |= job.Unreadable
		carried.gaps = nil
	}
	record.Carry = carried
}

func (v *Value) decodeRow(carried *filling, record *job.Record) error {
	row := strings.TrimSuffix(strings.TrimSuffix(carried.value, "\n"), "\r")
	if strings.Contains(row, "\n") {
		return errors.New("the value is not one row: there is a line break in it")
	}
	columns := strings.Count(row, "\t") + 1
	if last := slices.Max(append([]int{v.field}, v.further...)); last >= columns {
		return fmt.Errorf("the row has %d columns, and column %d is to be translated", columns, last+1)
	}
	record.Text = rowText(row, v.field, v.further, record)
	there := columns
	for i, column := range v.columns {
		place := gap{at: len(row), end: len(row), lead: "\t", hypothesis: i}
		switch {
		case column == appended || column == columns:
			columns++
		case column < there:
			place.at, place.end = fieldSpan(row, column)
			place.lead = ""
		default:
			return fmt.Errorf("the row has %d columns, and column %d is to hold a translation", there, column+1)
		}
		carried.gaps = append(carried.gaps, place)
	}
	carried.sort()
	return nil
}

func (v *Value) decodeJSON(carried *filling, record *job.Record, value []byte) error {
	begin := skipSpace(carried.value, 0)
	if begin == len(carried.value) {
		return nil
	}
	for i, layout := range v.paths {
		var place splice
		var err error
		if i == 0 {
			place, err = layout.read(value, carried.value, begin, record)
		} else {
			place, err = layout.place(carried.value, begin)
		}
		if err != nil {
			return err
		}
		carried.gaps = append(carried.gaps, gap{place.at, place.end, place.lead, i})
	}
	carried.sort()
	// The first member of an empty object has no comma before it; those added behind it need one.
	for i := 1; i < len(carried.gaps); i++ {
		before, here := carried.gaps[i-1], &carried.gaps[i]
		if before.at == here.at && !strings.HasPrefix(here.lead, ",") {
			here.lead = "," + here.lead
		}
	}
	return nil
}

func (f *filling) sort() {
	slices.SortStableFunc(f.gaps, func(a, b gap) int { return cmp.Compare(a.at, b.at) })
}

// Append appends the value of an output's message: what was read, with the translations in it. What cannot be
// translated is written as it was read.
func (v *Value) Append(dst []byte, output *job.Output) ([]byte, error) {
	hypotheses := output.Result.Hypotheses
	if v.format == Text {
		return append(dst, output.Result.Text()...), nil
	}
	carried, ok := output.Record.Carry.(filling)
	if !ok {
		return dst, fmt.Errorf("record %d was not read from a value of this format", output.Record.Seq)
	}
	at := 0
	for _, place := range carried.gaps {
		dst = append(dst, carried.value[at:place.at]...)
		dst = append(dst, place.lead...)
		at = place.end
		switch {
		case place.hypothesis < len(hypotheses) && v.format == JSONL:
			dst = appendJSONString(dst, hypotheses[place.hypothesis].Text)
		case place.hypothesis < len(hypotheses):
			dst = appendLine(dst, hypotheses[place.hypothesis].Text, true)
		case v.format == JSONL:
			dst = append(dst, "null"...)
		}
	}
	return append(dst, carried.value[at:]...), nil
}
