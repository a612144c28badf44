package cuda

import (
	"cmp"
	"fmt"
	"strings"
)

// DefaultLibrary is what the driver installs.
const DefaultLibrary = "libcuda.so.1"

// A Version is one of CUDA: 12020 is 12.2.
type Version int

// MinimumVersion is the first version of CUDA whose drivers know everything that the kernels' PTX (ISA 8.2) uses.
const MinimumVersion Version = 12020

func (v Version) String() string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// A Driver is the opened library of NVIDIA's driver.
type Driver struct {
	call    *functions
	library string
	version Version
	pinned  pinnedMemory
}

// Open opens the driver, by default DefaultLibrary, and initialises it. Where there is no driver, none that is new enough, or no
// device, the error is ErrUnavailable or ErrOutdated and says which.
func Open(library string) (*Driver, error) {
	d := &Driver{library: cmp.Or(library, DefaultLibrary)}
	var err error
	if d.call, err = load(d.library); err != nil {
		return nil, fmt.Errorf("open the NVIDIA driver %s: %w", d.library, err)
	}
	if err := d.start(); err != nil {
		return nil, fmt.Errorf("start the NVIDIA driver %s: %w", d.library, err)
	}
	return d, nil
}

func (d *Driver) start() error {
	var version int32
	if err := d.check("cuDriverGetVersion", d.call.DriverGetVersion(&version)); err != nil {
		return err
	}
	d.version = Version(version)
	if d.version < MinimumVersion {
		return fmt.Errorf("%w: it is for CUDA %v; CUDA %v, which comes with driver 535, or a later one is needed",
			ErrOutdated, d.version, MinimumVersion)
	}
	if err := d.check("cuInit", d.call.Init(0)); err != nil {
		return err
	}
	if n, err := d.Devices(); err != nil || n == 0 {
		return cmp.Or(err, fmt.Errorf("%w: the driver sees no device (is CUDA_VISIBLE_DEVICES set?)", ErrUnavailable))
	}
	return nil
}

// Version returns the version of CUDA that the driver is for.
func (d *Driver) Version() Version { return d.version }

// Devices returns how many devices the driver shows to this process.
func (d *Driver) Devices() (int, error) {
	var n int32
	err := d.check("cuDeviceGetCount", d.call.DeviceGetCount(&n))
	return int(n), err
}

// Properties are what a device says of itself.
type Properties struct {
	Name              string
	Major, Minor      int // compute capability
	Multiprocessors   int
	Memory            uint64 // bytes
	SharedMemory      int    // bytes that a block can be given, at most
	SharedMemoryOfAll int    // bytes of a multiprocessor
	Registers         int    // of a multiprocessor
	Threads           int    // of a multiprocessor
	Clock             int    // kHz
	MemoryClock       int    // kHz
	MemoryBus         int    // bits
	SecondLevelCache  int    // bytes
}

func (p Properties) String() string {
	return fmt.Sprintf("%s (compute capability %d.%d, %d multiprocessors, %.0f GiB)", p.Name, p.Major, p.Minor, p.Multiprocessors,
		float64(p.Memory)/(1<<30))
}

// Attributes of devices, from the enumeration CUdevice_attribute of cuda.h.
const (
	attributeRegisters       int32 = 82 // CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR
	attributeClock           int32 = 13 // CU_DEVICE_ATTRIBUTE_CLOCK_RATE
	attributeMultiprocessors int32 = 16 // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
	attributeMemoryClock     int32 = 36 // CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
	attributeMemoryBus       int32 = 37 // CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH
	attributeLevelTwo        int32 = 38 // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
	attributeThreads         int32 = 39 // CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
	attributeMajor           int32 = 75 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
	attributeMinor           int32 = 76 // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
	attributeSharedOfAll     int32 = 81 // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
	attributeShared          int32 = 97 // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
)

// Properties asks a device, numbered from 0, what it is.
func (d *Driver) Properties(number int) (Properties, error) {
	device, err := d.device(number)
	if err != nil {
		return Properties{}, err
	}
	var p Properties
	name := make([]byte, 256)
	if err := d.check("cuDeviceGetName", d.call.DeviceGetName(&name[0], int32(len(name)), device)); err != nil {
		return p, err
	}
	p.Name, _, _ = strings.Cut(string(name), "\x00")
	if err := d.check("cuDeviceTotalMem", d.call.DeviceTotalMem(&p.Memory, device)); err != nil {
		return p, err
	}
	for attribute, to := range map[int32]*int{
		attributeMajor: &p.Major, attributeMinor: &p.Minor, attributeMultiprocessors: &p.Multiprocessors,
		attributeShared: &p.SharedMemory, attributeSharedOfAll: &p.SharedMemoryOfAll, attributeRegisters: &p.Registers,
		attributeThreads: &p.Threads, attributeClock: &p.Clock, attributeMemoryClock: &p.MemoryClock,
		attributeMemoryBus: &p.MemoryBus, attributeLevelTwo: &p.SecondLevelCache,
	} {
		var value int32
		if err := d.check("cuDeviceGetAttribute", d.call.DeviceGetAttribute(&value, attribute, device)); err != nil {
			return p, err
		}
		*to = int(value)
	}
	return p, nil
}

func (d *Driver) device(number int) (deviceHandle, error) {
	n, err := d.Devices()
	if err != nil {
		return 0, err
	}
	if number < 0 || number >= n {
		return 0, fmt.Errorf("%w: device %d was asked for, and there are %d, numbered from 0", ErrUnavailable, number, n)
	}
	var device deviceHandle
	err = d.check("cuDeviceGet", d.call.DeviceGet(&device, int32(number)))
	return device, err
}
