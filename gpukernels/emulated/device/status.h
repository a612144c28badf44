// The errors of the driver that the device can give, numbered as in cuda.h.
#pragma once

#define EMULATED_ERRORS(E)                                                                                              \
  E(INVALID_VALUE, 1) E(OUT_OF_MEMORY, 2) E(NOT_INITIALIZED, 3) E(NO_DEVICE, 100) E(INVALID_DEVICE, 101)                \
  E(INVALID_IMAGE, 200) E(INVALID_CONTEXT, 201) E(NO_BINARY_FOR_GPU, 209) E(ECC_UNCORRECTABLE, 214) E(INVALID_PTX, 218) \
  E(UNSUPPORTED_PTX_VERSION, 222) E(INVALID_HANDLE, 400) E(NOT_FOUND, 500) E(NOT_READY, 600) E(ILLEGAL_ADDRESS, 700)    \
  E(PEER_ACCESS_ALREADY_ENABLED, 704) E(LAUNCH_FAILED, 719) E(NOT_SUPPORTED, 801) E(STREAM_CAPTURE_UNSUPPORTED, 900)

enum Status : int {
  SUCCESS = 0,
#define EMULATED_ENUMERATOR(name, number) name = number,
  EMULATED_ERRORS(EMULATED_ENUMERATOR)
#undef EMULATED_ENUMERATOR
};
