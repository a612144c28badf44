// The functions of the driver that the Go code calls. One call runs at a time.
//
// Work is done no sooner than something waits for it (settings: lazy), the least of it that the wait needs. So a wait that is missing
// gives wrong results every time, and not once in a thousand runs. What is overwritten too early shows where the stream that overwrites
// it is ahead of the one that still reads it (settings: hasty).
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "driver.h"
#include "fiber.h"
#include "launch.h"
#include "ptx.h"
#include "settings.h"
#include "status.h"

namespace emulated {

using Work = std::function<void()>;

struct Device { int number; size_t used = 0; int lost = 0; unsigned retained = 0; std::set<Device*> reached = {}; };
struct Capture { std::vector<Work> work; uint64_t by; };  // by: the number of a thread
struct Stream {
  bool waits_for_default;  // and the default stream for it
  int number = -1;         // in the order in which they were made
  int priority = 0;        // the smaller, the sooner a real device begins what waits; this one has an order of its own
  Device* device = nullptr;
  std::deque<Work> queue = {};
  uint64_t asked = 0, done = 0;
  Capture* capture = nullptr;
};

}  // namespace emulated

namespace {

using namespace emulated;
using Clock = std::chrono::steady_clock;

struct Allocation { size_t size; Device* device; };
struct Event { std::shared_ptr<Stream> stream; uint64_t at = 0; Clock::time_point time; };  // the stream may have been closed
struct Function { std::string name; Entry entry; unsigned most_shared = 48 << 10; };

constexpr int kGreatestPriority = -5;
constexpr unsigned kMostShared = 163 << 10;  // that a block of sm_80 can ask for

std::mutex mutex;
bool initialized;
std::atomic<unsigned> asked;  // of streams
int broken;  // the error that every call answers once a kernel has failed
std::deque<Device> devices;
thread_local Device* context;
std::atomic<uint64_t> threads;
thread_local const uint64_t thread = ++threads;  // its number, which no later thread gets, unlike its id
std::map<uint64_t, Allocation> allocations;
std::map<uintptr_t, size_t> pinned;
std::vector<std::shared_ptr<Stream>> streams;
const auto default_stream = std::make_shared<Stream>(Stream{true});

// ---- Queues

void drain(Stream& s, uint64_t until = ~uint64_t{0}) {
  while (s.done < until && !s.queue.empty()) {
    Work work = std::move(s.queue.front());
    s.queue.pop_front();
    s.done++;
    if (!broken) work();
  }
}
void drain_all() {
  drain(*default_stream);
  for (auto& s : streams) drain(*s);
}
int put(Stream* s, Work work) {
  if (s && s->capture) return s->capture->work.push_back(std::move(work)), SUCCESS;
  if (!s)
    for (auto& other : streams)
      if (other->waits_for_default) drain(*other);
  if (s && s->waits_for_default) drain(*default_stream);
  Stream& to = s ? *s : *default_stream;
  to.queue.push_back(std::move(work));
  to.asked++;
  if (!settings().lazy || (to.number >= 0 && to.number % 2 == settings().hasty)) drain(to);
  return broken;
}
// Says whether this thread captures a stream, so that it must not wait nor allocate.
bool capturing() {
  return std::ranges::any_of(streams, [](auto& s) { return s->capture && s->capture->by == thread; });
}
// Adds a kernel to the file that the settings name, the first time.
void note(const std::string& kernel) {
  static std::set<std::string> noted;
  if (!settings().launched.empty() && noted.insert(kernel).second) std::ofstream(settings().launched, std::ios::app) << kernel << '\n';
}
void launch(const Launch& l) {
  note(l.name);
  std::string error = run(l);
  if (error.empty()) return;
  fprintf(stderr, "emulated device: %s\n", error.c_str());
  broken = LAUNCH_FAILED;
}

// The stream as what was recorded in it, or waits for it, keeps it. That outlives the stream, which has done everything when it is closed.
std::shared_ptr<Stream> shared(Stream* s) {
  auto it = std::ranges::find(streams, s, &std::shared_ptr<Stream>::get);
  return it != streams.end() ? *it : default_stream;
}

// ---- Memory

// The device whose memory an address is in, or null.
Device* owner(uint64_t p) {
  auto it = allocations.upper_bound(p);
  return it != allocations.begin() && (--it, p - it->first < it->second.size) ? it->second.device : nullptr;
}
bool is_in(uint64_t p, size_t n, Device* device = context) {
  auto it = allocations.upper_bound(p);
  return it != allocations.begin() && (--it, p - it->first <= it->second.size && n <= it->second.size - (p - it->first)) &&
         it->second.device == device;
}
// Says whether a stream may be given work by this thread.
bool is_of_context(Stream* s) { return !s || s->device == context; }
bool is_pinned(const void* p) {
  auto it = pinned.upper_bound(reinterpret_cast<uintptr_t>(p));
  return it != pinned.begin() && (--it, reinterpret_cast<uintptr_t>(p) - it->first < it->second);
}
void* address(uint64_t p) { return reinterpret_cast<void*>(p); }

// ---- The beginning of every call

int enter(std::string call, bool needs_context) {
  TSAN(__tsan_acquire(&kernels());)  // the library was loaded by another thread, and Go's ways to wait are not seen
  call = call.substr(0, call.find('_'));
  if (const Fault* f = settings().fault(call)) {
    if (f->lasts && context) context->lost = f->error;
    return f->error;
  }
  if (!initialized && call != "cuInit") return NOT_INITIALIZED;
  if (needs_context && !context) return INVALID_CONTEXT;  // in Go: a goroutine that is not locked to its thread
  if (needs_context && context->lost) return context->lost;
  return broken;
}

}  // namespace

namespace emulated {

Call::Call(const char* name) : lock(mutex) {
  TSAN(__tsan_acquire(&kernels());)
  if (const Fault* f = settings().fault(name)) {
    if (f->lasts && context) context->lost = f->error;
    fault = f->error;
  } else {
    driver = !context ? INVALID_CONTEXT : context->lost ? context->lost : broken;
  }
}
int submit(Stream* s, std::function<void()> work) { return put(s, std::move(work)); }
bool on_device(uint64_t p, size_t n) { return is_in(p, n); }
bool is_own(Stream* s) { return is_of_context(s); }

}  // namespace emulated

#define API(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)
#define ENTER(needs_context)      \
  std::lock_guard lock(mutex);    \
  if (int error = enter(__func__, needs_context)) return error
#define REQUIRE(condition, error) \
  if (!(condition)) return error
// Counts what a stream is asked for. Where the device is idle, a call is answered at once: what is left is the time of those who ask.
#define ASKED(...)        \
  asked++;                \
  if (settings().idle) {  \
    __VA_ARGS__;          \
    return SUCCESS;       \
  }

// Not of the real driver: changes a setting, or (name "repair") forgets a failure.
API(cuEmulatedSet, const char* name, const char* value) {
  std::lock_guard lock(mutex);
  if (std::string("repair") == name) {
    for (Device& d : devices) d.lost = SUCCESS;
    return broken = SUCCESS;
  }
  return settings().set(name, value) ? SUCCESS : INVALID_VALUE;
}

// Nor this: how often something was asked of streams.
API(cuEmulatedAsked, unsigned* n) { return *n = asked, SUCCESS; }

// Nor this: the priorities of up to most streams, those that were made last in front. The result is how many there are.
API(cuEmulatedPriorities, int* priorities, int most) {
  std::lock_guard lock(mutex);
  int n = 0;
  for (auto s = streams.rbegin(); s != streams.rend() && n < most; s++) priorities[n++] = (*s)->priority;
  return n;
}

API(cuInit, unsigned) {
  ENTER(false);
  REQUIRE(settings().devices, NO_DEVICE);
  for (int i = devices.size(); i < int(settings().devices); i++) devices.push_back({i});
  initialized = true;
  return SUCCESS;
}
API(cuDriverGetVersion, int* version) { return *version = settings().version, SUCCESS; }
API(cuGetErrorName, int error, const char** name) {
#define NAMED(id, number) \
  if (error == number) return *name = "CUDA_ERROR_" #id, SUCCESS;
  EMULATED_ERRORS(NAMED)
#undef NAMED
  return *name = nullptr, INVALID_VALUE;
}
API(cuGetErrorString, int error, const char** s) { return cuGetErrorName(error, s); }

API(cuDeviceGetCount, int* n) { ENTER(false); return *n = devices.size(), SUCCESS; }
API(cuDeviceGet, int* device, int number) {
  ENTER(false);
  REQUIRE(number >= 0 && number < int(devices.size()), INVALID_DEVICE);
  return *device = number, SUCCESS;
}
API(cuDeviceGetName, char* name, int n, int) { ENTER(false); return snprintf(name, n, "an emulated device"), SUCCESS; }
API(cuDeviceTotalMem_v2, size_t* n, int) { ENTER(false); return *n = settings().memory, SUCCESS; }
API(cuDeviceGetAttribute, int* value, int attribute, int) {
  ENTER(false);
  static const std::map<int, int> values = {  // numbers of an A100 where there are any
      {13, 1410000}, {16, 4}, {36, 1215000}, {37, 5120}, {38, 40 << 20}, {39, 2048}, {81, 164 << 10}, {82, 65536}, {97, kMostShared}};
  auto it = values.find(attribute);
  if (attribute == 75 || attribute == 76) *value = attribute == 75 ? settings().capability / 10 : settings().capability % 10;
  else if (it != values.end()) *value = it->second;
  else return INVALID_VALUE;
  return SUCCESS;
}
API(cuDevicePrimaryCtxRetain, void** c, int device) {
  ENTER(false);
  REQUIRE(device >= 0 && device < int(devices.size()), INVALID_DEVICE);
  devices[device].retained++;
  return *c = &devices[device], SUCCESS;
}
API(cuDevicePrimaryCtxRelease_v2, int device) {
  ENTER(false);
  REQUIRE(device >= 0 && device < int(devices.size()), INVALID_DEVICE);
  REQUIRE(devices[device].retained, INVALID_CONTEXT);
  return devices[device].retained--, SUCCESS;
}
API(cuCtxSetCurrent, void* c) { ENTER(false); return context = static_cast<Device*>(c), SUCCESS; }

API(cuDeviceCanAccessPeer, int* can, int device, int peer) {
  ENTER(false);
  REQUIRE(device >= 0 && device < int(devices.size()) && peer >= 0 && peer < int(devices.size()), INVALID_DEVICE);
  return *can = settings().peers && device != peer, SUCCESS;
}
API(cuCtxEnablePeerAccess, Device* peer, unsigned) {
  ENTER(true);
  REQUIRE(settings().peers && peer != context, INVALID_DEVICE);
  REQUIRE(context->reached.insert(peer).second, PEER_ACCESS_ALREADY_ENABLED);
  return SUCCESS;
}

API(cuModuleLoadDataEx, void** m, const char* image, unsigned count, int* options, void** values) {
  ENTER(true);
  auto module = std::make_unique<Module>();
  std::string complaint;
  int error = parse(image, *module, complaint);
  char* log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == 5) log = static_cast<char*>(values[i]);
    if (options[i] == 6) size = reinterpret_cast<size_t>(values[i]);
  }
  if (log && size) snprintf(log, size, "%s", complaint.c_str());
  REQUIRE(!error, error);
  return *m = module.release(), SUCCESS;
}
API(cuModuleUnload, void* m) { ENTER(true); drain_all(); delete static_cast<Module*>(m); return broken; }
API(cuModuleGetFunction, void** f, void* m, const char* name) {
  ENTER(true);
  auto& entries = static_cast<Module*>(m)->entries;
  auto entry = entries.find(name);
  auto kernel = kernels().find(name);
  REQUIRE(entry != entries.end() && kernel != kernels().end(), NOT_FOUND);
  if (entry->second.parameter_sizes != kernel->second.parameter_sizes) {
    fprintf(stderr, "emulated device: kernel %s has other parameters in the PTX than in its source\n", name);
    return INVALID_PTX;
  }
  return *f = new Function{name, entry->second}, SUCCESS;
}
API(cuFuncSetAttribute, void* f, int attribute, int value) {
  ENTER(true);
  REQUIRE(attribute == 8 && value >= 0 && value <= int(kMostShared), INVALID_VALUE);  // MAX_DYNAMIC_SHARED_SIZE_BYTES
  return static_cast<Function*>(f)->most_shared = value, SUCCESS;
}

