#include "launch.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "fiber.h"
#include "settings.h"

namespace emulated {

// What lies behind an allocation is NaNs too, so that what reads too far reads the same in every run, and nothing that looks right.
// The address sanitizer has its red zones there.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMargin = 0;
#else
constexpr size_t kMargin = 1 << 10;
#endif

void* allocate(size_t alignment, size_t bytes) {
  void* p = nullptr;
  return posix_memalign(&p, alignment, bytes + kMargin) ? nullptr : memset(p, 0xff, bytes + kMargin);
}

std::string text(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

void register_kernel(const char* name, Kernel k) {
  kernels()[name] = std::move(k);
  TSAN(__tsan_release(&kernels());)
}

namespace {

struct Fiber : Thread, Context {
  unsigned number;    // in the block
  const char* waits;  // what for, or null
  Place place;        // where
};
constexpr size_t kFoot = 4096;  // of a stack: the Fiber, before a page that may not be touched
static_assert(sizeof(Fiber) <= kFoot);

struct Lane {
  Operation operation;
  unsigned mask, line;
  TSAN(char in, out;)  // stand for what happens before and after the operation
};

struct Warp {
  unsigned live = 0, ready = 0, arrived = 0;  // lanes that have not returned, can run, wait for their warp
  Lane lanes[32];
  void* brought[32];
};

struct Worker;

struct RunningBlock : Block {
  Worker* worker;
  unsigned size = 0, returned = 0, waiting = 0;
  Warp warps[32];
  Place barrier_place;  // where `waiting` threads wait
  const Launch* launch = nullptr;
  std::vector<void*> arguments;  // addresses of the launch's
  Context main, *previous = nullptr;
  std::vector<std::pair<const void*, void*>> shared;  // arrays by key
  std::string error;
  Settings::Order order;
  std::minstd_rand random;
  TSAN(char barriers[2]; unsigned phase = 0;)

  unsigned warp_count() const { return (size + 31) / 32; }
};

// A Worker has the stacks for the threads of one block.
struct Worker {
  char* stacks;
  unsigned prepared = 0;
  bool dirty = false;  // threads were left in the middle of what they did
  RunningBlock block;

  Worker() {
    block.worker = this;
    auto memory = mmap(nullptr, 1025 * kStackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stacks = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory) + kStackSize - 1) & ~(kStackSize - 1));
  }

  Fiber& fiber(unsigned i) {
    for (; prepared <= i; prepared++) {
      char* stack = stacks + prepared * kStackSize;
      [[maybe_unused]] auto f = new (stack) Fiber;
      TSAN(f->tsan = __tsan_create_fiber(0);)
      mprotect(stack + kFoot, kFoot, PROT_NONE);  // a stack that overflows is noticed
    }
    return *reinterpret_cast<Fiber*>(stacks + i * kStackSize);
  }
};

Fiber& current() { return static_cast<Fiber&>(self()); }
RunningBlock& block_of(Fiber& f) { return *static_cast<RunningBlock*>(f.block); }

// Takes the lane of a warp that runs next, in the order of the settings.
unsigned take_lane(RunningBlock& b, Warp& w) {
  unsigned turn = b.order == Settings::kRandom ? b.random() % 32 : 0;
  unsigned lane = b.order == Settings::kReverse ? 31 - std::countl_zero(w.ready)
                                                         : (std::countr_zero(std::rotr(w.ready, turn)) + turn) % 32;
  w.ready &= ~(1u << lane);
  return lane;
}

// The next thread to run, from warp `first` on; null if none can. It runs at every wait of every thread, and a division would be most of it.
Fiber* next(RunningBlock& b, unsigned first) {
  unsigned warps = b.warp_count(), warp = first;
  for (unsigned i = 0; i < warps; i++) {
    if (b.warps[warp].ready) return &b.worker->fiber(warp * 32 + take_lane(b, b.warps[warp]));
    if (++warp == warps) warp = 0;
  }
  return nullptr;
}

// Suspends a thread until it is made ready.
void park(Fiber& f, const char* waits, Place place, bool finished = false) {
  RunningBlock& b = block_of(f);
  f.waits = waits, f.place = place;
  Fiber* to = next(b, b.order == Settings::kRandom ? b.random() % 32 % b.warp_count() : f.number / 32);
  switch_context(f, to ? static_cast<Context&>(*to) : b.main, b.previous, finished);
}

// Nobody may wait for a thread that has returned.
void check_return(Fiber& f, RunningBlock& b, Warp& w) {
  if (b.waiting) fail(text("returns while %u threads wait at the barrier in line %u", b.waiting, b.barrier_place.line()).c_str(), b.barrier_place);
  for_each_lane(w.arrived, [&](int lane) {
    if (w.lanes[lane].mask >> f.number % 32 & 1)
      fail(text("returns while its warp waits for it in line %u", w.lanes[lane].line).c_str(), b.worker->fiber(f.number / 32 * 32 + lane).place);
  });
}

void fiber_main() {
  Fiber& f = current();
  RunningBlock& b = block_of(f);
  arrived(b.previous);
  TSAN(__tsan_acquire(&b.launch);)
  b.launch->kernel->run_thread(b.arguments.data());
  TSAN(__tsan_release(&b.returned);)
  Warp& w = b.warps[f.number / 32];
  check_return(f, b, w);
  w.live &= ~(1u << f.number % 32);
  b.returned++;
  park(f, nullptr, {}, true);
  __builtin_unreachable();
}

std::string describe(Place p) {
  std::string file = p.file_name();
  return text("%s:%u (%s)", file.substr(file.rfind('/') + 1).c_str(), p.line(), p.function_name());
}

void prepare_thread(Worker& w, RunningBlock& b, unsigned i) {
  Fiber& f = w.fiber(i);
  f.number = i, f.block = &b, f.copies.clear();
  f.index = {i % b.threads.x, i / b.threads.x % b.threads.y, i / (b.threads.x * b.threads.y)};
  char* low = reinterpret_cast<char*>(&f) + 2 * kFoot;
  char* top = reinterpret_cast<char*>(&f) + kStackSize - i % 32 * 128;  // or all stacks would meet in the same sets of the cache
  ASAN(size_t used = w.dirty ? top - low : 4096; __asan_unpoison_memory_region(top - used, used);)
  prepare(f, low, top, fiber_main);
}

void prepare_block(Worker& w, const Launch& l, uint3 index) {
  RunningBlock& b = w.block;
  b.index = index, b.threads = l.threads, b.grid = l.grid, b.launch = &l, b.error.clear();
  b.size = l.threads.x * l.threads.y * l.threads.z, b.returned = b.waiting = 0;
  b.arguments.clear();
  for (auto& a : l.arguments) b.arguments.push_back(const_cast<char*>(a.data()));
  b.order = settings().order;
  b.random.seed(settings().seed + index.x + 1);
  b.dynamic = allocate(128, l.dynamic_shared);
  b.shared = {{nullptr, b.dynamic}};
  for (unsigned i = 0; i < b.size; i++) prepare_thread(w, b, i);
  for (unsigned i = 0; i < b.warp_count(); i++) {
    Warp& warp = b.warps[i];
    warp.live = warp.ready = b.size - i * 32 < 32 ? (1u << (b.size - i * 32)) - 1 : ~0u;
    warp.arrived = 0;
  }
}

// Says which threads wait for what.
std::string deadlock(Worker& w, const Launch& l) {
  RunningBlock& b = w.block;
  std::string message = text("kernel %s, block (%u,%u,%u): deadlock; %u of %u threads have returned", l.name.c_str(), b.index.x,
                             b.index.y, b.index.z, b.returned, b.size);
  std::map<std::string, unsigned> waits;
  for (unsigned i = 0; i < b.size; i++)
    if (Fiber& f = w.fiber(i); f.waits) waits[f.waits + std::string(" at ") + describe(f.place)]++;
  for (auto& [what, n] : waits) message += text("; %u wait for %s", n, what.c_str());
  return message;
}

// Runs one block; returns what went wrong, or an empty string.
std::string run_block(Worker& w, const Launch& l, uint3 index) {
  RunningBlock& b = w.block;
  prepare_block(w, l, index);
  TSAN(b.main.tsan = __tsan_get_current_fiber(); __tsan_release(&b.launch);)
  switch_context(b.main, *next(b, 0), b.previous, false);
  TSAN(__tsan_acquire(&b.returned);)
  if (b.error.empty() && b.returned != b.size) b.error = deadlock(w, l);
  TSAN(AnnotateIgnoreWritesBegin(__FILE__, __LINE__);)  // after a failure, other threads are still in there
  for (auto& [key, memory] : b.shared) free(memory);
  TSAN(AnnotateIgnoreWritesEnd(__FILE__, __LINE__);)
  w.dirty = !b.error.empty();
  return b.error;
}

// Threads that help the calling thread.
class Helpers {
 public:
  void run(const std::function<void()>& job, unsigned helpers) {
    {
      std::lock_guard lock(mutex_);
      job_ = &job, wanted_ = pending_ = helpers;
      start(helpers);
    }
    if (helpers) wake_.notify_all();
    job();
    std::unique_lock lock(mutex_);
    pending_ -= wanted_, wanted_ = 0;  // those that have not begun need not
    done_.wait(lock, [&] { return pending_ == 0; });
  }

