package model

import (
	"errors"
	"fmt"
)

// ErrUnsupported is wrapped by the errors that refuse a model for what it is: no other copy of the file would do.
var ErrUnsupported = errors.New("this kind of model is not supported")

// ErrNoDescription is wrapped by the errors of models that do not say what they are.
var ErrNoDescription = errors.New("the model has no description (" + configTensor + ")")

const configTensor = "special:model.yml"

// An UnsupportedError says what about a model is not supported, and what can be done instead.
type UnsupportedError struct {
	What   string // in Marian's words, for example "type: s2s"
	Remedy string
}

func (e *UnsupportedError) Error() string {
	return ErrUnsupported.Error() + ": " + e.What + "; " + e.Remedy
}

// Unwrap returns ErrUnsupported.
func (e *UnsupportedError) Unwrap() error { return ErrUnsupported }

func unsupported(remedy, format string, args ...any) error {
	return &UnsupportedError{What: fmt.Sprintf(format, args...), Remedy: remedy}
}

// A ParameterError says that a parameter is missing, or not what the description makes it.
type ParameterError struct {
	Name    string
	Problem string // for example "is missing; expected 256×256"
}

func (e *ParameterError) Error() string { return fmt.Sprintf("parameter %s %s", e.Name, e.Problem) }
