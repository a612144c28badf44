// Package gpukernels has the CUDA kernels of the engine and a typed launcher for each of them.
//
// The sources are in src/, in CUDA C++. scripts/ptx.sh compiles them to PTX, which is part of the repository and of the program: a
// machine needs NVIDIA's driver and nothing else. A test on the emulated device (gpukernels/emulated) runs the same sources.
//
// # Numbers
//
// Weights and activations are stored as fp16, or as bfloat16 (Storage), for which there is a second set of kernels from the same sources;
// where comments say fp16 it is either. Every sum, norm and exponential is computed in float32, and so are biases, scales and the
// state of recurrent units.
//
// Products may also be of 8 bits (ByteProduct), with a scale for each row of both operands. Integers are those of package kernels, and so are
// the results before they are rounded to 16 bits. Products of Float8 need devices of compute capability 8.9, and are a program of their own.
//
// # cuBLASLt
//
// Products of 16 bits may be left to NVIDIA's library where it is there (multiplication.go). A Chooser asks it for algorithms and tries each
// on a probe: MeasuredProducts takes only those that give the bits of the kernels here, LibraryProducts those whose bits do not depend
// on the number of rows.
//
// # A row depends on nothing but itself
//
// As on the processor, what a row gives depends, to the last bit, on that row and the weights: not on how many rows there are, on
// which tile of a product they fall into, or on the other sentences of a batch. Every sum runs in an order that the length of the sum
// alone decides: products over ascending k in steps of a tensor instruction, rows of a norm over the lanes of a warp and then in one
// fixed tree, attention over ascending positions of its own sentence. No sum is divided among blocks, and no kernel adds with atomics. Where
// tokens are drawn, and models are joined (Joined), sums are those of whole numbers, which have no order.
package gpukernels
