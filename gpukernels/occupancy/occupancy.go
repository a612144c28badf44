// Package occupancy computes how many blocks of a kernel are on a multiprocessor at a time, from what the kernel needs and what the
// multiprocessor has: the rules of NVIDIA's occupancy calculator (cuda_occupancy.h, against which a test compares), for devices of
// compute capability 8.0 and later.
package occupancy

// A Device is what a multiprocessor has ("CUDA C++ Programming Guide", Technical Specifications per Compute Capability).
type Device struct {
	Name              string // as ptxas calls it: sm_80
	Major, Minor      int
	Warps, MostBlocks int // at a time
	Shared            int // bytes of shared memory
	SharedOfBlock     int // of which a block can have so many
}

// Devices are those that the kernels are meant for.
func Devices() []Device {
	return []Device{
		{"sm_80", 8, 0, 64, 32, 164 << 10, 163 << 10},
		{"sm_86", 8, 6, 48, 16, 100 << 10, 99 << 10},
		{"sm_89", 8, 9, 48, 24, 100 << 10, 99 << 10},
		{"sm_90", 9, 0, 64, 32, 228 << 10, 227 << 10},
		{"sm_100", 10, 0, 64, 32, 228 << 10, 227 << 10},
		{"sm_120", 12, 0, 48, 24, 100 << 10, 99 << 10},
	}
}

// A Kernel is what a block of a kernel needs.
type Kernel struct {
	Threads   int // of a block
	Registers int // of a thread
	Shared    int // bytes of a block, static and dynamic
}

// What all of these devices have in common.
const (
	warp            = 32
	partitions      = 4 // of a multiprocessor: each has a quarter of the registers and of the warps
	registers       = 64 << 10
	registersAtOnce = 256 // what a warp gets is a multiple of
	mostRegisters   = 255 // of a thread
	sharedAtOnce    = 128
	sharedReserved  = 1 << 10 // that the system takes of each block
)

// Blocks is how many blocks of a kernel are on a multiprocessor at a time, and 0 if none can be.
func (d Device) Blocks(k Kernel) int {
	warps := roundUp(k.Threads, warp) / warp
	return min(d.MostBlocks, d.Warps/warps, d.byRegisters(k, warps), d.byShared(k))
}

// Occupancy is which part of the warps that a multiprocessor could have it has.
func (d Device) Occupancy(k Kernel) float64 {
	return float64(d.Blocks(k)*roundUp(k.Threads, warp)/warp) / float64(d.Warps)
}

func (d Device) byRegisters(k Kernel, warps int) int {
	each := roundUp(k.Registers*warp, registersAtOnce)
	if k.Registers > mostRegisters || each*roundUp(warps, partitions) > registers {
		return 0
	}
	return registers / partitions / max(each, 1) * partitions / warps
}

func (d Device) byShared(k Kernel) int {
	each := roundUp(k.Shared+sharedReserved, sharedAtOnce)
	if each-sharedReserved > d.SharedOfBlock {
		return 0
	}
	return d.Shared / each
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }
