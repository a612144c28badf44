// Package emulated builds a CUDA device that is emulated on the processor, for tests: a shared library that is loaded in place of
// NVIDIA's driver, with the kernels, compiled from the same sources for the host, linked in. No GPU is needed, only g++.
//
// What is in device/ is written in C++, since the kernels are. cuda_language.h lets a .cu file compile for the host; launch.cpp runs
// the threads of a block as fibers, fiber.cpp switches between them; driver.cpp is the driver's interface, ptx.cpp what it reads of
// PTX, settings.cpp what a test can set: the amount of memory, the order of threads, errors to inject. cublaslt.cpp plays NVIDIA's library
// cuBLASLt, in the same shared library: it offers algorithms that are right, and others that must be refused.
//
// # What it finds
//
// Memory begins as NaNs, on the device and in a block, and NaNs lie behind it. The target of an asynchronous copy is NaNs until
// the copy is waited for. A stream does nothing until something waits for it, or does it at once, if it is to be ahead of others. Threads run in forward, reverse or random order, and
// only one of a block at a time, from one wait to the next. So a barrier or a wait that is missing gives wrong results in at least
// one of the orders, and always the same ones. The address sanitizer has red zones around every allocation and every shared array,
// the thread sanitizer sees what is ordered by nothing: a missing fence between blocks, too. Threads that wait for each other in different places end the launch with a
// message that names the kernel, the block, the thread and the line.
//
// It is stricter than the hardware: no thread may return before others of its block wait at a barrier, or of its warp for a warp
// operation.
//
// # What it does not find
//
// It knows nothing of speed: memory that is not coalesced, conflicts of banks. Exponentials and the order of sums inside a tensor
// instruction are not those of the hardware, so results agree with it to within rounding, not to the last bit.
package emulated
