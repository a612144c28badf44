package emulated

// FailingCalls are the calls of the driver and of cuBLASLt that can fail in the middle of work, each with a code that it can fail with: see
// SLUICE_EMULATED_FAULT.
func FailingCalls() map[string]int {
	const (
		outOfMemory, invalidContext, invalidPTX, notFound, illegalAddress, captureUnsupported, captureInvalidated = 2, 201, 218, 500, 700, 900, 901
		blasNotInitialized, blasInternalError                                                                     = 1, 14
	)
	return map[string]int{
		"cuCtxSetCurrent": invalidContext, "cuModuleLoadDataEx": invalidPTX, "cuModuleGetFunction": notFound,
		"cuMemAlloc": outOfMemory, "cuMemHostAlloc": outOfMemory, "cuStreamCreate": outOfMemory, "cuEventCreate": outOfMemory,
		"cuMemcpyHtoDAsync": illegalAddress, "cuMemcpyDtoHAsync": illegalAddress, "cuMemsetD8Async": illegalAddress,
		"cuStreamSynchronize": illegalAddress, "cuStreamWaitEvent": illegalAddress, "cuEventRecord": illegalAddress, "cuEventSynchronize": illegalAddress,
		"cuStreamBeginCapture": captureUnsupported, "cuStreamEndCapture": captureInvalidated, "cuGraphInstantiateWithFlags": outOfMemory,
		"cuGraphLaunch": illegalAddress, "cuLaunchKernel": illegalAddress, "cublasLtCreate": blasNotInitialized, "cublasLtMatmul": blasInternalError,
	}
}
