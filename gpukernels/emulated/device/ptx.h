// What the device takes from PTX: that it is some, for this device and driver, and what kernels it declares. A PTX that is older than
// the kernels' sources is thereby noticed.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace emulated {

struct Entry {
  std::vector<size_t> parameter_sizes;
  unsigned most_threads = 1024;
};
struct Module { std::map<std::string, Entry> entries; };

// Returns 0 or an error of the driver, and in complaint what its compiler would say.
int parse(const std::string& ptx, Module&, std::string& complaint);

}  // namespace emulated
