#include "ptx.h"

#include <stdio.h>

#include "launch.h"
#include "settings.h"
#include "status.h"

namespace emulated {

namespace {

// Drivers for CUDA 12.2 know PTX up to 8.2, those for 13.0 up to 9.0.
bool version_known(unsigned major, unsigned minor) {
  unsigned cuda = settings().version;
  return major * 10 + minor <= cuda / 1000 * 10 - 40 + cuda % 1000 / 10;
}

std::vector<size_t> parameter_sizes(const std::string& ptx, size_t open, size_t close) {
  std::vector<size_t> sizes;
  for (size_t p = open; (p = ptx.find(".param ", p)) < close; p += 7) {
    unsigned align, bits, count;
    if (sscanf(&ptx[p], ".param .align %u .b%u %*[^[][%u]", &align, &bits, &count) == 3) sizes.push_back(bits / 8 * count);
    else if (sscanf(&ptx[p], ".param .%*c%u", &bits) == 1) sizes.push_back(bits / 8);
  }
  return sizes;
}

}  // namespace

int parse(const std::string& ptx, Module& m, std::string& complaint) {
  unsigned major, minor, target = 0;
  size_t at = ptx.find(".version ");
  if (at == ptx.npos || sscanf(&ptx[at], ".version %u.%u", &major, &minor) != 2) return INVALID_IMAGE;
  if (!version_known(major, minor)) {
    complaint = text("PTX version %u.%u is newer than the driver", major, minor);
    return UNSUPPORTED_PTX_VERSION;
  }
  if ((at = ptx.find(".target sm_")) == ptx.npos || sscanf(&ptx[at], ".target sm_%u", &target) != 1) return INVALID_PTX;
  if (target > settings().capability) {
    complaint = text("the device is older than sm_%u", target);
    return NO_BINARY_FOR_GPU;
  }
  for (at = 0; (at = ptx.find(".entry ", at)) != ptx.npos;) {
    at += 7;
    size_t open = ptx.find('(', at), close = ptx.find(')', open), body = ptx.find('{', close);
    Entry e{parameter_sizes(ptx, open, close)};
    if (size_t p = ptx.find(".maxntid ", close); p < body) {
      unsigned x = 1, y = 1, z = 1;
      sscanf(&ptx[p], ".maxntid %u, %u, %u", &x, &y, &z);
      e.most_threads = x * y * z;
    }
    m.entries[ptx.substr(at, open - at)] = e;
  }
  return SUCCESS;
}

}  // namespace emulated
