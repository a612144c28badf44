package marian

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
)

// WriteNPZ writes an .npz archive as mainline Marian writes it, byte for byte: members stored uncompressed, by name, the
// description last and padded to a block of 256 bytes, no dates. An .npz has no type for quantised weights; use File.Float
// first. An existing file is replaced atomically.
func WriteNPZ(path string, f *File) error {
	tensors, err := f.sorted()
	if err != nil {
		return withPath(err, path)
	}
	config, err := configTensor(f.Config, true)
	if err != nil {
		return withPath(err, path)
	}
	if config != nil {
		tensors = append(tensors, config)
	}
	if err := fitsNPZ(tensors); err != nil {
		return withPath(err, path)
	}
	return writeFile(path, func(w io.Writer) error { return writeNPZTo(w, tensors) })
}

// fitsNPZ checks what the old zip format that Marian writes can hold.
func fitsNPZ(tensors []*Tensor) error {
	const remedy = "write a .bin instead"
	total := 0
	for _, t := range tensors {
		if t.Type.IsIntgemm() || t.Type.In4Bits() {
			return problemf(t.Name, nowhere, "write a .bin, or turn the model into float32 first",
				"is %s, which an .npz cannot hold", t.Type)
		}
		total += len(t.Data) + 2*(len(t.Name)+256)
	}
	if len(tensors) > math.MaxUint16 || int64(total) > math.MaxUint32 {
		return problemf("", nowhere, remedy, "%d tensors of %d bytes are too much for an .npz as Marian writes it",
			len(tensors), total)
	}
	return nil
}

func writeNPZTo(w io.Writer, tensors []*Tensor) error {
	var directory []byte
	at := 0
	for _, t := range tensors {
		name := t.Name + ".npy"
		header := npyHeader(t)
		crc := crc32.Update(crc32.ChecksumIEEE(header), crc32.IEEETable, t.Data)
		entry := zipEntry(name, crc, len(header)+len(t.Data))
		directory = appendDirectory(directory, entry, name, at)
		for _, part := range [][]byte{[]byte("PK\x03\x04"), entry, []byte(name), header, t.Data} {
			n, err := w.Write(part)
			if err != nil {
				return err
			}
			at += n
		}
	}
	_, err := w.Write(append(directory, zipEnd(len(tensors), len(directory), at)...))
	return err
}

// zipEntry returns the 26 bytes that a member's own header and the directory have in common.
func zipEntry(name string, crc uint32, size int) []byte {
	le := binary.LittleEndian
	entry := le.AppendUint16(nil, 20)                 // version of the format needed
	entry = append(entry, make([]byte, 8)...)         // flags, method 0 (stored), time, date
	entry = le.AppendUint32(entry, crc)               //
	entry = le.AppendUint32(entry, uint32(size))      // in the archive
	entry = le.AppendUint32(entry, uint32(size))      // unpacked
	entry = le.AppendUint16(entry, uint16(len(name))) //
	return le.AppendUint16(entry, 0)                  // extra field
}

func appendDirectory(directory, entry []byte, name string, at int) []byte {
	le := binary.LittleEndian
	directory = append(directory, "PK\x01\x02"...)
	directory = le.AppendUint16(directory, 20) // version of the format written
	directory = append(directory, entry...)
	directory = append(directory, make([]byte, 10)...) // comment, disk, attributes
	directory = le.AppendUint32(directory, uint32(at))
	return append(directory, name...)
}

func zipEnd(members, directorySize, directoryAt int) []byte {
	le := binary.LittleEndian
	end := []byte("PK\x05\x06\x00\x00\x00\x00")
	end = le.AppendUint16(end, uint16(members)) // on this disk
	end = le.AppendUint16(end, uint16(members))
	end = le.AppendUint32(end, uint32(directorySize))
	end = le.AppendUint32(end, uint32(directoryAt))
	return le.AppendUint16(end, 0) // comment
}

// npyHeader returns the header of an array, padded to a multiple of 16 bytes, as the library in Marian does.
func npyHeader(t *Tensor) []byte {
	kinds := map[Type]string{Float16: "f2", Float32: "f4", Float64: "f8", Int8: "i1", Int16: "i2", Int32: "i4", Int64: "i8",
		Uint8: "u1", Uint16: "u2", Uint32: "u4", Uint64: "u8"}
	var dims []string
	for _, d := range t.Shape {
		dims = append(dims, fmt.Sprint(d))
	}
	shape := strings.Join(dims, ", ")
	if len(dims) == 1 {
		shape += ","
	}
	dictionary := fmt.Sprintf("{'descr': '<%s', 'fortran_order': False, 'shape': (%s), }", kinds[t.Type], shape)
	const preamble = len(npyMagic) + 4
	padding := 16 - (preamble+len(dictionary))%16
	dictionary += strings.Repeat(" ", padding-1) + "\n"
	header := append([]byte(npyMagic), 1, 0)
	header = binary.LittleEndian.AppendUint16(header, uint16(len(dictionary)))
	return append(header, dictionary...)
}
