// Stacks that can be left and resumed, and what the sanitizers have to be told about them.
#pragma once
#include <cstddef>

#include "block.h"

#if !defined(__x86_64__)
#define EMULATED_UCONTEXT
#include <ucontext.h>
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN(...) __VA_ARGS__
#else
#define ASAN(...)
#endif

#ifdef EMULATED_TSAN  // the device itself is built without -fsanitize=thread: only kernels are watched for races
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreWritesBegin(const char*, int), AnnotateIgnoreWritesEnd(const char*, int);
#define TSAN(...) __VA_ARGS__
#else
#define TSAN(...)
#endif

namespace emulated {

// A stack that can be resumed.
struct Context {
  void* stack_pointer = nullptr;
  ASAN(void* fake_stack = nullptr; const void* bottom = nullptr; size_t size = 0;)
  TSAN(void* tsan = nullptr;)
#ifdef EMULATED_UCONTEXT
  ucontext_t uc;
#endif
};

// Makes the context start with a call of entry, which must not return, on the stack from low to top.
void prepare(Context&, char* low, char* top, void (*entry)());

// Suspends from, and resumes to. previous is where the resumed one finds who was suspended. A finished one is never resumed.
void switch_context(Context& from, Context& to, Context*& previous, bool finished);

// The first thing that a new context does.
void arrived(Context*& previous);

}  // namespace emulated
