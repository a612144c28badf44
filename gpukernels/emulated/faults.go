package emulated

import "strings"

// FailingCalls are the calls of the driver and of cuBLASLt that can fail before or in the middle of work, each with a code that it can fail with: see
// SLUICE_EMULATED_FAULT. A test of the bindings holds them complete: all that are missing begin or end everything, and it says which and why.
func FailingCalls() map[string]int {
	const (
		invalidValue, outOfMemory, invalidDevice, invalidContext, peerAccessUnsupported, invalidPTX = 1, 2, 101, 201, 217, 218
		notFound, illegalAddress, captureUnsupported, captureInvalidated, unknown                   = 500, 700, 900, 901, 999

		blasNotInitialized, blasAllocFailed, blasInvalidValue, blasInternalError = 1, 3, 7, 14
	)
	return map[string]int{
		"cuDeviceGetCount": unknown, "cuDeviceGet": invalidDevice, "cuDeviceGetName": unknown, "cuDeviceTotalMem": unknown, "cuDeviceGetAttribute": unknown,
		"cuDevicePrimaryCtxRetain": outOfMemory, "cuCtxSetCurrent": invalidContext,
		"cuDeviceCanAccessPeer": invalidDevice, "cuCtxEnablePeerAccess": peerAccessUnsupported,
		"cuModuleLoadDataEx": invalidPTX, "cuModuleGetFunction": notFound, "cuFuncSetAttribute": invalidValue,
		"cuMemAlloc": outOfMemory, "cuMemGetInfo": unknown, "cuMemHostAlloc": outOfMemory, "cuCtxGetStreamPriorityRange": unknown,
		"cuStreamCreateWithPriority": outOfMemory, "cuEventCreate": outOfMemory,
		"cuMemcpyHtoDAsync": illegalAddress, "cuMemcpyDtoHAsync": illegalAddress, "cuMemcpyDtoDAsync": illegalAddress, "cuMemcpyPeerAsync": illegalAddress,
		"cuMemsetD8Async": illegalAddress, "cuStreamSynchronize": illegalAddress, "cuStreamWaitEvent": illegalAddress,
		"cuEventRecord": illegalAddress, "cuEventQuery": illegalAddress, "cuEventSynchronize": illegalAddress, "cuEventElapsedTime": illegalAddress,
		"cuStreamBeginCapture": captureUnsupported, "cuStreamEndCapture": captureInvalidated, "cuGraphInstantiateWithFlags": outOfMemory,
		"cuGraphLaunch": illegalAddress, "cuLaunchKernel": illegalAddress,

		"cublasLtCreate": blasNotInitialized, "cublasLtMatmul": blasInternalError,
		"cublasLtMatmulDescCreate": blasAllocFailed, "cublasLtMatmulDescSetAttribute": blasInvalidValue,
		"cublasLtMatrixLayoutCreate": blasAllocFailed, "cublasLtMatrixLayoutSetAttribute": blasInvalidValue,
		"cublasLtMatmulPreferenceCreate": blasAllocFailed, "cublasLtMatmulPreferenceSetAttribute": blasInvalidValue,
		"cublasLtMatmulAlgoGetHeuristic": blasInternalError, "cublasLtMatmulAlgoCheck": blasInternalError, "cublasLtMatmulAlgoConfigGetAttribute": blasInvalidValue,
	}
}

// Dispensable says of one of FailingCalls whether its failure may be no error: where a product by cuBLASLt cannot be had, own kernels compute it. Of
// any other one, no error means that the call was not made so often.
func Dispensable(call string) bool { return strings.HasPrefix(call, "cublasLt") }
