#!/usr/bin/env bash
# Compiles the CUDA kernels to PTX, which needs no GPU and no CUDA toolkit: NVIDIA's compiler library and its headers come from PyPI,
# in pinned versions, into .cache/cuda. That version's PTX (8.2) is loaded by every driver from CUDA 12.2 on, and this code for sm_80 is
# what newer devices run, too.
#
#   scripts/ptx.sh             writes gpukernels/ptx/*.ptx and gpukernels/cuda/testdata/*.ptx
#   scripts/ptx.sh check       fails if they are not what the sources give
#   scripts/ptx.sh report      says how many registers the kernels use and how much they spill, for several devices; fails on spills
#   scripts/ptx.sh python      prints the path of a Python that has the compiler
set -euo pipefail
cd "$(dirname "$0")/.."
version=12.2.140
newer=13.5.37 # of ptxas, which knows newer devices
cache=$PWD/.cache/cuda
python=$cache/bin/python

install() {
	if [ "$(cat "$cache/version" 2>/dev/null)" = "$version $newer" ]; then return; fi
	rm -rf "$cache"
	python3 -m venv "$cache" >&2
	"$python" -m pip install -q --disable-pip-version-check "nvidia-cuda-nvrtc-cu12==$version" "nvidia-cuda-runtime-cu12==$version" \
		"nvidia-cuda-nvcc-cu12==$version" "nvidia-cuda-nvcc==$newer" >&2
	echo "$version $newer" >"$cache/version"
}

compile() { # FOLDER
	mkdir -p "$1/kernels" "$1/trial"
	"$python" gpukernels/tools/ptx.py "$1/kernels" gpukernels/src/*.cu
	"$python" gpukernels/tools/ptx.py "$1/trial" gpukernels/cuda/testdata/*.cu
}

check() {
	compile "$work"
	if diff -r "$work/kernels" gpukernels/ptx && diff "$work/trial/trial.ptx" gpukernels/cuda/testdata/trial.ptx; then return; fi
	echo "the PTX is not what the sources give: run scripts/ptx.sh"
	return 1
}

report() {
	local packages spilled=0
	packages=$("$python" -c 'import nvidia; print(nvidia.__path__[0])')
	for architecture in 80 86 89 90; do
		assemble "$packages/cuda_nvcc/bin/ptxas" "$architecture" || spilled=1
	done
	for architecture in 80 90 100 120; do
		assemble "$packages/cu13/bin/ptxas" "$architecture" || spilled=1
	done
	return $spilled
}

assemble() { # PTXAS ARCHITECTURE
	local file
	printf '%-28s %9s %7s %7s\n' "sm_$2, $("$1" --version | sed -n 's/.*\(release [0-9.]*\).*/\1/p')" registers spilled shared
	for file in gpukernels/ptx/*.ptx; do
		"$1" -v -arch="sm_$2" "$file" -o /dev/null 2>&1
	done | "$python" gpukernels/tools/ptxas.py
}

install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case "${1:-write}" in
write)
	compile "$work"
	mkdir -p gpukernels/ptx
	rm -f gpukernels/ptx/*.ptx gpukernels/cuda/testdata/*.ptx
	cp "$work"/kernels/*.ptx gpukernels/ptx/
	cp "$work"/trial/*.ptx gpukernels/cuda/testdata/
	;;
check) check ;;
report) report ;;
python) echo "$python" ;;
*)
	sed -n '2,9s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
