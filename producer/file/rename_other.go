//go:build !linux

package file

// renameNew renames a file to a name that must be free.
func renameNew(from, to string) error { return renameIfFree(from, to) }