API(cuMemAlloc_v2, uint64_t* p, size_t n) {
  ENTER(true);
  REQUIRE(n, INVALID_VALUE);
  REQUIRE(!capturing(), STREAM_CAPTURE_UNSUPPORTED);
  REQUIRE(n <= settings().memory && context->used <= settings().memory - n, OUT_OF_MEMORY);
  REQUIRE(*p = reinterpret_cast<uint64_t>(allocate(256, n)), OUT_OF_MEMORY);
  allocations[*p] = {n, context};
  context->used += n;
  return SUCCESS;
}
API(cuMemFree_v2, uint64_t p) {
  ENTER(true);
  auto it = allocations.find(p);
  REQUIRE(it != allocations.end(), INVALID_VALUE);
  drain_all();
  it->second.device->used -= it->second.size;
  allocations.erase(it);
  free(address(p));
  return broken;
}
API(cuMemGetInfo_v2, size_t* available, size_t* total) {
  ENTER(true);
  *total = settings().memory;
  *available = settings().memory - std::min(settings().memory, context->used);
  return SUCCESS;
}
API(cuMemHostAlloc, void** p, size_t n, unsigned) {
  ENTER(true);
  REQUIRE(*p = allocate(4096, n), OUT_OF_MEMORY);
  return pinned[reinterpret_cast<uintptr_t>(*p)] = n, SUCCESS;
}
API(cuMemFreeHost, void* p) {
  ENTER(true);
  REQUIRE(pinned.erase(reinterpret_cast<uintptr_t>(p)), INVALID_VALUE);
  drain_all();
  return free(p), broken;
}
API(cuMemcpyHtoDAsync_v2, uint64_t to, const void* from, size_t n, Stream* s) {
  ASKED()
  ENTER(true);
  REQUIRE(is_of_context(s), INVALID_HANDLE);
  REQUIRE(is_in(to, n), INVALID_VALUE);
  if (is_pinned(from) || (s && s->capture)) return put(s, [=] { memcpy(address(to), from, n); });
  auto bytes = static_cast<const char*>(from);  // memory that can be paged out is read before the call returns
  return put(s, [to, staged = std::vector<char>(bytes, bytes + n)] { memcpy(address(to), staged.data(), staged.size()); });
}
API(cuMemcpyDtoHAsync_v2, void* to, uint64_t from, size_t n, Stream* s) {
  ASKED(memset(to, 0, n))
  ENTER(true);
  REQUIRE(is_of_context(s), INVALID_HANDLE);
  REQUIRE(is_in(from, n), INVALID_VALUE);
  int error = put(s, [=] { memcpy(to, address(from), n); });
  if (!is_pinned(to) && !(s && s->capture)) drain(s ? *s : *default_stream);  // and written before it returns
  return error ? error : broken;
}
API(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t n, Stream* s) {
  ASKED()
  ENTER(true);
  REQUIRE(is_of_context(s), INVALID_HANDLE);
  REQUIRE(is_in(to, n) && is_in(from, n), INVALID_VALUE);
  REQUIRE(to + n <= from || from + n <= to, INVALID_VALUE);  // undefined on the hardware
  return put(s, [=] { memcpy(address(to), address(from), n); });
}
API(cuMemcpyPeerAsync, uint64_t to, Device* of_to, uint64_t from, Device* of_from, size_t n, Stream* s) {
  ENTER(true);
  REQUIRE(is_of_context(s), INVALID_HANDLE);
  REQUIRE(is_in(to, n, of_to) && is_in(from, n, of_from), INVALID_VALUE);
  REQUIRE(to + n <= from || from + n <= to, INVALID_VALUE);
  return put(s, [=] { memcpy(address(to), address(from), n); });
}
API(cuMemsetD8Async, uint64_t to, unsigned char v, size_t n, Stream* s) {
  ASKED()
  ENTER(true);
  REQUIRE(is_of_context(s), INVALID_HANDLE);
  REQUIRE(is_in(to, n), INVALID_VALUE);
  return put(s, [=] { memset(address(to), v, n); });
}

