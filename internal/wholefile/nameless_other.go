//go:build !linux

package wholefile

import (
	"errors"
	"os"
)

// createNameless is for systems that have files without names.
func createNameless(string) *os.File { return nil }

func link(*os.File, string) error { return errors.ErrUnsupported }
