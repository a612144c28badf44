// Package marian reads and writes Marian's model files: .npz archives and .bin files of both families (mainline and
// browsermt), with the YAML description embedded in them. Tensors come out exactly as stored.
package marian

// A Type is the type of a tensor's elements, independent of the file format that stores it.
type Type uint8

const (
	Invalid Type = iota
	Float32
	Float16
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float64
	Intgemm8  // int8, stored transposed (embeddings are not), followed by one float32 multiplier
	Intgemm16 // int16, stored transposed, followed by one float32 multiplier
)

// A Tensor is a named array as stored in the file.
type Tensor struct {
	Name  string
	Shape []int // logical shape; Intgemm weights are stored transposed to it
	Type  Type
	Data  []byte // little-endian; may alias a memory map that lives as long as the File
}

// A File is a model file held in memory or mapped.
type File struct {
	Path    string
	Config  []byte    // the embedded YAML, without padding; nil if there is none
	Tensors []*Tensor // in the order of the file, the configuration left out
}
