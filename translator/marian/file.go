// Package marian reads and writes Marian's model files: .npz archives and .bin files of both families (mainline and
// browsermt), with the YAML description embedded in them. Tensors come out exactly as stored.
//
// Open maps a file and hands out views of it, so that opening costs no more than reading the file's directory. Nothing in a
// file is trusted: names, shapes, lengths and offsets are checked against the bytes that are there before any is used.
package marian

import (
	"sync"
	"sync/atomic"
)

// A Format is a container that holds a model.
type Format uint8

const (
	// NPZ is a zip archive of NumPy arrays.
	NPZ Format = iota + 1
	// Bin is Marian's own binary container, version 1.
	Bin
)

func (f Format) String() string {
	switch f {
	case NPZ:
		return "npz"
	case Bin:
		return "bin"
	}
	return "unknown format"
}

// ConfigName is the name under which a model file holds its YAML description.
const ConfigName = "special:model.yml"

// A Tensor is a named array as stored in the file.
type Tensor struct {
	Name   string
	Shape  []int // logical shape; Intgemm weights are stored transposed to it
	Type   Type
	Data   []byte // little-endian, without padding; may alias a memory map that lives as long as the File
	Offset int64  // where Data begins in the container, or in the archive member if that is compressed
}

// A File is a model file held in memory or mapped. Its tensors may be used until Close.
type File struct {
	Path        string
	Format      Format
	Compression string    // "gzip" or "zstd" if the whole file is compressed, else empty
	Config      []byte    // the embedded YAML, without padding; nil if there is none
	Tensors     []*Tensor // in the order of the file, the configuration left out

	members     []member     // archive members with their checksums, for Verify
	mapped      []byte       // the memory map; nil if there is none
	release     func() error // of the memory map
	forgotten   atomic.Bool
	closed      bool
	fingerprint func() string
}

// A member is one stored part of an archive and the CRC-32 its directory gives.
type member struct {
	name string
	data []byte
	crc  uint32
}

// Tensor returns the tensor of that name (without the namespace F0::), or nil if the file has none.
func (f *File) Tensor(name string) *Tensor {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Close releases the memory map. The tensors lose their data; slices that alias them must not be used afterwards. Closing
// again does nothing.
func (f *File) Close() error {
	release := f.release
	f.mapped, f.release = nil, nil
	f.closed = true
	f.members = nil
	for _, t := range f.Tensors {
		t.Data = nil
	}
	if release == nil {
		return nil
	}
	return release()
}

// Forget lets the system have the memory of a mapped file, as when all weights have been packed. Tensors may still be used; they are read from
// the file again. Files that are not mapped keep their memory. It may be called while tensors are read.
func (f *File) Forget() {
	f.forgotten.Store(true)
	if f.mapped != nil {
		evict(f.mapped)
	}
}

func newFile(path string, format Format, config []byte, tensors []*Tensor) *File {
	f := &File{Path: path, Format: format, Config: config, Tensors: tensors}
	f.fingerprint = sync.OnceValue(f.computeFingerprint)
	return f
}
