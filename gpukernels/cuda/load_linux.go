//go:build linux && (amd64 || arm64) && !nogpu

package cuda

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// load opens the driver's library and binds its functions.
func load(library string) (*functions, error) {
	call := &functions{}
	handle, err := bind(library, call, driverPrefix, ErrUnavailable, ErrOutdated)
	if err != nil {
		return nil, err
	}
	call.bindFrequent(handle)
	return call, nil
}

// loadBLAS opens the library cuBLASLt and binds its functions.
func loadBLAS(library string) (*blasFunctions, error) {
	call := &blasFunctions{}
	handle, err := bind(library, call, blasPrefix, ErrNoBLAS, ErrBLASOutdated)
	if err != nil {
		return nil, err
	}
	call.bindFrequent(handle)
	return call, nil
}

// bind opens a library and binds its functions to the fields of a structure. The error is one of two: there is no such library, or it lacks
// a function.
func bind(library string, functions any, prefix string, absent, outdated error) (uintptr, error) {
	handle, err := open(library)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", absent, err)
	}
	v := reflect.ValueOf(functions).Elem()
	for i := range v.NumField() {
		name := symbol(prefix, v.Type().Field(i))
		address, err := purego.Dlsym(handle, name)
		if err != nil {
			return 0, fmt.Errorf("%w: it has no function %s", outdated, name)
		}
		purego.RegisterFunc(v.Field(i).Addr().Interface(), address)
	}
	return handle, nil
}

// open opens a library. What went wrong is kept for each thread, so it is asked for on the same one.
func open(library string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// bindFrequent binds anew the functions that every step of a decoder calls: what RegisterFunc makes allocates at each call.
func (f *functions) bindFrequent(library uintptr) {
	address := func(name string) uintptr {
		a, _ := purego.Dlsym(library, name) // load has found it
		return a
	}
	launch, graph, record, wait := address("cuLaunchKernel"), address("cuGraphLaunch"), address("cuEventRecord"), address("cuStreamWaitEvent")
	arguments := sync.Pool{New: func() any { return new([11]uintptr) }} // SyscallN moves what it is given to the heap
	f.LaunchKernel = func(function functionHandle, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream streamHandle,
		parameters, extra *unsafe.Pointer) status {
		a := arguments.Get().(*[11]uintptr)
		defer arguments.Put(a)
		*a = [...]uintptr{uintptr(function), uintptr(gridX), uintptr(gridY), uintptr(gridZ), uintptr(blockX), uintptr(blockY),
			uintptr(blockZ), uintptr(shared), uintptr(stream), uintptr(unsafe.Pointer(parameters)), uintptr(unsafe.Pointer(extra))}
		r, _, _ := purego.SyscallN(launch, a[:]...)
		runtime.KeepAlive(parameters)
		runtime.KeepAlive(extra)
		return status(r)
	}
	f.GraphLaunch = func(program programHandle, stream streamHandle) status {
		r, _, _ := purego.SyscallN(graph, uintptr(program), uintptr(stream))
		return status(r)
	}
	f.EventRecord = func(event eventHandle, stream streamHandle) status {
		r, _, _ := purego.SyscallN(record, uintptr(event), uintptr(stream))
		return status(r)
	}
	f.StreamWaitEvent = func(stream streamHandle, event eventHandle, flags uint32) status {
		r, _, _ := purego.SyscallN(wait, uintptr(stream), uintptr(event), uintptr(flags))
		return status(r)
	}
}

// bindFrequent binds anew the functions that every product calls.
func (f *blasFunctions) bindFrequent(library uintptr) {
	address := func(name string) uintptr {
		a, _ := purego.Dlsym(library, name) // loadBLAS has found it
		return a
	}
	multiply, set := address("cublasLtMatmul"), address("cublasLtMatrixLayoutSetAttribute")
	arguments := sync.Pool{New: func() any { return new([16]uintptr) }} // SyscallN moves what it is given to the heap
	f.Matmul = func(handle blasHandle, description descriptionHandle, alpha *float32, x Pointer, ofX layoutHandle, y Pointer, ofY layoutHandle,
		beta *float32, c Pointer, ofC layoutHandle, d Pointer, ofD layoutHandle, algorithm *algorithmBits, workspace Pointer, bytes uint64,
		stream streamHandle) blasStatus {
		a := arguments.Get().(*[16]uintptr)
		defer arguments.Put(a)
		*a = [...]uintptr{uintptr(handle), uintptr(description), uintptr(unsafe.Pointer(alpha)), uintptr(x), uintptr(ofX), uintptr(y), uintptr(ofY),
			uintptr(unsafe.Pointer(beta)), uintptr(c), uintptr(ofC), uintptr(d), uintptr(ofD), uintptr(unsafe.Pointer(algorithm)),
			uintptr(workspace), uintptr(bytes), uintptr(stream)}
		r, _, _ := purego.SyscallN(multiply, a[:]...)
		runtime.KeepAlive(alpha)
		runtime.KeepAlive(beta)
		runtime.KeepAlive(algorithm)
		return blasStatus(r)
	}
	f.MatrixLayoutSetAttribute = func(layout layoutHandle, attribute int32, from unsafe.Pointer, bytes uint64) blasStatus {
		r, _, _ := purego.SyscallN(set, uintptr(layout), uintptr(attribute), uintptr(from), uintptr(bytes))
		runtime.KeepAlive(from)
		return blasStatus(r)
	}
}

const (
	driverPrefix = "cu"
	blasPrefix   = "cublasLt"
)

// symbol returns the name by which a library exports a function.
func symbol(prefix string, field reflect.StructField) string {
	if name := field.Tag.Get("symbol"); name != "" {
		return name
	}
	return prefix + field.Name
}
