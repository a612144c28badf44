package cuda

import "unsafe"

// Handles of the driver. They are addresses in the driver's memory, which Go never looks into.
type (
	contextHandle  uintptr
	moduleHandle   uintptr
	functionHandle uintptr
	streamHandle   uintptr
	eventHandle    uintptr
	graphHandle    uintptr
	programHandle  uintptr // an instantiated graph
	deviceHandle   int32
	status         int32
)

// functions are the driver's functions that are used here. The C prototype stands above each of them. The library exports it
// as "cu" and the field's name, or by the name in the field's tag: there cuda.h lets the plain name mean a later version. A
// test compares the prototypes with cuda.h and with the Go types.
type functions struct {
	// CUresult cuInit(unsigned int Flags)
	Init func(flags uint32) status
	// CUresult cuDriverGetVersion(int *driverVersion)
	DriverGetVersion func(version *int32) status
	// CUresult cuGetErrorName(CUresult error, const char **pStr)
	GetErrorName func(code status, name **byte) status
	// CUresult cuGetErrorString(CUresult error, const char **pStr)
	GetErrorString func(code status, text **byte) status

	// CUresult cuDeviceGetCount(int *count)
	DeviceGetCount func(count *int32) status
	// CUresult cuDeviceGet(CUdevice *device, int ordinal)
	DeviceGet func(device *deviceHandle, ordinal int32) status
	// CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
	DeviceGetName func(name *byte, length int32, device deviceHandle) status
	// CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
	DeviceGetAttribute func(value *int32, attribute int32, device deviceHandle) status
	// CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
	DeviceTotalMem func(bytes *uint64, device deviceHandle) status `symbol:"cuDeviceTotalMem_v2"`

	// CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
	DevicePrimaryCtxRetain func(context *contextHandle, device deviceHandle) status
	// CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
	DevicePrimaryCtxRelease func(device deviceHandle) status `symbol:"cuDevicePrimaryCtxRelease_v2"`
	// CUresult cuCtxSetCurrent(CUcontext ctx)
	CtxSetCurrent func(context contextHandle) status
	// CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
	DeviceCanAccessPeer func(can *int32, device, peer deviceHandle) status
	// CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
	CtxEnablePeerAccess func(peer contextHandle, flags uint32) status

	// CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, void **optionValues)
	ModuleLoadDataEx func(module *moduleHandle, image unsafe.Pointer, count uint32, options *int32, values *uintptr) status
	// CUresult cuModuleUnload(CUmodule hmod)
	ModuleUnload func(module moduleHandle) status
	// CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
	ModuleGetFunction func(function *functionHandle, module moduleHandle, name *byte) status
	// CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
	FuncSetAttribute func(function functionHandle, attribute int32, value int32) status

	// CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
	MemAlloc func(to *Pointer, bytes uint64) status `symbol:"cuMemAlloc_v2"`
	// CUresult cuMemFree_v2(CUdeviceptr dptr)
	MemFree func(memory Pointer) status `symbol:"cuMemFree_v2"`
	// CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
	MemGetInfo func(free, total *uint64) status `symbol:"cuMemGetInfo_v2"`
	// CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
	MemHostAlloc func(to *unsafe.Pointer, bytes uint64, flags uint32) status
	// CUresult cuMemFreeHost(void *p)
	MemFreeHost func(memory unsafe.Pointer) status
	// CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
	MemcpyHtoDAsync func(to Pointer, from unsafe.Pointer, bytes uint64, stream streamHandle) status `symbol:"cuMemcpyHtoDAsync_v2"`
	// CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
	MemcpyDtoHAsync func(to unsafe.Pointer, from Pointer, bytes uint64, stream streamHandle) status `symbol:"cuMemcpyDtoHAsync_v2"`
	// CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
	MemcpyDtoDAsync func(to, from Pointer, bytes uint64, stream streamHandle) status `symbol:"cuMemcpyDtoDAsync_v2"`
	// CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)
	MemcpyPeerAsync func(to Pointer, toContext contextHandle, from Pointer, fromContext contextHandle, bytes uint64, stream streamHandle) status
	// CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
	MemsetD8Async func(to Pointer, value uint8, bytes uint64, stream streamHandle) status

	// CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
	CtxGetStreamPriorityRange func(least, greatest *int32) status
	// CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
	StreamCreateWithPriority func(stream *streamHandle, flags uint32, priority int32) status
	// CUresult cuStreamDestroy_v2(CUstream hStream)
	StreamDestroy func(stream streamHandle) status `symbol:"cuStreamDestroy_v2"`
	// CUresult cuStreamSynchronize(CUstream hStream)
	StreamSynchronize func(stream streamHandle) status
	// CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
	StreamWaitEvent func(stream streamHandle, event eventHandle, flags uint32) status

	// CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
	EventCreate func(event *eventHandle, flags uint32) status
	// CUresult cuEventDestroy_v2(CUevent hEvent)
	EventDestroy func(event eventHandle) status `symbol:"cuEventDestroy_v2"`
	// CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
	EventRecord func(event eventHandle, stream streamHandle) status
	// CUresult cuEventQuery(CUevent hEvent)
	EventQuery func(event eventHandle) status
	// CUresult cuEventSynchronize(CUevent hEvent)
	EventSynchronize func(event eventHandle) status
	// CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
	EventElapsedTime func(milliseconds *float32, start, end eventHandle) status

	// CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
	LaunchKernel func(function functionHandle, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream streamHandle, parameters, extra *unsafe.Pointer) status

	// CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
	StreamBeginCapture func(stream streamHandle, mode int32) status `symbol:"cuStreamBeginCapture_v2"`
	// CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
	StreamEndCapture func(stream streamHandle, graph *graphHandle) status
	// CUresult cuGraphDestroy(CUgraph hGraph)
	GraphDestroy func(graph graphHandle) status
	// CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
	GraphInstantiateWithFlags func(program *programHandle, graph graphHandle, flags uint64) status
	// CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
	GraphLaunch func(program programHandle, stream streamHandle) status
	// CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
	GraphExecDestroy func(program programHandle) status
}
