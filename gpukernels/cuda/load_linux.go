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
	handle, err := open(library)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	call := &functions{}
	v := reflect.ValueOf(call).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		address, err := purego.Dlsym(handle, symbol(field))
		if err != nil {
			return nil, fmt.Errorf("%w: it has no function %s", ErrOutdated, symbol(field))
		}
		purego.RegisterFunc(v.Field(i).Addr().Interface(), address)
	}
	call.bindFrequent(handle)
	return call, nil
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

// symbol returns the name by which the library exports a function.
func symbol(field reflect.StructField) string {
	if name := field.Tag.Get("symbol"); name != "" {
		return name
	}
	return "cu" + field.Name
}
