package occupancy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/internal/sharedtest"
)

// Figures that can be followed by hand.
func TestBlocks(t *testing.T) {
	devices := map[string]Device{}
	for _, d := range Devices() {
		devices[d.Name] = d
	}
	for _, c := range []struct {
		device string
		kernel Kernel
		want   int
		why    string
	}{
		{"sm_80", Kernel{128, 32, 0}, 16, "64 warps"},
		{"sm_86", Kernel{128, 32, 0}, 12, "48 warps"},
		{"sm_86", Kernel{32, 32, 0}, 16, "16 blocks"},
		{"sm_89", Kernel{32, 32, 0}, 24, "24 blocks"},
		{"sm_80", Kernel{128, 128, 0}, 4, "a warp has 4096 of the 16384 registers of its quarter"},
		{"sm_80", Kernel{128, 121, 0}, 4, "121 registers count as 128"},
		{"sm_80", Kernel{128, 129, 0}, 3, "129 count as 136, and three warps of a quarter have them"},
		{"sm_80", Kernel{256, 256, 0}, 0, "no thread has 256 registers"},
		{"sm_80", Kernel{512, 200, 0}, 0, "more registers than there are"},
		{"sm_80", Kernel{128, 32, 40 << 10}, 4, "164 KiB hold four blocks of 41"},
		{"sm_90", Kernel{128, 32, 40 << 10}, 5, "228 KiB hold five"},
		{"sm_86", Kernel{128, 32, 99 << 10}, 1, "100 KiB hold one"},
		{"sm_86", Kernel{128, 32, 99<<10 + 1}, 0, "no block has so much"},
	} {
		if have := devices[c.device].Blocks(c.kernel); have != c.want {
			t.Errorf("%v on %s: %d blocks, want %d: %s", c.kernel, c.device, have, c.want, c.why)
		}
	}
	if have := devices["sm_86"].Occupancy(Kernel{100, 80, 0}); have != 0.5 {
		t.Errorf("an occupancy of %v, want 6 blocks of 4 warps of 48", have)
	}
}

// NVIDIA's own calculator says the same, over everything that a kernel may need.
func TestAgainstTheCalculator(t *testing.T) {
	header := emulated.Toolkit(t, "cu13", "include", "cuda_occupancy.h")
	compiler := sharedtest.Program(t, "g++")
	program := filepath.Join(t.TempDir(), "calculator")
	command := exec.Command(compiler, "-x", "c++", "-I"+filepath.Dir(header), "-o", program, "-")
	command.Stdin = strings.NewReader(calculator)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	var questions, want bytes.Buffer
	for _, d := range Devices() {
		for _, threads := range []int{32, 96, 128, 256, 1024} {
			for registers := 8; registers <= 255; registers++ {
				for _, shared := range []int{0, 127, 1 << 10, 9000, 30720, 48 << 10, 48<<10 + 1, 70000, 99 << 10, 100<<10 + 1, 163 << 10, 227 << 10, 228 << 10} {
					fmt.Fprintln(&questions, d.Major, d.Minor, 32*d.Warps, d.Shared, d.SharedOfBlock, threads, registers, shared)
					fmt.Fprintln(&want, d.Blocks(Kernel{threads, registers, shared}))
				}
			}
		}
	}
	asked := questions.String()
	command = exec.Command(program)
	command.Stdin, command.Stderr = &questions, os.Stderr
	have, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines, wanted := strings.Split(string(have), "\n"), strings.Split(want.String(), "\n")
	if len(lines) != len(wanted) {
		t.Fatalf("%d answers to %d questions", len(lines), len(wanted))
	}
	for i, question := range strings.Split(strings.TrimSpace(asked), "\n") {
		if lines[i] != wanted[i] {
			t.Fatalf("%s: %s blocks, the calculator says %s", question, wanted[i], lines[i])
		}
	}
}

// calculator answers lines of what a multiprocessor has and a kernel needs.
const calculator = `
#include <climits>
#include <cstdio>
#include <cstring>
#include "cuda_occupancy.h"

int main() {
  cudaOccDeviceProp device = {};
  cudaOccFuncAttributes kernel;
  cudaOccDeviceState state;
  device.maxThreadsPerBlock = 1024;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.reservedSharedMemPerBlock = 1 << 10;
  device.numSms = 1;
  state.cacheConfig = CACHE_PREFER_SHARED;
  int threads, dynamic;
  while (scanf("%d %d %d %zu %zu %d %d %d", &device.computeMajor, &device.computeMinor, &device.maxThreadsPerMultiprocessor,
               &device.sharedMemPerMultiprocessor, &device.sharedMemPerBlockOptin, &threads, &kernel.numRegs, &dynamic) == 8) {
    kernel.maxThreadsPerBlock = INT_MAX;
    kernel.sharedSizeBytes = 0;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = dynamic;
    cudaOccResult result = {};
    if (int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic))
      return fprintf(stderr, "error %d\n", error), 1;
    printf("%d\n", result.activeBlocksPerMultiprocessor);
  }
}
`
