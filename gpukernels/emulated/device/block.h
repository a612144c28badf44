// What kernels need of the block that they run in, and how they become known. Included by kernels through cuda_language.h.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__has_feature)  // clang's way to say what GCC says by __SANITIZE_ADDRESS__
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

struct uint3 { unsigned x, y, z; };

namespace emulated {

// Each thread has a stack of this size, aligned to it.
#ifdef __SANITIZE_ADDRESS__
constexpr uintptr_t kStackSize = 1 << 18;
#else
constexpr uintptr_t kStackSize = 1 << 16;
#endif

using Place = std::source_location;

struct Block {
  uint3 index, threads, grid;
  void* dynamic;  // shared memory whose size the launch gives
};

// An asynchronous copy of 16 bytes (zeros if from is null), or the end of a group of copies.
struct AsyncCopy {
  void* to;
  const void* from;
  bool ends_group;
};

struct Thread {
  uint3 index;
  Block* block;
  std::vector<AsyncCopy> copies;
};

// The running thread. It is stored at the foot of its stack, since nothing else belongs to a fiber alone.
inline __attribute__((always_inline)) Thread& self() {
  return *reinterpret_cast<Thread*>(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) & ~(kStackSize - 1));
}

// The block's array for a declaration, which the key stands for.
void* shared_memory(const void* key, size_t size);

// Waits until all threads of the block wait at the same place.
void barrier(Place);

// What the thread wrote before is seen by those that pass a fence later.
void fence();

// An operation of a warp gets what each lane brought, lanes[i], and is run once for all lanes of the mask.
using Operation = void (*)(void** lanes, unsigned mask);
void collective(unsigned mask, Operation, void* brought, Place);

// Ends the launch with a message about the running thread.
[[noreturn]] void fail(const char* what, Place);

template <class F> void for_each_lane(unsigned mask, F f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

// A kernel as the driver sees it. It is made of nothing that takes long to compile, since every file of kernels includes this.
struct Kernel {
  std::vector<size_t> parameter_sizes;
  void (*run_thread)(void** arguments);
};

void register_kernel(const char* name, Kernel);

template <auto kernel> struct Caller;
template <class... P, void (*kernel)(P...)> struct Caller<kernel> {
  static void run(void** arguments) { run(arguments, std::index_sequence_for<P...>{}); }
  template <size_t... I> static void run(void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<P>*>(arguments[I])...);
  }
  static std::vector<size_t> sizes() { return {sizeof(P)...}; }
};

template <auto kernel> struct Registration {
  explicit Registration(const char* name) { register_kernel(name, {Caller<kernel>::sizes(), Caller<kernel>::run}); }
};

}  // namespace emulated
