// Package cuda calls the driver of NVIDIA's GPUs: devices, memory, streams, events, graphs, and kernels given as PTX; and, where it is
// installed, the library cuBLASLt, which multiplies matrices (blas.go).
//
// The driver's library is opened when it is asked for, without cgo and without the CUDA toolkit, so that one program runs on
// machines with and without a GPU. Where there is none, Open says why, and the caller goes on without. Only Linux on amd64 and
// arm64 has a driver to open; elsewhere, and with the build tag nogpu, which gives a fully static program, Open always fails.
//
// # Threads
//
// The driver keeps its current context for each thread of the operating system. A goroutine that uses a Context binds it first
// (Context.Bind), and stays on its thread until it releases it. Several goroutines may bind one Context, each with streams of
// its own; memory, modules and kernels belong to all of them.
//
// # Errors
//
// A call that fails gives an *Error with the driver's name for what happened. Work on a stream fails later than the call that
// asked for it, so an error may come from any earlier launch. After some errors (an address out of bounds in a kernel, memory
// that cannot be corrected, a card that is gone) the device can do nothing more in this process: those are ErrLost.
package cuda
