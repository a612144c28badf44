// What is compiled once for all files of kernels (build.go). Not cuda_language.h itself: a compiler warns of "#pragma once" in the file that it begins with.
#include "cuda_language.h"
