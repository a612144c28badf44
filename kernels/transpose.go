package kernels

// Transpose writes the columns of a rows×columns matrix as the rows of dst, without gaps. The rows of src are stride elements apart.
func Transpose[T any](dst, src []T, rows, columns, stride int) {
	const tile = 32 // rows and columns that stay in the first-level cache
	for top := 0; top < rows; top += tile {
		for left := 0; left < columns; left += tile {
			for i := top; i < min(top+tile, rows); i++ {
				for j := left; j < min(left+tile, columns); j++ {
					dst[j*rows+i] = src[i*stride+j]
				}
			}
		}
	}
}
