package cuda

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// A Module is compiled PTX on a device.
type Module struct {
	driver  *Driver
	handle  moduleHandle
	entries map[string]entry
}

// Options of the driver's compiler, from the enumeration CUjit_option of cuda.h.
const (
	optionErrorLog     int32 = 5 // CU_JIT_ERROR_LOG_BUFFER
	optionErrorLogSize int32 = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
)

// Load compiles PTX for the device; the driver keeps the result on disk for the next time. What its compiler complains of is part
// of the error.
func (c *Context) Load(ptx string) (*Module, error) {
	entries, err := parseEntries(ptx)
	if err != nil {
		return nil, err
	}
	m := &Module{driver: c.driver, entries: entries}
	image, log := append([]byte(ptx), 0), make([]byte, 8192)
	var pinner runtime.Pinner // values holds an address that the garbage collector does not see
	defer pinner.Unpin()
	pinner.Pin(&log[0])
	options := []int32{optionErrorLog, optionErrorLogSize}
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	code := c.driver.call.ModuleLoadDataEx(&m.handle, unsafe.Pointer(&image[0]), uint32(len(options)), &options[0], &values[0])
	if err := c.driver.check("cuModuleLoadDataEx", code); err != nil {
		complaint, _, _ := strings.Cut(string(log), "\x00")
		if complaint = strings.TrimSpace(complaint); complaint != "" {
			err = fmt.Errorf("%w: %s", err, complaint)
		}
		return nil, fmt.Errorf("load kernels: %w", err)
	}
	return m, nil
}

// Close unloads the module when its work is done.
func (m *Module) Close() error {
	return m.driver.check("cuModuleUnload", m.driver.call.ModuleUnload(m.handle))
}

// A Kernel is a function that the device runs. It may be launched from several goroutines.
type Kernel struct {
	driver *Driver
	handle functionHandle
	name   string
	entry  entry
	blocks sync.Pool // of *parameterBlock
}

// What every device gives a block without being asked, in bytes of shared memory.
const sharedForAll = 48 << 10

const attributeDynamicShared int32 = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

// Kernel finds a kernel of the module and lets its blocks use up to shared bytes of dynamic shared memory.
func (m *Module) Kernel(name string, shared int) (*Kernel, error) {
	e, ok := m.entries[name]
	if !ok {
		return nil, fmt.Errorf("the PTX has no kernel %s", name)
	}
	k := &Kernel{driver: m.driver, name: name, entry: e}
	k.blocks.New = func() any { return newParameterBlock(len(e.parameters)) }
	text := append([]byte(name), 0)
	if err := m.driver.check("cuModuleGetFunction", m.driver.call.ModuleGetFunction(&k.handle, m.handle, &text[0])); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	if shared > sharedForAll {
		code := m.driver.call.FuncSetAttribute(k.handle, attributeDynamicShared, int32(shared))
		if err := m.driver.check("cuFuncSetAttribute", code); err != nil {
			return nil, fmt.Errorf("kernel %s wants %d bytes of shared memory: %w", name, shared, err)
		}
	}
	return k, nil
}

// A Shape is the size of a grid or of a block. 0 stands for 1.
type Shape struct{ X, Y, Z int }

// An Argument is what a kernel is given for one of its parameters.
type Argument struct {
	bits uint64
	kind string
}

// Address is an argument for a parameter that is a pointer.
func Address(p Pointer) Argument { return Argument{uint64(p), "u64"} }

// Int is an argument for a parameter of type int. A number that needs more bits is an error of the program.
func Int(n int) Argument {
	if n != int(int32(n)) {
		panic(fmt.Sprintf("cuda: %d is no int of a kernel", n))
	}
	return Argument{uint64(uint32(n)), "u32"}
}

// Word is an argument for a parameter of 64 bits that is no pointer.
func Word(bits uint64) Argument { return Argument{bits, "u64"} }

// Bits is an argument for a parameter of type unsigned.
func Bits(bits uint32) Argument { return Argument{uint64(bits), "u32"} }

// Float is an argument for a parameter of type float.
func Float(x float32) Argument { return Argument{uint64(math.Float32bits(x)), "f32"} }

// errArguments means that a launcher and its kernel do not agree.
var errArguments = errors.New("the arguments are not those of the kernel")

// A parameterBlock is what the driver reads the arguments of a launch from.
type parameterBlock struct {
	values    []uint64
	addresses []unsafe.Pointer // addresses[i] is that of values[i]
}

func newParameterBlock(n int) *parameterBlock {
	b := &parameterBlock{make([]uint64, n+1), make([]unsafe.Pointer, n+1)}
	for i := range b.values {
		b.addresses[i] = unsafe.Pointer(&b.values[i])
	}
	return b
}

// Launch puts the kernel into the stream, a grid of blocks with shared bytes of dynamic shared memory each. The driver cannot see
// whether the arguments are right, so they are compared with the parameters that the PTX declares.
func (k *Kernel) Launch(s *Stream, grid, block Shape, shared int, arguments ...Argument) error {
	if len(arguments) != len(k.entry.parameters) {
		return fmt.Errorf("kernel %s: %w: it has %d parameters, not %d", k.name, errArguments, len(k.entry.parameters), len(arguments))
	}
	parameters := k.blocks.Get().(*parameterBlock)
	defer k.blocks.Put(parameters)
	for i, a := range arguments {
		if a.kind != k.entry.parameters[i] {
			return fmt.Errorf("kernel %s: %w: parameter %d is %s, not %s", k.name, errArguments, i, k.entry.parameters[i], a.kind)
		}
		parameters.values[i] = a.bits
	}
	code := k.driver.call.LaunchKernel(k.handle, dimension(grid.X), dimension(grid.Y), dimension(grid.Z), dimension(block.X),
		dimension(block.Y), dimension(block.Z), uint32(shared), s.handle, &parameters.addresses[0], nil)
	if code != statusSuccess {
		return fmt.Errorf("kernel %s, a grid of %v blocks of %v threads: %w", k.name, grid, block, k.driver.check("cuLaunchKernel", code))
	}
	return nil
}

func dimension(n int) uint32 { return uint32(max(n, 1)) }
