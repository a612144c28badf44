#!/usr/bin/env bash
# Compiles the CUDA kernels to PTX, which needs no GPU and no CUDA toolkit: NVIDIA's compiler library and its headers come from PyPI,
# in pinned versions, into .cache/cuda. That version's PTX (8.2) is loaded by every driver from CUDA 12.2 on, and this code for sm_80 is
# what newer devices run, too. Products of fp8 are apart: for sm_89, and drivers from CUDA 12.4 on.
#
#   scripts/ptx.sh             writes gpukernels/ptx, gpukernels/cuda/testdata/*.ptx and the table of occupancy in docs/gpu.md
#   scripts/ptx.sh report      says how many registers the kernels use, how much they spill and how much of a multiprocessor they occupy,
#                              for several devices; fails on spills, and if docs/gpu.md has another table
#   scripts/ptx.sh python      prints the path of a Python that has the compiler
set -euo pipefail
cd "$(dirname "$0")/.."
version=12.2.140
newer=13.5.37 # of ptxas, which knows newer devices
cublas=12.2.5.6 # of cuBLASLt, of which only the headers are kept
cache=$PWD/.cache/cuda
python=$cache/bin/python

install() {
	install_compilers
	install_headers
}

install_compilers() {
	if [ "$(cat "$cache/version" 2>/dev/null)" = "$version $newer" ]; then return; fi
	rm -rf "$cache"
	python3 -m venv "$cache" >&2
	"$python" -m pip install -q --disable-pip-version-check "nvidia-cuda-nvrtc-cu12==$version" "nvidia-cuda-runtime-cu12==$version" \
		"nvidia-cuda-nvcc-cu12==$version" "nvidia-cuda-nvcc==$newer" >&2
	echo "$version $newer" >"$cache/version"
}

# The package has the libraries, too, which take more than half a gigabyte.
install_headers() {
	if [ "$(cat "$cache/cublas" 2>/dev/null)" = "$cublas" ]; then return; fi
	local package packages
	package=$(mktemp -d)
	"$python" -m pip download -q --disable-pip-version-check --no-deps -d "$package" "nvidia-cublas-cu12==$cublas" >&2
	packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	"$python" - "$package" "$packages" <<-'END' >&2
		import glob, sys, zipfile
		wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
		wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.endswith(".h")])
	END
	rm -r "$package"
	echo "$cublas" >"$cache/cublas"
}

compile() { # FOLDER
	mkdir -p "$1/kernels/bfloat16" "$1/trial"
	"$python" gpukernels/tools/ptx.py "$1/kernels" gpukernels/src/*.cu
	"$python" gpukernels/tools/ptx.py "$1/kernels/bfloat16" -DSLUICE_BFLOAT16 gpukernels/src/*.cu
	"$python" gpukernels/tools/ptx.py "$1/trial" gpukernels/cuda/testdata/*.cu
}

# Makes tables of what ptxas says; more arguments are those of the table maker.
report() { # [-write]
	local packages architecture
	packages=$("$python" -c 'import nvidia; print(nvidia.__path__[0])')
	rm -rf "$work/logs"
	mkdir -p "$work/logs" "$work/parts"
	for architecture in 80 86 89 90; do
		assemble "$packages/cuda_nvcc/bin/ptxas" "$architecture" gpukernels/ptx/*.ptx
		assemble "$packages/cuda_nvcc/bin/ptxas" "$architecture" gpukernels/ptx/bfloat16/*.ptx
	done
	for architecture in 80 86 89 90 100 120; do
		assemble "$packages/cu13/bin/ptxas" "$architecture" gpukernels/ptx/*.ptx
		assemble "$packages/cu13/bin/ptxas" "$architecture" gpukernels/ptx/bfloat16/*.ptx
	done
	local logs
	mapfile -t logs < <(printf '%s\n' "$work"/logs/* | sort -V)
	go run ./gpukernels/tools/ptxas "$@" docs/gpu.md "${logs[@]}"
}

# Prints those of the files that a release of ptxas knows and a device can run, with a zero behind each: PTX 8.4 is that of CUDA 12.4.
known() { # RELEASE ARCHITECTURE FILE...
	local file target version
	for file in "${@:3}"; do
		target=$(sed -n 's/^\.target sm_\([0-9]*\).*/\1/p' "$file")
		version=$(awk -F'[ .]' '/^\.version/ { print $3 + 4 "." $4 }' "$file")
		if [ "$target" -le "$2" ] && [ "$(printf '%s\n' "$version" "$1" | sort -V | tail -1)" = "$1" ]; then printf '%s\0' "$file"; fi
	done
}

assemble() { # PTXAS ARCHITECTURE FILE...
	local release ptxas=$1 architecture=$2
	release=$("$ptxas" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
	# As many at a time as there are processors, each with a log of its own.
	# shellcheck disable=SC2016
	known "$release" "$architecture" "${@:3}" | xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN)" \
		sh -c 'exec "$0" -v -arch="$1" "$3" -o /dev/null >"$2/${3##*/}" 2>&1' "$ptxas" "sm_$architecture" "$work/parts" || {
		cat "$work"/parts/*
		return 1
	}
	cat "$work"/parts/* >>"$work/logs/sm_$architecture-$release"
	rm "$work"/parts/*
}

install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case "${1:-write}" in
write)
	compile "$work"
	rm -rf gpukernels/ptx gpukernels/cuda/testdata/*.ptx
	cp -r "$work"/kernels gpukernels/ptx
	cp "$work"/trial/*.ptx gpukernels/cuda/testdata/
	report -write
	;;
report) report ;;
python) echo "$python" ;;
*)
	sed -n '2,9s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