API(cuCtxGetStreamPriorityRange, int* least, int* greatest) {
  ENTER(true);
  return *least = 0, *greatest = kGreatestPriority, SUCCESS;
}
API(cuStreamCreateWithPriority, Stream** s, unsigned flags, int priority) {
  ENTER(true);
  static int made = 0;
  priority = std::clamp(priority, kGreatestPriority, 0);
  streams.push_back(std::make_shared<Stream>(Stream{!(flags & 1), made++, priority, context}));
  return *s = streams.back().get(), SUCCESS;
}
API(cuStreamDestroy_v2, Stream* s) {
  ENTER(true);
  REQUIRE(is_of_context(s), INVALID_HANDLE);
  drain(*s);
  s->device = nullptr;  // no call takes it any more
  std::erase(streams, shared(s));
  return broken;
}
API(cuStreamSynchronize, Stream* s) {
  ENTER(true);
  REQUIRE(!(s && s->capture), STREAM_CAPTURE_UNSUPPORTED);
  drain(s ? *s : *default_stream);
  return broken;
}
API(cuStreamWaitEvent, Stream* s, Event* e, unsigned) {
  ASKED()
  ENTER(true);
  REQUIRE(e->stream, SUCCESS);
  return put(s, [from = e->stream, at = e->at] { drain(*from, at); });
}
API(cuEventCreate, Event** e, unsigned) { ENTER(true); return *e = new Event, SUCCESS; }
API(cuEventDestroy_v2, Event* e) { ENTER(true); drain_all(); return delete e, broken; }
API(cuEventRecord, Event* e, Stream* s) {
  ASKED()
  ENTER(true);
  int error = put(s, [=] { e->time = Clock::now(); });
  if (!(s && s->capture)) e->stream = shared(s), e->at = e->stream->asked;
  return error;
}
API(cuEventQuery, Event* e) {  // each answer that it is not ready lets one piece of work through
  ENTER(true);
  if (!e->stream || e->stream->done >= e->at) return SUCCESS;
  drain(*e->stream, e->stream->done + 1);
  return broken ? broken : NOT_READY;
}
API(cuEventSynchronize, Event* e) {
  ENTER(true);
  if (e->stream) drain(*e->stream, e->at);
  return broken;
}
API(cuEventElapsedTime, float* milliseconds, Event* start, Event* end) {
  ENTER(true);
  REQUIRE(start->stream && end->stream, INVALID_HANDLE);
  REQUIRE(start->stream->done >= start->at && end->stream->done >= end->at, NOT_READY);
  return *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count(), SUCCESS;
}

API(cuLaunchKernel, Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream* s,
    void** parameters, void** extra) {
  ASKED()
  ENTER(true);
  REQUIRE(gx && gy && gz && bx && by && bz && gy < 65536 && gz < 65536 && bz <= 64, INVALID_VALUE);
  REQUIRE(uint64_t{bx} * by * bz <= f->entry.most_threads && shared <= f->most_shared, INVALID_VALUE);
  REQUIRE(!extra, NOT_SUPPORTED);
  REQUIRE(is_of_context(s), INVALID_HANDLE);
  Launch l{f->name, {gx, gy, gz}, {bx, by, bz}, shared, &kernels()[f->name], {}};
  for (size_t i = 0; i < f->entry.parameter_sizes.size(); i++) {
    auto bytes = static_cast<const char*>(parameters[i]);
    l.arguments.emplace_back(bytes, bytes + f->entry.parameter_sizes[i]);
    if (uint64_t p; l.arguments.back().size() == sizeof p) {
      memcpy(&p, bytes, sizeof p);
      if (Device* of = owner(p); of && of != context) {
        fprintf(stderr, "emulated device: kernel %s on device %d gets memory of device %d\n", f->name.c_str(), context->number, of->number);
        return ILLEGAL_ADDRESS;
      }
    }
  }
  return put(s, [l] { launch(l); });
}
API(cuStreamBeginCapture_v2, Stream* s, int) {
  ENTER(true);
  REQUIRE(s && !s->capture, STREAM_CAPTURE_UNSUPPORTED);
  return s->capture = new Capture{{}, thread}, SUCCESS;
}
API(cuStreamEndCapture, Stream* s, Capture** graph) {
  ENTER(true);
  REQUIRE(s && s->capture, INVALID_VALUE);
  *graph = std::exchange(s->capture, nullptr);
  return SUCCESS;
}
API(cuGraphDestroy, Capture* graph) { ENTER(true); return delete graph, SUCCESS; }
API(cuGraphInstantiateWithFlags, std::vector<Work>** program, Capture* graph, unsigned long long) {
  ENTER(true);
  return *program = new std::vector<Work>(graph->work), SUCCESS;
}
API(cuGraphLaunch, std::vector<Work>* program, Stream* s) {
  ASKED()
  ENTER(true);
  return put(s, [program] { for (auto& work : *program) if (!broken) work(); });
}
API(cuGraphExecDestroy, std::vector<Work>* program) { ENTER(true); drain_all(); return delete program, broken; }
