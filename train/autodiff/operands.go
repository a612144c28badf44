package autodiff

// A packer is a right operand in the way that a kernel reads it.
type packer[M any] interface {
	*M
	Pack(k, n int, b []float32, stride int)
	PackTransposed(k, n int, b []float32, stride int)
}

// operands are the right operands of a device's products.
type operands[M any, P packer[M]] struct {
	packed M
	kept   []keptMatrix[M]
}

// A keptMatrix is a right operand that is packed once between two calls of Reset.
type keptMatrix[M any] struct {
	first  *float32 // its first number, which tells it from others
	order  Order
	packed *M
	fresh  bool
}

// reset says that all operands may have changed.
func (o *operands[M, P]) reset() {
	for i := range o.kept {
		o.kept[i].fresh = false
	}
}

// pack readies the right operand of a product.
func (o *operands[M, P]) pack(b View[float32], order Order) *M {
	if !b.Kept {
		fill(P(&o.packed), b, order)
		return &o.packed
	}
	if order == TransposedA {
		order = Straight // which packs the same
	}
	for i := range o.kept {
		if k := &o.kept[i]; k.first == &b.Data[0] && k.order == order {
			if !k.fresh {
				fill(P(k.packed), b, order)
				k.fresh = true
			}
			return k.packed
		}
	}
	k := keptMatrix[M]{&b.Data[0], order, new(M), true}
	fill(P(k.packed), b, order)
	o.kept = append(o.kept, k)
	return k.packed
}

func fill[M any, P packer[M]](w P, b View[float32], order Order) {
	if order == TransposedB {
		w.PackTransposed(b.Cols, b.Rows, b.Data, b.Stride)
		return
	}
	w.Pack(b.Rows, b.Cols, b.Data, b.Stride)
}
