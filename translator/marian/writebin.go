package marian

import (
	"encoding/binary"
	"io"
	"strings"
)

// WriteBin writes a .bin file (version 1) as a family of Marian writes it, byte for byte: tensors by name, the description
// last, data padded to blocks of 256 bytes, except the description in browsermt files. Tensors are written in the types they
// have; use File.Float or File.Quantize first to change them. An existing file is replaced atomically.
func WriteBin(path string, f *File, family Family) error {
	if family != Mainline && family != Browsermt {
		return problemf("", nowhere, "", "there is no %v of .bin files", family)
	}
	tensors, err := f.sorted()
	if err != nil {
		return withPath(err, path)
	}
	for _, t := range tensors {
		if family == Mainline && t.Type.IsIntgemm() && !t.Transposed() {
			return withPath(quantizedEmbedding(t), path)
		}
	}
	config, err := f.describedFor(family)
	if err != nil {
		return withPath(err, path)
	}
	if config != nil {
		tensors = append(tensors, config)
	}
	return writeFile(path, func(w io.Writer) error { return writeBinTo(w, tensors, family) })
}

// quantizedEmbedding refuses what mainline would read wrongly: it takes every quantised tensor for a transposed one, and
// looks embeddings up in float32.
func quantizedEmbedding(t *Tensor) error {
	return problemf(t.Name, nowhere, "convert the model for mainline, which keeps embeddings in float32, or write a browsermt "+
		".bin", "is an embedding stored as %s, which mainline Marian cannot read", t.Type)
}

// describedFor returns the description as a family's converter writes it. Mainline's converter parses and prints it again;
// what changes is how an empty list looks.
func (f *File) describedFor(family Family) (*Tensor, error) {
	if family == Browsermt {
		return configTensor(f.Config, false)
	}
	return configTensor(printedAgain(f.Config), true)
}

// binLength returns the length of a tensor's data in the file.
func binLength(t *Tensor, family Family) int {
	if t.Name == ConfigName && family == Browsermt {
		return len(t.Data)
	}
	return roundUp(len(t.Data), binBlock)
}

func writeBinTo(w io.Writer, tensors []*Tensor, family Family) error {
	if _, err := w.Write(binHead(tensors, family)); err != nil {
		return err
	}
	var zeros [binBlock]byte
	for _, t := range tensors {
		if _, err := w.Write(t.Data); err != nil {
			return err
		}
		if _, err := w.Write(zeros[:binLength(t, family)-len(t.Data)]); err != nil {
			return err
		}
	}
	return nil
}

// binHead returns everything before the data.
func binHead(tensors []*Tensor, family Family) []byte {
	le := binary.LittleEndian
	head := le.AppendUint64(nil, binVersion)
	head = le.AppendUint64(head, uint64(len(tensors)))
	for _, t := range tensors {
		head = le.AppendUint64(head, uint64(len(t.Name)+1))
		head = le.AppendUint64(head, codeOfType(t.Type, family))
		head = le.AppendUint64(head, uint64(len(t.Shape)))
		head = le.AppendUint64(head, uint64(binLength(t, family)))
	}
	var names strings.Builder
	for _, t := range tensors {
		names.WriteString(t.Name + "\x00")
	}
	head = append(head, names.String()...)
	for _, t := range tensors {
		for _, d := range t.Shape {
			head = le.AppendUint32(head, uint32(int32(d)))
		}
	}
	// The data begin in the block after the one where the padding's length ends, even if that is full.
	dataAt := ((len(head)+8)/binBlock + 1) * binBlock
	padding := dataAt - len(head) - 8
	head = le.AppendUint64(head, uint64(padding))
	return append(head, make([]byte, padding)...)
}
