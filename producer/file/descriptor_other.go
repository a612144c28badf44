//go:build !unix

package file

import "os"

// openDescriptor is for systems on which descriptors have names.
func openDescriptor(string) (*os.File, error) { return nil, nil }

// unblock is for systems that have named pipes in folders.
func unblock(string) {}
