package marian

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// Elements returns the number of elements; a tensor without dimensions has one.
func (t *Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Matrix returns the shape as Marian sees it in a matrix product: the last dimension is the columns, all others together
// are the rows.
func (t *Tensor) Matrix() (rows, cols int) {
	if len(t.Shape) == 0 {
		return 1, 1
	}
	rows = 1
	for _, d := range t.Shape[:len(t.Shape)-1] {
		rows *= d
	}
	return rows, t.Shape[len(t.Shape)-1]
}

// Transposed tells whether the data are stored column by column: quantised weights are, except embeddings, which both
// families of Marian know by the name.
func (t *Tensor) Transposed() bool {
	return t.Type.IsIntgemm() && !strings.Contains(t.Name, "Wemb")
}

// Float32 returns the elements in logical row-major order, whatever their type: halves and integers converted, quantised
// weights divided by their multiplier and transposed back.
//
// If the tensor is float32 already and its data are aligned to 4 bytes in memory, the result aliases Tensor.Data, which may
// be a read-only memory map: it must not be written to and must not be used after File.Close. Otherwise it is a copy.
func (t *Tensor) Float32() ([]float32, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	n := t.Elements()
	if t.Type == Float32 {
		if aliased, ok := aliasFloat32(t.Data); ok {
			return aliased, nil
		}
	}
	values := make([]float32, n)
	switch t.Type {
	case Intgemm8, Intgemm16:
		return values, t.dequantize(values)
	case Log4:
		return values, t.expandLog4(values)
	case Log4Blocks:
		return values, t.expandLogBlocks(values, 0)
	case Log4Mixed:
		return values, t.expandMixed(values)
	case Float16:
		halvesToFloats(values, t.Data)
	case Float32:
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	case Float64:
		for i := range values {
			values[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:])))
		}
	default:
		t.integersToFloat(values)
	}
	return values, nil
}

func (t *Tensor) integersToFloat(values []float32) {
	for i := range values {
		at := t.Data[i*t.Type.Size():]
		switch t.Type {
		case Int8:
			values[i] = float32(int8(at[0]))
		case Uint8:
			values[i] = float32(at[0])
		case Int16:
			values[i] = float32(int16(binary.LittleEndian.Uint16(at)))
		case Uint16:
			values[i] = float32(binary.LittleEndian.Uint16(at))
		case Int32:
			values[i] = float32(int32(binary.LittleEndian.Uint32(at)))
		case Uint32:
			values[i] = float32(binary.LittleEndian.Uint32(at))
		case Int64:
			values[i] = float32(int64(binary.LittleEndian.Uint64(at)))
		case Uint64:
			values[i] = float32(binary.LittleEndian.Uint64(at))
		}
	}
}

// dequantize computes q·(1/multiplier) in single precision, the rounding of browsermt's own embeddings.
func (t *Tensor) dequantize(values []float32) error {
	multiplier, err := t.Multiplier()
	if err != nil {
		return err
	}
	inverse := 1 / multiplier
	if t.Type == Intgemm8 {
		for i, q := range logical(t, bytesAsInt8(t.Data[:len(values)])) {
			values[i] = float32(q) * inverse
		}
		return nil
	}
	for i, q := range logical(t, t.storedInt16()) {
		values[i] = float32(q) * inverse
	}
	return nil
}

// storedInt16 returns the elements of an Intgemm16 tensor as they are stored.
func (t *Tensor) storedInt16() []int16 {
	stored := make([]int16, t.Elements())
	for i := range stored {
		stored[i] = int16(binary.LittleEndian.Uint16(t.Data[2*i:]))
	}
	return stored
}

// logical brings stored elements into logical row-major order: the slice itself if they are in it, else a copy.
func logical[T any](t *Tensor, stored []T) []T {
	if !t.Transposed() {
		return stored
	}
	rows, cols := t.Matrix()
	values := make([]T, len(stored))
	transpose(values, stored, cols, rows)
	return values
}

// transpose writes the transposed of a rows×cols matrix into dst. It goes by square tiles, so that the side that is not
// walked along stays in the cache.
func transpose[T any](dst, src []T, rows, cols int) {
	if len(src) == 0 {
		return // one dimension is zero; the other may be any number
	}
	const tile = 32
	for top := 0; top < rows; top += tile {
		bottom := min(top+tile, rows)
		for left := 0; left < cols; left += tile {
			right := min(left+tile, cols)
			for c := left; c < right; c++ {
				column := dst[c*rows+top : c*rows+bottom]
				at := top*cols + c
				for i := range column {
					column[i] = src[at]
					at += cols
				}
			}
		}
	}
}

