package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// What callers handle.
var (
	// ErrUnavailable means that there is no driver or no GPU.
	ErrUnavailable = errors.New("no NVIDIA GPU can be used")
	// ErrOutdated means that the driver is older than what the kernels were compiled for.
	ErrOutdated = errors.New("the NVIDIA driver is too old")
	// ErrOutOfMemory means that an allocation found no room on the device. Nothing is lost: with less, one can go on.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrLost means that the device will do nothing more in this process.
	ErrLost = errors.New("the device is lost to this process")
	// ErrUnbound means that the calling thread has no context: a goroutine did not Bind one.
	ErrUnbound = errors.New("no context is bound to this thread")
)

// Codes of the enumeration CUresult, with their names in cuda.h, which a test compares.
const (
	statusSuccess        status = 0   // CUDA_SUCCESS
	statusOutOfMemory    status = 2   // CUDA_ERROR_OUT_OF_MEMORY
	statusStubLibrary    status = 34  // CUDA_ERROR_STUB_LIBRARY
	statusUnusable       status = 46  // CUDA_ERROR_DEVICE_UNAVAILABLE
	statusNoDevice       status = 100 // CUDA_ERROR_NO_DEVICE
	statusInvalidContext status = 201 // CUDA_ERROR_INVALID_CONTEXT
	statusUncorrectable  status = 214 // CUDA_ERROR_ECC_UNCORRECTABLE
	statusLink           status = 220 // CUDA_ERROR_NVLINK_UNCORRECTABLE
	statusNewerPTX       status = 222 // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
	statusNotReady       status = 600 // CUDA_ERROR_NOT_READY
	statusIllegalAddress status = 700 // CUDA_ERROR_ILLEGAL_ADDRESS
	statusLaunchTimeout  status = 702 // CUDA_ERROR_LAUNCH_TIMEOUT
	statusPeerAlready    status = 704 // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
	statusDestroyed      status = 709 // CUDA_ERROR_CONTEXT_IS_DESTROYED
	statusAssert         status = 710 // CUDA_ERROR_ASSERT
	statusStack          status = 714 // CUDA_ERROR_HARDWARE_STACK_ERROR
	statusInstruction    status = 715 // CUDA_ERROR_ILLEGAL_INSTRUCTION
	statusMisaligned     status = 716 // CUDA_ERROR_MISALIGNED_ADDRESS
	statusAddressSpace   status = 717 // CUDA_ERROR_INVALID_ADDRESS_SPACE
	statusProgramCounter status = 718 // CUDA_ERROR_INVALID_PC
	statusLaunchFailed   status = 719 // CUDA_ERROR_LAUNCH_FAILED
	statusSystemNotReady status = 802 // CUDA_ERROR_SYSTEM_NOT_READY
	statusMismatch       status = 803 // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
	statusExternal       status = 911 // CUDA_ERROR_EXTERNAL_DEVICE
	statusUnknown        status = 999 // CUDA_ERROR_UNKNOWN
)

// lost are the errors after which every further call of the context fails.
var lost = []status{statusUnusable, statusUncorrectable, statusLink, statusIllegalAddress, statusLaunchTimeout, statusDestroyed,
	statusAssert, statusStack, statusInstruction, statusMisaligned, statusAddressSpace, statusProgramCounter, statusLaunchFailed,
	statusExternal, statusUnknown}

// An Error is what a call of the driver answered.
type Error struct {
	Call string // the function of the driver: cuMemAlloc
	Code int    // of the enumeration CUresult
	Name string // CUDA_ERROR_OUT_OF_MEMORY
	Text string // the driver's explanation, if it has one
}

func (e *Error) Error() string {
	if e.Text == "" || e.Text == e.Name {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	}
	return fmt.Sprintf("%s: %s (%s, %d)", e.Call, e.Text, e.Name, e.Code)
}

// Is tells errors.Is which of the package's errors this is one of.
func (e *Error) Is(target error) bool {
	code := status(e.Code)
	switch target {
	case ErrOutOfMemory:
		return code == statusOutOfMemory
	case ErrLost:
		return slices.Contains(lost, code)
	case ErrUnbound:
		return code == statusInvalidContext
	case ErrUnavailable:
		return code == statusNoDevice || code == statusStubLibrary || code == statusSystemNotReady
	case ErrOutdated:
		return code == statusNewerPTX || code == statusMismatch
	}
	return false
}

// check turns the answer of a call into an error.
func (d *Driver) check(call string, code status) error {
	if code == statusSuccess {
		return nil
	}
	e := &Error{Call: call, Code: int(code), Name: "an error without a name"}
	var text *byte
	if d.call.GetErrorName(code, &text) == statusSuccess && text != nil {
		e.Name = goString(text)
	}
	if d.call.GetErrorString(code, &text) == statusSuccess && text != nil {
		e.Text = goString(text)
	}
	return e
}

// goString copies a text that ends with a zero byte.
func goString(text *byte) string {
	length := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(text), length)) != 0 {
		length++
	}
	return string(unsafe.Slice(text, length))
}
