package cuda

import (
	"fmt"
	"runtime"
	"unsafe"
)

// A Pointer is an address in the memory of a device. The zero Pointer is no memory.
type Pointer uint64

// Offset returns the address of the element at index i of an array of T that begins at p.
func Offset[T any](p Pointer, i int) Pointer {
	var element T
	return p + Pointer(i)*Pointer(unsafe.Sizeof(element))
}

// A Context is what a process has on one device: memory, kernels, streams. Everything but Bind and Close wants to be called by a
// goroutine that has bound it.
type Context struct {
	driver *Driver
	handle contextHandle
	device deviceHandle
}

// Context takes hold of a device, numbered from 0. All contexts of one device in a process share everything.
func (d *Driver) Context(number int) (*Context, error) {
	device, err := d.device(number)
	if err != nil {
		return nil, err
	}
	c := &Context{driver: d, device: device}
	if err := d.check("cuDevicePrimaryCtxRetain", d.call.DevicePrimaryCtxRetain(&c.handle, device)); err != nil {
		return nil, fmt.Errorf("take device %d: %w", number, err)
	}
	return c, nil
}

// Close gives the device back. What was allocated is freed when the last context of the device is closed.
func (c *Context) Close() error {
	return c.driver.check("cuDevicePrimaryCtxRelease", c.driver.call.DevicePrimaryCtxRelease(c.device))
}

// Bind ties the calling goroutine to its thread and the thread to the context, until release is called by the same goroutine.
// The thread's former context, if it had one, is not restored: bindings do not nest.
func (c *Context) Bind() (release func(), err error) {
	runtime.LockOSThread()
	if err := c.driver.check("cuCtxSetCurrent", c.driver.call.CtxSetCurrent(c.handle)); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return func() {
		c.driver.call.CtxSetCurrent(0) // it can only fail where nothing was bound
		runtime.UnlockOSThread()
	}, nil
}

// Reach lets copies between this device, whose context is bound, and another one go straight from one to the other, where they can. Elsewhere
// the driver leads them through the memory of this machine: they need not be asked for differently.
func (c *Context) Reach(other *Context) error {
	var can int32
	if err := c.driver.check("cuDeviceCanAccessPeer", c.driver.call.DeviceCanAccessPeer(&can, c.device, other.device)); err != nil || can == 0 {
		return err
	}
	code := c.driver.call.CtxEnablePeerAccess(other.handle, 0)
	if code == statusPeerAlready { // by another one who uses both
		return nil
	}
	return c.driver.check("cuCtxEnablePeerAccess", code)
}

// Memory returns how many bytes of the device are free, and how many it has.
func (c *Context) Memory() (free, total uint64, err error) {
	err = c.driver.check("cuMemGetInfo", c.driver.call.MemGetInfo(&free, &total))
	return free, total, err
}

// Alloc returns memory of the device for n elements of T, aligned to at least 256 bytes and holding anything at all. The error is
// ErrOutOfMemory if there is no room.
func Alloc[T any](c *Context, n int) (Pointer, error) {
	var memory Pointer
	bytes, err := size[T](n)
	if err != nil {
		return 0, err
	}
	if err := c.driver.check("cuMemAlloc", c.driver.call.MemAlloc(&memory, max(bytes, 1))); err != nil {
		return 0, fmt.Errorf("allocate %d bytes on the device: %w", bytes, err)
	}
	return memory, nil
}

// Free gives back what Alloc returned, once all work that uses it is done. The zero Pointer is ignored.
func (c *Context) Free(memory Pointer) error {
	if memory == 0 {
		return nil
	}
	return c.driver.check("cuMemFree", c.driver.call.MemFree(memory))
}

// AllocHost returns memory of this machine that the device can read and write while other work goes on: it is pinned, and cannot be paged out. It is not
// Go's: FreeHost frees it. The error is a *PinnedError if there is no more.
func AllocHost[T any](c *Context, n int) ([]T, error) {
	bytes, err := size[T](n)
	if err != nil {
		return nil, err
	}
	var memory unsafe.Pointer
	pinned := &c.driver.pinned
	if err := pinned.take(bytes); err != nil {
		return nil, err
	}
	if err := c.driver.check("cuMemHostAlloc", c.driver.call.MemHostAlloc(&memory, max(bytes, 1), 0)); err != nil {
		return nil, pinned.refused(bytes, err)
	}
	return unsafe.Slice((*T)(memory), n), nil
}

// FreeHost frees what AllocHost returned, all of it. What a driver does not free, as it does not when the device is lost, stays counted: the process
// has it as long as it runs.
func FreeHost[T any](c *Context, memory []T) error {
	err := c.driver.check("cuMemFreeHost", c.driver.call.MemFreeHost(unsafe.Pointer(unsafe.SliceData(memory))))
	if err != nil {
		return err
	}
	bytes, err := size[T](cap(memory))
	c.driver.pinned.give(bytes)
	return err
}

// size returns the bytes of n elements of T.
func size[T any](n int) (uint64, error) {
	var element T
	width := uint64(unsafe.Sizeof(element))
	if n < 0 || width > 0 && uint64(n) > (1<<62)/width {
		return 0, fmt.Errorf("no memory can hold %d elements of %d bytes", n, width)
	}
	return uint64(n) * width, nil
}
