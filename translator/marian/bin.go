package marian

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/sluice-mt/sluice/internal/binread"
)

// The .bin container (src/common/binary.cpp), all numbers little-endian:
//
//	uint64  version, 1 (2 is encrypted)
//	uint64  N
//	N times {uint64 name length with its NUL, uint64 type, uint64 rank, uint64 data length}
//	N names, NUL-terminated
//	N shapes, rank times int32 each
//	uint64  offset, and that many zero bytes
//	N times the data
//
// Marian pads data to blocks of 256 bytes; browsermt leaves the last item, the description, as it is, and other programs
// pad nothing. So the shape decides how many bytes count, and up to one block more is accepted.
const (
	binVersion = 1
	binBlock   = 256
	headerSize = 4 * 8
	maxRank    = 32
)

// A binHeader is what a .bin file says of a tensor before its data.
type binHeader struct {
	name               string
	nameLength, code   uint64
	rank, dataLength   uint64
	shape              []int
	headerAt, lengthAt int64 // where the header and its data length are, for errors
}

func parseBin(data []byte) (*File, error) {
	r := binread.NewReader(data)
	if err := r.Skip(8, "version"); err != nil {
		return nil, err
	}
	headers, err := readBinHeaders(r)
	if err != nil {
		return nil, err
	}
	padding, err := r.Uint64("length of the padding before the data")
	if err != nil {
		return nil, err
	}
	if err := r.Skip(padding, "padding before the data"); err != nil {
		return nil, err
	}
	return readBinData(r, headers)
}

// readBinHeaders reads headers, names and shapes.
func readBinHeaders(r *binread.Reader) ([]binHeader, error) {
	n, err := r.Count(headerSize, "number of tensors")
	if err != nil {
		return nil, err
	}
	headers := make([]binHeader, n)
	for i := range headers {
		h := &headers[i]
		h.headerAt = r.Offset()
		h.lengthAt = h.headerAt + 3*8
		fields := []*uint64{&h.nameLength, &h.code, &h.rank, &h.dataLength}
		for _, field := range fields {
			if *field, err = r.Uint64("tensor header"); err != nil {
				return nil, err
			}
		}
	}
	for i := range headers {
		if err := readBinName(r, &headers[i]); err != nil {
			return nil, err
		}
	}
	for i := range headers {
		if err := readBinShape(r, &headers[i]); err != nil {
			return nil, err
		}
	}
	return headers, nil
}

func readBinName(r *binread.Reader, h *binHeader) error {
	at := r.Offset()
	raw, err := r.Bytes(h.nameLength, "tensor name")
	if err != nil {
		return err
	}
	name, ok := bytes.CutSuffix(raw, []byte{0})
	if !ok || bytes.IndexByte(name, 0) >= 0 {
		return problemf("", at, remedyDamaged, "a tensor name of %d bytes does not end where it should", h.nameLength)
	}
	h.name, err = tensorName(string(name), at)
	return err
}

func readBinShape(r *binread.Reader, h *binHeader) error {
	if h.rank > maxRank {
		return problemf(h.name, h.headerAt, remedyDamaged, "has %d dimensions", h.rank)
	}
	h.shape = make([]int, h.rank)
	for i := range h.shape {
		at := r.Offset()
		n, err := r.Int32("shape of tensor " + h.name)
		if err != nil {
			return err
		}
		if n < 0 {
			return problemf(h.name, at, remedyDamaged, "has a dimension of %d", n)
		}
		h.shape[i] = int(n)
	}
	return nil
}

// readBinData cuts the rest of the file into tensors.
func readBinData(r *binread.Reader, headers []binHeader) (*File, error) {
	var c collector
	for i := range headers {
		h := &headers[i]
		t, err := h.tensor(r)
		if err != nil {
			return nil, err
		}
		if err := c.add(t); err != nil {
			return nil, err
		}
	}
	at := r.Offset()
	rest, err := r.Bytes(uint64(r.Remaining()), "rest of the file")
	if err != nil {
		return nil, err
	}
	if len(rest) >= binBlock || slices.ContainsFunc(rest, func(b byte) bool { return b != 0 }) {
		return nil, problemf("", at, remedyDamaged, "%d bytes follow the last tensor", len(rest))
	}
	return newFile("", Bin, c.config, c.tensors), nil
}

// tensor checks a header and takes its data.
func (h *binHeader) tensor(r *binread.Reader) (*Tensor, error) {
	if tiled := tiledType(h.code); tiled != "" {
		return nil, problemf(h.name, h.headerAt+8, "convert the .npz again with marian-conv --gemm-type "+
			plainGemmType(tiled), "is stored as %s, in the layout of one kind of processor", tiled)
	}
	typ, ok := typeOfCode(h.code)
	if !ok {
		return nil, problemf(h.name, h.headerAt+8, remedyDamaged, "has the unknown type %#x", h.code)
	}
	t := &Tensor{Name: h.name, Shape: h.shape, Type: typ, Offset: r.Offset()}
	need, ok := storedBytes(h.shape, typ)
	if !ok {
		return nil, problemf(h.name, h.lengthAt, remedyDamaged, "shape %v has more elements than any file", h.shape)
	}
	if typ == Log4Mixed {
		return t, h.takeMixed(t, r)
	}
	return t, h.take(t, r, need)
}

// take takes the data of a tensor, of which need bytes count.
func (h *binHeader) take(t *Tensor, r *binread.Reader, need uint64) error {
	if h.dataLength < need || h.dataLength-need >= binBlock {
		return problemf(h.name, h.lengthAt, remedyDamaged, "has %d bytes of data, but %s of shape %v takes %d",
			h.dataLength, t.Type, h.shape, need)
	}
	data, err := r.Bytes(h.dataLength, "data of tensor "+h.name)
	if err != nil {
		return err
	}
	t.Data = data[:need:need]
	return nil
}

// takeMixed is take for a tensor whose data say how long they are.
func (h *binHeader) takeMixed(t *Tensor, r *binread.Reader) error {
	count := *r
	first, err := count.Bytes(mixedCount, "data of tensor "+h.name)
	if err != nil {
		return err
	}
	need, ok := mixedLength(h.shape, first)
	if !ok {
		return problemf(h.name, t.Offset, remedyDamaged, "has %d rows in 8 bits, more than there are in its shape %v",
			binary.LittleEndian.Uint32(first), h.shape)
	}
	return h.take(t, r, need)
}

// plainGemmType returns the --gemm-type of marian-conv that holds what a processor's own type holds.
func plainGemmType(tiled string) string {
	switch {
	case strings.HasPrefix(tiled, "intgemm16"):
		return "intgemm16"
	case strings.HasPrefix(tiled, "packed16"):
		return "float32"
	}
	return "intgemm8"
}

// storedBytes returns how many bytes a tensor takes without padding, one of Log4Mixed at the least; ok is false if that overflows or no tensor is of the type.
func storedBytes(shape []int, t Type) (n uint64, ok bool) {
	if t.Size() == 0 && !t.In4Bits() {
		return 0, false
	}
	factors := []uint64{max(1, uint64(t.Size()))}
	for _, d := range shape {
		factors = append(factors, uint64(d))
	}
	n, ok = binread.Product(factors...)
	if !ok || n > 1<<62 {
		return 0, false
	}
	switch {
	case t == Log4:
		n = log4Bytes(n)
	case t == Log4Blocks:
		n = logBlocksBytes(n)
	case t == Log4Mixed:
		n = mixedCount
	case t.IsIntgemm():
		n += 4
	}
	return n, true
}
