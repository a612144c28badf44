package main

import (
	"errors"
	"fmt"
)

// The exit codes of every command. They are part of the interface: scripts depend on them.
const (
	exitOK          = 0 // everything was done
	exitFailure     = 1 // something unforeseen failed
	exitUsage       = 2 // the command line, the environment or the configuration is wrong
	exitInput       = 3 // the input cannot be read
	exitModel       = 4 // a model, vocabulary or shortlist cannot be used
	exitOutput      = 5 // the output cannot be written; what was committed can be resumed
	exitFlagged     = 6 // finished, and some records are flagged
	exitInterrupted = 7 // interrupted; the same command continues
)

// Errors are sorted by what the user has to look at.
type (
	usageError  struct{ error }
	inputError  struct{ error }
	modelError  struct{ error }
	outputError struct{ error }
)

func (e usageError) Unwrap() error  { return e.error }
func (e inputError) Unwrap() error  { return e.error }
func (e modelError) Unwrap() error  { return e.error }
func (e outputError) Unwrap() error { return e.error }

var (
	errFlagged     = errors.New("finished with flagged records")
	errInterrupted = errors.New("interrupted")
)

func usageErrorf(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode maps an error to the exit code that tells a script what kind it is.
func exitCode(err error) int {
	var (
		usage  usageError
		input  inputError
		model  modelError
		output outputError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFlagged):
		return exitFlagged
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &model):
		return exitModel
	case errors.As(err, &output):
		return exitOutput
	case errors.As(err, &input):
		return exitInput
	}
	return exitFailure
}
