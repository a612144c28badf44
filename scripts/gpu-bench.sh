#!/usr/bin/env bash
# Translates random sentences with students of random weights on a GPU, with sluice, CTranslate2 and PyTorch with CUDA graphs in turns, and
# prints how many source pieces a second each does. The students have self-attention in the decoder, as the others know nothing else;
# translations are as long as their sources; float16; PyTorch searches greedily only. Needs a card of NVIDIA's with its driver, Python 3.9 or later
# with venv (PYTHON), and PyPI, where CTranslate2 and PyTorch come from. Not yet run on a card: where there is none, only what it says of its
# arguments and the Python parts on the processor have been tried.
#
#   scripts/gpu-bench.sh [ROUNDS] [SIZE...]     3 rounds of tiny, small, base and large
set -euo pipefail
usage() {
	echo "usage: scripts/gpu-bench.sh [ROUNDS] [tiny|small|base|large...]: $1" >&2
	exit 2
}
rounds=${1:-3}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage "the number of rounds is at least 1, not $rounds"
shift $(($# < 1 ? $# : 1))
[ $# -gt 0 ] || set -- tiny small base large
for size in "$@"; do
	case $size in tiny | small | base | large) ;; *) usage "there is no student $size" ;; esac
done
if ! nvidia-smi -L >/dev/null 2>&1; then
	echo "scripts/gpu-bench.sh: nvidia-smi finds no NVIDIA GPU here; sluice bench gpu --roofline prints what cards could do" >&2
	exit 1
fi
cd "$(dirname "$0")/.."
work=$PWD/.cache/gpu-bench
mkdir -p "$work"
if ! [ -e "$work/python/ready" ]; then
	"${PYTHON:-python3}" -m venv "$work/python"
	"$work/python/bin/pip" install -q --disable-pip-version-check ctranslate2==4.6.0 numpy nvidia-cublas-cu12 torch==2.7.1
	touch "$work/python/ready"
fi
python=$work/python/bin/python
go build -o "$work/sluice" ./cmd/sluice
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
sentences=8192 # of each measurement

sluice() { # SIZE ROUND
	"$work/sluice" bench gpu --sizes "$1-self" --streams 1,2,4 --beams 1,4 --slots 0 --spread 0 --json | "$python" -c '
import json, sys
size, number = sys.argv[1:]
for row in json.load(sys.stdin)["rows"]:
    print("sluice", size, row["beam"], row["streams"], number, round(row["source_pieces_per_second"]))
' "$1" "$2"
}

for ((round = 1; round <= rounds; round++)); do
	for size in "$@"; do
		sluice "$size" "$round"
		for beam in 1 4; do
			for streams in 1 2 4; do
				rate=$("$python" scripts/gpubench/ctranslate2_student.py "$size" "$beam" "$streams" "$sentences")
				echo "CTranslate2 $size $beam $streams $round $rate"
			done
		done
		rate=$("$python" scripts/gpubench/torch_student.py "$size" "$sentences")
		echo "PyTorch $size 1 1 $round $rate"
	done
done | tee /dev/stderr >"$work/rates.txt"
"$python" scripts/gpubench/table.py <"$work/rates.txt"