// Int8 returns the elements of an Intgemm8 tensor in logical row-major order, with the multiplier that made them: the
// weight is value/multiplier. The result of an embedding aliases Tensor.Data, with the limits that Float32 names; that of
// any other tensor is a transposed copy.
func (t *Tensor) Int8() (values []int8, multiplier float32, err error) {
	stored, multiplier, err := t.StoredInt8()
	if err != nil {
		return nil, 0, err
	}
	return logical(t, stored), multiplier, nil
}

// StoredInt8 is Int8 without the transposition: the elements of a tensor whose Transposed is true come column by column of
// the logical shape. The result always aliases Tensor.Data.
func (t *Tensor) StoredInt8() (values []int8, multiplier float32, err error) {
	if t.Type != Intgemm8 {
		return nil, 0, problemf(t.Name, nowhere, "", "is %s, not intgemm8", t.Type)
	}
	if multiplier, err = t.Multiplier(); err != nil {
		return nil, 0, err
	}
	return bytesAsInt8(t.Data[:t.Elements()]), multiplier, nil
}

// Int16 returns the elements of an Intgemm16 tensor in logical row-major order, with the multiplier that made them: the weight is
// value/multiplier.
func (t *Tensor) Int16() (values []int16, multiplier float32, err error) {
	if t.Type != Intgemm16 {
		return nil, 0, problemf(t.Name, nowhere, "", "is %s, not intgemm16", t.Type)
	}
	if multiplier, err = t.Multiplier(); err != nil {
		return nil, 0, err
	}
	return logical(t, t.storedInt16()), multiplier, nil
}

// Multiplier returns the factor that an Intgemm8 or Intgemm16 tensor was multiplied by before rounding.
func (t *Tensor) Multiplier() (float32, error) {
	if !t.Type.IsIntgemm() {
		return 0, problemf(t.Name, nowhere, "", "is %s, which has no multiplier", t.Type)
	}
	if err := t.check(); err != nil {
		return 0, err
	}
	at := t.Elements() * t.Type.Size()
	m := math.Float32frombits(binary.LittleEndian.Uint32(t.Data[at:]))
	// Marian writes an infinite multiplier for a matrix of zeros; 1/m is then zero, as it should be.
	if !(m > 0) {
		return 0, problemf(t.Name, t.Offset+int64(at), remedyDamaged, "has the quantisation multiplier %v", m)
	}
	return m, nil
}

// Scalar returns the value of a tensor of one element, of any type and shape. Quantisation multipliers of activations
// (alphas) are stored like this, the one of a browsermt embedding even as intgemm8.
func (t *Tensor) Scalar() (float32, error) {
	if t.Elements() != 1 {
		return 0, problemf(t.Name, t.Offset, "", "should be one number, but has shape %v", t.Shape)
	}
	values, err := t.Float32()
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// check tells whether the data are as long as type and shape say. Tensors of an opened file always are; those that a
// program puts together may not be.
func (t *Tensor) check() error {
	for _, d := range t.Shape {
		if d < 0 {
			return problemf(t.Name, nowhere, "", "has the shape %v", t.Shape)
		}
	}
	need, ok := storedBytes(t.Shape, t.Type)
	if ok && t.Type == Log4Mixed {
		need, ok = mixedLength(t.Shape, t.Data)
	}
	if !ok || need != uint64(len(t.Data)) {
		return problemf(t.Name, nowhere, "", "has %d bytes of data, which is not %s of shape %v", len(t.Data), t.Type, t.Shape)
	}
	return nil
}

// aliasFloat32 views bytes as singles, if the machine's byte order and the alignment of the bytes allow it.
func aliasFloat32(data []byte) ([]float32, bool) {
	if len(data) < 4 {
		return []float32{}, len(data) == 0
	}
	first := unsafe.Pointer(unsafe.SliceData(data))
	if !littleEndian() || uintptr(first)%unsafe.Alignof(float32(0)) != 0 {
		return nil, false
	}
	return unsafe.Slice((*float32)(first), len(data)/4), true
}

func littleEndian() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}

// bytesAsInt8 views bytes as signed.
func bytesAsInt8(data []byte) []int8 {
	if len(data) == 0 {
		return []int8{}
	}
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(data))), len(data))
}

// String describes a tensor in a few words, for messages.
func (t *Tensor) String() string {
	return fmt.Sprintf("%s %s%v", t.Name, t.Type, t.Shape)
}
