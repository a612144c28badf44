package marian

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
)

// AlphaSuffix is what is added to the name of a weight to name its alpha: the multiplier that turns the activations which
// meet the weight into 8-bit numbers.
const AlphaSuffix = "_QuantMultA"

// IsAlpha tells whether a tensor is an alpha rather than a parameter.
func (t *Tensor) IsAlpha() bool { return strings.HasSuffix(t.Name, AlphaSuffix) }

// Float returns the model with every floating-point and quantised tensor as Float32 or Float16, and without alphas, which
// mean nothing there. Data that do not change alias those of f, which must not be closed before. A value that float16 cannot
// hold is an error.
func (f *File) Float(to Type) (*File, error) {
	if to != Float32 && to != Float16 {
		return nil, problemf("", nowhere, "", "%s is not a floating-point type that models are stored in", to)
	}
	var tensors []*Tensor
	for _, t := range f.Tensors {
		if t.IsAlpha() {
			continue
		}
		converted, err := t.toFloat(to)
		if err != nil {
			return nil, withPath(err, f.Path)
		}
		tensors = append(tensors, converted)
	}
	return newFile(f.Path, f.Format, f.Config, tensors), nil
}

// view returns another tensor on the same data, so that the models that hold them can be closed one by one.
func (t *Tensor) view() *Tensor {
	same := *t
	return &same
}

func (t *Tensor) toFloat(to Type) (*Tensor, error) {
	if t.Type == to || t.Type.isInteger() {
		return t.view(), nil
	}
	values, err := t.Float32()
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, len(values)*to.Size())
	for i, v := range values {
		if to == Float32 {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
			continue
		}
		h := floatToHalf(v)
		if h&0x7fff == 0x7c00 && !math.IsInf(float64(v), 0) {
			return nil, problemf(t.Name, nowhere, "write the model as float32", "element %d is %v, too large for float16", i, v)
		}
		data = binary.LittleEndian.AppendUint16(data, h)
	}
	return &Tensor{Name: t.Name, Shape: t.Shape, Type: to, Data: data, Offset: nowhere}, nil
}

// Quantized tells whether a family's converter stores the tensor of that name as intgemm: names that end in _W or in _W and
// one more character, with no _W before that; in browsermt also embeddings.
func Quantized(name string, family Family) bool {
	if family == Browsermt && strings.Contains(name, "Wemb") {
		return true
	}
	at := strings.Index(name, "_W")
	return at >= 0 && (at == len(name)-2 || at == len(name)-3)
}

// Quantize returns the model with its weights as Intgemm8 or Intgemm16, in the layout and with the multipliers that a
// family's converter gives them (QuantizeInt8, QuantizeInt16), all else as float32. Weights of the wanted type stay as they
// are. alphas maps weights to the multipliers of their activations, which become tensors NAME_QuantMultA; the alpha of
// "Wemb", the shared embedding and output layer, is also written as none_QuantMultA, the name that older readers know.
// Alphas that f has already stay, unless alphas names them too. Data that do not change alias those of f, which must not be
// closed before.
func (f *File) Quantize(to Type, family Family, alphas map[string]float32) (*File, error) {
	if !to.IsIntgemm() {
		return nil, problemf("", nowhere, "", "%s is not a type of quantised weights", to)
	}
	all, err := withAlphas(f, alphas)
	if err != nil {
		return nil, withPath(err, f.Path)
	}
	tensors := make([]*Tensor, len(all))
	for i, t := range all {
		if Quantized(t.Name, family) {
			tensors[i], err = t.quantize(to)
		} else {
			tensors[i], err = t.toFloat(Float32)
		}
		if err != nil {
			return nil, withPath(err, f.Path)
		}
	}
	return newFile(f.Path, f.Format, f.Config, tensors), nil
}

