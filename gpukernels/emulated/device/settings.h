// How the device behaves: environment variables SLUICE_EMULATED_<NAME>, or cuEmulatedSet(name, value) at run time.
#pragma once
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace emulated {

// The nth call of a function from now on answers an error instead of doing anything.
struct Fault {
  std::string call;
  unsigned nth;
  int error;
  bool lasts;  // the device answers nothing else from then on
};

struct Settings {
  size_t memory = size_t{1} << 30;                                 // memory=64M: bytes of the device's memory; K, M or G
  unsigned devices = 1;                                            // devices=2
  bool peers = true;                                               // peers=0: devices cannot reach each other's memory
  unsigned capability = 80;                                        // capability=90: 10 times the compute capability
  unsigned version = 12020;                                        // version=11040: what the driver says it supports
  unsigned threads = std::thread::hardware_concurrency();          // threads=1: how many blocks run at once
  bool lazy = true;                                                // lazy=0: do work when it is asked for, not when it is awaited
  int hasty = -1;                                                  // hasty=even, hasty=odd: every second stream does its work at once
  enum Order { kForward, kReverse, kRandom } order = kForward;     // order=reverse, order=7 (a seed): which thread runs first
  unsigned seed = 0;
  std::vector<Fault> faults;                                       // fault=cuMemAlloc:2:2,cuStreamSynchronize:1:719! (! lasts)
  std::map<std::string, unsigned> calls;                           // since faults were set
  unsigned blas = 120205;                                          // blas=110400: the version of cuBLASLt
  std::string algorithms = "sliced,wide,narrow";                   // algorithms=varying: what cuBLASLt offers, see cublaslt.cpp; none
  std::string launched;                                            // launched=FILE: gets the name of each kernel that is run
  std::atomic<bool> idle = false;                                  // idle=1: what streams are asked for is counted, and not done

  Settings();
  bool set(const std::string& name, const std::string& value);

  // What this call shall answer instead of doing anything, or null.
  const Fault* fault(const std::string& call);

 private:
  void set_faults(const std::string& list);
};

Settings& settings();

}  // namespace emulated
