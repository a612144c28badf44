#include "fiber.h"

namespace emulated {

#ifndef EMULATED_UCONTEXT
extern "C" void emulated_switch(void** save, void* load);
asm(R"(
.type emulated_switch,@function
emulated_switch:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
)");
#endif

void prepare(Context& c, char* low, char* top, void (*entry)()) {
  ASAN(c.bottom = low, c.size = top - low;)
#ifdef EMULATED_UCONTEXT
  getcontext(&c.uc);
  c.uc.uc_stack = {low, 0, static_cast<size_t>(top - low)};
  makecontext(&c.uc, entry, 0);
#else
  (void)low;
  auto frame = reinterpret_cast<void**>(top) - 8;  // six registers, where to return to, and that one's own return address
  std::memset(frame, 0, 64);
  frame[6] = reinterpret_cast<void*>(entry);
  c.stack_pointer = frame;
#endif
}

void switch_context(Context& from, Context& to, Context*& previous, [[maybe_unused]] bool finished) {
  previous = &from;
  ASAN(__sanitizer_start_switch_fiber(finished ? nullptr : &from.fake_stack, to.bottom, to.size);)
  TSAN(__tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);)
#ifdef EMULATED_UCONTEXT
  swapcontext(&from.uc, &to.uc);
#else
  emulated_switch(&from.stack_pointer, to.stack_pointer);
#endif
  ASAN(__sanitizer_finish_switch_fiber(from.fake_stack, &previous->bottom, &previous->size);)
}

void arrived([[maybe_unused]] Context*& previous) {
  ASAN(__sanitizer_finish_switch_fiber(nullptr, &previous->bottom, &previous->size);)
}

}  // namespace emulated
