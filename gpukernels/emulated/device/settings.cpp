#include "settings.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>

namespace emulated {

namespace {

size_t parse_size(const std::string& text) {
  char* end;
  size_t n = strtoull(text.c_str(), &end, 10);
  return n << (*end == 'G' ? 30 : *end == 'M' ? 20 : *end == 'K' ? 10 : 0);
}

}  // namespace

Settings::Settings() {
  threads = std::max(1u, threads);
  for (const char* name : {"memory", "devices", "peers", "capability", "version", "threads", "lazy", "hasty", "order", "fault", "blas", "algorithms", "launched", "idle"}) {
    std::string variable = std::string("SLUICE_EMULATED_") + name;
    for (char& c : variable) c = toupper(c);
    if (const char* value = getenv(variable.c_str()); value && *value) set(name, value);
  }
}

bool Settings::set(const std::string& name, const std::string& value) {
  unsigned number = strtoul(value.c_str(), nullptr, 10);
  if (name == "memory") memory = parse_size(value);
  else if (name == "devices") devices = number;
  else if (name == "peers") peers = number;
  else if (name == "capability") capability = number;
  else if (name == "version") version = number;
  else if (name == "threads") threads = std::max(1u, number);
  else if (name == "lazy") lazy = number;
  else if (name == "hasty") hasty = value == "even" ? 0 : value == "odd" ? 1 : -1;
  else if (name == "order") order = value == "forward" ? kForward : value == "reverse" ? kReverse : kRandom, seed = number;
  else if (name == "fault") set_faults(value);
  else if (name == "blas") blas = number;
  else if (name == "algorithms") algorithms = value;
  else if (name == "launched") launched = value;
  else if (name == "idle") idle = number;
  else return false;
  return true;
}

void Settings::set_faults(const std::string& list) {
  faults.clear(), calls.clear();
  for (size_t at = 0; at < list.size(); at = std::min(list.find(',', at), list.size()) + 1) {
    Fault f;
    char call[64], lasts = 0;
    if (sscanf(list.c_str() + at, "%63[^:]:%u:%d%c", call, &f.nth, &f.error, &lasts) < 3) continue;
    f.call = call, f.lasts = lasts == '!';
    faults.push_back(f);
  }
}

const Fault* Settings::fault(const std::string& call) {
  unsigned n = ++calls[call];
  for (auto& f : faults)
    if (f.call == call && f.nth == n) return &f;
  return nullptr;
}

Settings& settings() {
  static Settings s;
  return s;
}

}  // namespace emulated
