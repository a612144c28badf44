// What another library of NVIDIA's finds in the driver: cublaslt.cpp works on its streams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace emulated {

struct Stream;

// A call that goes on while no other one does. It answers an error without doing anything if a fault was set for it, or with what
// the driver would answer.
struct Call {
  explicit Call(const char* name);
  std::lock_guard<std::mutex> lock;
  int fault = 0;   // of a setting
  int driver = 0;  // an error of the driver
};

// Puts work into a stream, or into what is captured of it.
int submit(Stream* stream, std::function<void()> work);
// Says whether bytes are memory of the calling thread's device.
bool on_device(uint64_t address, size_t bytes);
// Says whether a stream is one of the calling thread's device.
bool is_own(Stream* stream);

}  // namespace emulated
