"""Compiles CUDA C++ to PTX with NVRTC: ptx.py FOLDER [-DNAME] FILE.cu ... writes FOLDER/FILE.ptx, unless FILE.cu has no kernels with -DNAME."""

import ctypes
import glob
import pathlib
import re
import sys
import sysconfig

site = sysconfig.get_path("purelib") + "/nvidia"
nvrtc = ctypes.CDLL(glob.glob(site + "/cuda_nvrtc/lib/libnvrtc.so.*")[0])
nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

# What needs a later device than others: its architecture, and the version of PTX that has its instructions, of which NVRTC knows nothing.
LATER = {"fp8": ("compute_89", b"8.4")}

OPTIONS = [
    "--std=c++17",
    f"-I{site}/cuda_runtime/include",
    # Without operators and conversions, numbers are rounded where the source says so, on the device as on the emulated one.
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "-D__CUDA_NO_BFLOAT16_OPERATORS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT162_OPERATORS__",
]


def text(program, size, get):
    n = ctypes.c_size_t()
    size(program, ctypes.byref(n))
    buffer = ctypes.create_string_buffer(n.value)
    get(program, buffer)
    return buffer.value


def compile_file(source):
    program = ctypes.c_void_p()
    architecture, version = LATER.get(source.stem, ("compute_80", None))
    options = [o.encode() for o in OPTIONS + [f"--gpu-architecture={architecture}", f"-I{source.parent}"]]
    arguments = (ctypes.c_char_p * len(options))(*options)
    error = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), str(source).encode(), 0, None, None)
    error = error or nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    log = text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode()
    if error or log.strip():
        sys.exit(f"{log}{source}: {nvrtc.nvrtcGetErrorString(error).decode() if error else 'warnings are errors'}")
    ptx = text(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0")
    if version:
        ptx = re.sub(rb"(?m)^\.version .*$", b".version " + version, ptx)
    # Constants of a header that cuda_fp16.h includes, which nothing uses.
    return re.sub(rb"(?m)^\.global .*2nv6target.*\n", b"", ptx)


folder = pathlib.Path(sys.argv[1])
OPTIONS += [argument for argument in sys.argv[2:] if argument.startswith("-D")]
for source in (pathlib.Path(argument) for argument in sys.argv[2:] if not argument.startswith("-D")):
    ptx = compile_file(source)
    if b".entry" in ptx:
        (folder / (source.stem + ".ptx")).write_bytes(ptx)