 private:
  void start(unsigned helpers) {
    sigset_t all, old;  // the signals of the Go program are not for these threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (; threads_ < helpers; threads_++) std::thread([this] { loop(); }).detach();
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return wanted_ > 0; });
      wanted_--;
      auto job = job_;
      lock.unlock();
      (*job)();
      lock.lock();
      if (--pending_ == 0) done_.notify_one();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void()>* job_ = nullptr;
  unsigned wanted_ = 0, pending_ = 0, threads_ = 0;
};

Helpers& helpers() {
  static auto all = new Helpers;  // never destroyed: its threads outlive main
  return *all;
}

}  // namespace

std::string run(const Launch& l) {
  static std::vector<Worker*> idle;  // not one for each thread: Go ends threads together with goroutines that stay locked to them
  uint64_t total = uint64_t{l.grid.x} * l.grid.y * l.grid.z;
  std::atomic<uint64_t> at = 0;
  std::mutex mutex;
  std::string error;
  std::function<void()> work = [&] {
    std::unique_lock lock(mutex);
    if (idle.empty()) idle.push_back(new Worker);
    Worker* worker = idle.back();
    idle.pop_back();
    lock.unlock();
    for (uint64_t i; (i = at++) < total;) {
      uint3 index{unsigned(i % l.grid.x), unsigned(i / l.grid.x % l.grid.y), unsigned(i / l.grid.x / l.grid.y)};
      if (std::string e = run_block(*worker, l, index); !e.empty()) {
        at = total;
        std::lock_guard lock(mutex);
        error = e;
      }
    }
    lock.lock();
    idle.push_back(worker);
  };
  helpers().run(work, std::min<uint64_t>(settings().threads, total) - 1);
  return error;
}