// withAlphas returns the tensors of a model with alphas added, or put in the place of those it had.
func withAlphas(f *File, alphas map[string]float32) ([]*Tensor, error) {
	added := make(map[string]*Tensor)
	for _, name := range slices.Sorted(maps.Keys(alphas)) {
		alpha, weight := alphas[name], f.Tensor(name)
		if name != "none" && (weight == nil || !Quantized(name, Browsermt)) {
			return nil, problemf(name, nowhere, "", "has an alpha, but is not a weight of this model")
		}
		if !(alpha > 0) || math.IsInf(float64(alpha), 0) {
			return nil, problemf(name, nowhere, "", "the alpha %v is not a positive number", alpha)
		}
		added[name+AlphaSuffix] = alphaTensor(name, alpha)
	}
	if alpha, shared := alphas["Wemb"]; shared && added["none"+AlphaSuffix] == nil {
		added["none"+AlphaSuffix] = alphaTensor("none", alpha)
	}
	var tensors []*Tensor
	for _, t := range f.Tensors {
		if added[t.Name] == nil {
			tensors = append(tensors, t)
		}
	}
	for _, t := range added {
		tensors = append(tensors, t)
	}
	slices.SortFunc(tensors, func(a, b *Tensor) int { return strings.Compare(a.Name, b.Name) })
	return tensors, nil
}

func alphaTensor(name string, alpha float32) *Tensor {
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(alpha))
	return &Tensor{Name: name + AlphaSuffix, Shape: []int{1}, Type: Float32, Data: data, Offset: nowhere}
}

// quantize returns a tensor as a type of quantised weights, transposed unless its name says that it is an embedding.
func (t *Tensor) quantize(to Type) (*Tensor, error) {
	if t.Type == to {
		return t.view(), nil
	}
	values, err := t.finite()
	if err != nil {
		return nil, err
	}
	q := &Tensor{Name: t.Name, Shape: t.Shape, Type: to, Offset: nowhere}
	q.Data = make([]byte, 0, len(values)*to.Size()+4)
	var multiplier float32
	if to == Intgemm8 {
		var small []int8
		small, multiplier = QuantizeInt8(values)
		for _, v := range stored(q, small) {
			q.Data = append(q.Data, byte(v))
		}
	} else {
		var small []int16
		small, multiplier = QuantizeInt16(values)
		for _, v := range stored(q, small) {
			q.Data = binary.LittleEndian.AppendUint16(q.Data, uint16(v))
		}
	}
	q.Data = binary.LittleEndian.AppendUint32(q.Data, math.Float32bits(multiplier))
	return q, nil
}

// finite returns the elements of a tensor that is to be quantised.
func (t *Tensor) finite() ([]float32, error) {
	values, err := t.Float32()
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if v-v != 0 { // infinite or not a number
			return nil, problemf(t.Name, nowhere, "train or download the model again", "element %d is %v", i, v)
		}
	}
	return values, nil
}

// stored brings elements in logical order into the order in which the tensor is stored: the reverse of logical.
func stored[T any](t *Tensor, values []T) []T {
	if !t.Transposed() {
		return values
	}
	rows, cols := t.Matrix()
	ordered := make([]T, len(values))
	transpose(ordered, values, rows, cols)
	return ordered
}

// QuantizeInt8 multiplies by 127/max|v|, rounds to the nearest integer, ties to even, and clamps to ±127: the arithmetic of
// Marian's converter, in single precision (kpu/intgemm, Int8::Quantize). Where all values are zero the multiplier is 127;
// Marian would divide by zero and store the result.
func QuantizeInt8(values []float32) (quantized []int8, multiplier float32) {
	var largest float32
	for _, v := range values {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest == 0 {
		return make([]int8, len(values)), 127
	}
	multiplier = 127 / largest
	if math.IsInf(float64(multiplier), 0) { // values so small that only denormals are left
		multiplier = math.MaxFloat32
	}
	quantized = make([]int8, len(values))
	for i, v := range values {
		quantized[i] = int8(min(127, max(-127, math.RoundToEven(float64(v*multiplier)))))
	}
	return quantized, multiplier
}

// QuantizeInt16 multiplies by 1024, rounds to the nearest integer, ties to even, and clamps to what fits.
func QuantizeInt16(values []float32) (quantized []int16, multiplier float32) {
	multiplier = 1024
	quantized = make([]int16, len(values))
	for i, v := range values {
		q := math.RoundToEven(float64(v * multiplier))
		quantized[i] = int16(min(math.MaxInt16, max(math.MinInt16, q)))
	}
	return quantized, multiplier
}
