// Running the blocks of a launch.
#pragma once
#include <map>
#include <string>

#include "block.h"

namespace emulated {

struct Launch {
  std::string name;
  uint3 grid, threads;
  unsigned dynamic_shared;
  const Kernel* kernel;
  std::vector<std::vector<char>> arguments;
};

// Runs all blocks. Returns what went wrong, or an empty string.
std::string run(const Launch&);

// The kernels that are linked in.
std::map<std::string, Kernel>& kernels();

// Memory that is full of NaNs; null if there is none.
void* allocate(size_t alignment, size_t bytes);

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...);

}  // namespace emulated
