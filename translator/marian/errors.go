package marian

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-mt/sluice/internal/binread"
)

// An Error says what is wrong with a model file, where, and what to do about it.
type Error struct {
	Path    string // the file
	Tensor  string // the tensor concerned, or empty
	Offset  int64  // byte in the (decompressed) file, or negative if there is no one place
	Problem string // what is wrong
	Remedy  string // what the user can do, or empty
	Err     error  // the cause, or nil
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %q: ", e.Tensor)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "byte %#x: ", e.Offset)
	}
	b.WriteString(e.Problem)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

const nowhere = -1 // Offset of an error that has no one place

const remedyDamaged = "the file is damaged or incomplete: copy or download it again"

// problemf returns an error that concerns a tensor, or the whole file if tensor is empty.
func problemf(tensor string, offset int64, remedy, format string, args ...any) *Error {
	return &Error{Tensor: tensor, Offset: offset, Remedy: remedy, Problem: fmt.Sprintf(format, args...)}
}

// located turns an error of package binread into an *Error; others are wrapped as they are.
func located(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var read *binread.Error
	if errors.As(err, &read) {
		return problemf("", read.Offset, remedyDamaged, "%s: %s", read.What, read.Problem)
	}
	return &Error{Offset: nowhere, Problem: "cannot be read", Err: err}
}
