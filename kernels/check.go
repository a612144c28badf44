package kernels

import "fmt"

// need panics unless a slice of have elements can hold the want elements that a call touches. The assembly relies on it.
func need(have, want int, what string) {
	if have < want {
		panic(fmt.Sprintf("kernels: %s has %d elements, needs %d", what, have, want))
	}
}

// span returns how many elements rows of n elements touch that lie stride apart.
func span(rows, stride, n int) int {
	if rows < 0 || n < 0 {
		panic(fmt.Sprintf("kernels: %d rows of %d elements", rows, n))
	}
	if rows > 1 && stride < n {
		panic(fmt.Sprintf("kernels: rows of %d elements %d apart overlap", n, stride))
	}
	if rows == 0 || n == 0 {
		return 0
	}
	return (rows-1)*stride + n
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