void fail(const char* what, Place place) {
  Fiber& f = current();
  RunningBlock& b = block_of(f);
  b.error = text("block (%u,%u,%u), thread (%u,%u,%u) %s, at %s", b.index.x, b.index.y, b.index.z, f.index.x, f.index.y, f.index.z,
                 what, describe(place).c_str());
  TSAN(__tsan_release(&b.returned);)
  switch_context(f, b.main, b.previous, true);
  __builtin_unreachable();
}

void* shared_memory(const void* key, size_t size) {
  auto& all = block_of(current()).shared;
  for (auto& [k, memory] : all)
    if (k == key) return memory;
  TSAN(AnnotateIgnoreWritesBegin(__FILE__, __LINE__);)  // the block's memory, not this thread's
  all.emplace_back(key, allocate(128, size));
  TSAN(AnnotateIgnoreWritesEnd(__FILE__, __LINE__);)
  return all.back().second;
}

void barrier(Place place) {
  Fiber& f = current();
  RunningBlock& b = block_of(f);
  if (b.returned) fail(text("waits at a barrier, but %u threads have returned", b.returned).c_str(), place);
  if (b.waiting && b.barrier_place.line() != place.line())
    fail(text("waits at a barrier, but %u threads wait at the one in line %u", b.waiting, b.barrier_place.line()).c_str(), place);
  TSAN(char* sync = &b.barriers[b.phase]; __tsan_release(sync);)  // not that of the next barrier, where others may be already
  b.barrier_place = place;
  if (++b.waiting < b.size) {
    park(f, "a barrier", place);
  } else {
    b.waiting = 0;
    TSAN(b.phase ^= 1;)
    for (unsigned i = 0; i < b.warp_count(); i++) b.warps[i].ready = b.warps[i].live;
    b.warps[f.number / 32].ready &= ~(1u << f.number % 32);
  }
  TSAN(__tsan_acquire(sync);)
}

void fence() {
  TSAN(static char all; __tsan_acquire(&all); __tsan_release(&all);)
}

void collective(unsigned mask, Operation operation, void* brought, Place place) {
  Fiber& f = current();
  Warp& w = block_of(f).warps[f.number / 32];
  unsigned lane = f.number % 32, bit = 1u << lane;
  if (!(mask & bit)) fail("is not in the mask of its own warp operation", place);
  if (mask & ~w.live) fail(text("waits for lanes %08x, which do not exist or have returned", mask & ~w.live).c_str(), place);
  TSAN(__tsan_release(&w.lanes[lane].in);)
  w.lanes[lane].operation = operation, w.lanes[lane].mask = mask, w.lanes[lane].line = place.line();
  w.brought[lane] = brought;
  w.arrived |= bit;
  if ((w.arrived & mask) != mask) {
    park(f, "its warp", place);
    TSAN(__tsan_acquire(&w.lanes[lane].out);)
    return;
  }
  for_each_lane(mask, [&](int l) {
    if (w.lanes[l].operation != operation || w.lanes[l].mask != mask || w.lanes[l].line != place.line())
      fail(text("and lane %d, in line %u, are at different warp operations", l, w.lanes[l].line).c_str(), place);
  });
  TSAN(for_each_lane(mask, [&](int l) { __tsan_acquire(&w.lanes[l].in); });)
  operation(w.brought, mask);
  TSAN(for_each_lane(mask, [&](int l) { __tsan_release(&w.lanes[l].out); });)
  w.arrived &= ~mask;
  w.ready |= mask & ~bit;
}

}  // namespace emulated
