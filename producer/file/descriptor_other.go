//go:build !unix

package file

import "os"

// IsDescriptor is for systems on which descriptors have names.
func IsDescriptor(string) bool { return false }

// OpenDescriptor likewise.
func OpenDescriptor(string) (*os.File, error) { return nil, nil }

// unblock is for systems that have named pipes in folders.
func unblock(string) {}
