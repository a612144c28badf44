#!/usr/bin/env bash
# Everything that must hold before a change goes in. Says at the end what could not be run, and why.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED="${CGO_ENABLED:-1}"
log=$(mktemp)
trap 'rm -f "$log" "$log".*; jobs -rp | xargs -r kill 2>/dev/null || true' EXIT
missing=()
# beside NAME COMMAND... begins what has one thread, or waits for most of its time; finish NAME waits for it, prints what it said, and fails if it has failed.
beside() {
	"${@:2}" >"$log.$1" 2>&1 &
	echo $! >"$log.$1.process"
}
finish() {
	local status=0
	wait "$(cat "$log.$1.process")" || status=$?
	cat "$log.$1"
	[ "$status" = 0 ] || exit "$status"
}
step() { printf '\n== %s (after %d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

command -v go >/dev/null || {
	echo "Go is needed: see https://go.dev/dl"
	exit 1
}

step "format, vet, linters"
scripts/lint.sh | tee "$log"
while read -r line; do missing+=("$line"); done < <(sed -n 's/^missing: //p' "$log")

step "tests"
gopath=$(go env GOPATH)
export PATH="$PATH:$PWD/.cache/bin:$gopath/bin"
# One package more than there are cores: those with brokers and stores wait for them most of the time.
packages=$(($(getconf _NPROCESSORS_ONLN) + 1))
# Those that take longest begin first, so that none of them runs alone at the end. What go vet says, it has said above.
go test -vet=off -p "$packages" -timeout 30m ./cmd/sluice ./translator/gpumodel ./gpukernels ./producer/kafka ./... 2>&1 | grep --line-buffered -v 'no test files' | tee "$log"

step "race detector on what is concurrent"
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v gcc >/dev/null; then
	# What the skipped trainings learn is seen without the detector; their goroutines are those of the other trainings. What is skipped of models has one goroutine.
	skipped='Overfitting|Calibration|Finetuning|GuidedAlignment|MarianUpdates|Kinds|RecurrentInterruption' # trainings
	skipped+='|Gradients|LeftOut|BFloat16References|Int16References|Invariance|Histories|BestOfAll|SteppersShareNoLines' # models
	go test -vet=off -race -short -p "$packages" -timeout 20m -skip "^Test($skipped)" \
		./translator/cpumodel ./train ./producer/... ./pipeline/... ./translator ./translator/vocab ./translator/shortlist ./translator/rescore ./consumer/... \
		./train/network ./train/{align,corpus,pieces} ./internal/{chain,compress,job,kafkaclient,readahead,recordio,s3client}
	# On GPUs, what is done by several goroutines, devices and streams.
	tests='Across|Graph|Events|Goroutines|StreamsAreLazy|OutOfMemory|InjectedErrors|BLASErrors' # of the driver's interface
	tests+='|Ahead|Beam|Jointly|Workers|SeveralGPUs|Failures|MiniBatchFit|Several|Updates'
	go test -vet=off -race -short -p "$packages" -timeout 10m -run "^Test($tests)\$" \
		./gpukernels/cuda ./translator/gpumodel ./train/gpunetwork
else
	missing+=("the race detector (it needs a C compiler)")
fi

if command -v qemu-aarch64 >/dev/null; then # one thread for minutes, beside what follows
	beside arm64 scripts/arm64.sh
fi
if command -v java >/dev/null && command -v mvn >/dev/null; then # brokers, for which it waits
	beside newcomer scripts/newcomer.sh
fi

step "kernels: assembly as generated, every implementation, no assembly"
go test -C kernels/_asm -count=1 ./... # its inputs lie outside of the module, where the cache does not look
levels='generic AVX2 AVX-VNNI AVX-512 AVX-512_VNNI' # as subtests have their names
for implementation in generic avx2 avxvnni avx512; do
	# A processor without one runs the one below instead.
	flag=${implementation/avxvnni/avx_vnni} flag=${flag/avx512/avx512bw}
	if [ "$implementation" != generic ] && [ -r /proc/cpuinfo ] && [ "$(uname -m)" = x86_64 ] && ! grep -qw "$flag" /proc/cpuinfo; then
		missing+=("kernels by $implementation (this processor does not have it)")
		continue
	fi
	# Tests that go through all levels have done so above, whatever the level that the processor begins with: here they run for that one.
	others=$(tr ' ' '\n' <<<"$levels" | while read -r level; do
		name=${level//-/}
		[ "${name,,}" = "$implementation" ] || echo "$level"
	done | paste -sd '|' -)
	SLUICE_CPU=$implementation go test -count=1 -vet=off -short -skip "/^($others)\$" ./kernels/...
done
go test -short -tags purego ./kernels/...
go test -short -tags purego -run 'TestReferences|TestHistories|TestLeftOut|TestBest|TestInt16Kinds|TestAllocations' ./translator/cpumodel # all of them take minutes

step "CUDA kernels: no spills" # that the PTX is what the sources give is one of the tests
if scripts/ptx.sh python >/dev/null; then
	scripts/ptx.sh report
else
	missing+=("the CUDA compiler (it comes from PyPI)")
fi
go vet -tags nogpu ./gpukernels/... ./translator/gpumodel

step "arm64"
if command -v qemu-aarch64 >/dev/null; then
	finish arm64
else
	missing+=("the assembly for arm64 (no qemu-aarch64; it is in the package qemu-user)")
fi

step "manifests, charts, compose, releases, with the types of those who read them"
go vet -C infra/validate ./...
go test -C infra/validate -count=1 ./... # as above

step "the documentation as a site"
go vet -C scripts/site ./...
go test -C scripts/site -count=1 ./...

step "the image"
if [ "$(id -u)" = 0 ] && [ "$(uname)" = Linux ]; then
	scripts/image.sh test
else
	missing+=("the container image (it needs root on Linux)")
fi

step "the way of a newcomer"
if command -v java >/dev/null && command -v mvn >/dev/null; then
	finish newcomer
else
	missing+=("the way of a newcomer (its streams need Java and Maven)")
fi

step "other systems"
for target in linux/arm64 darwin/arm64 windows/amd64; do
	GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go build -o /dev/null ./cmd/sluice
	[ "${target%/*}" = windows ] || # whose system calls the tests do not use
		GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go vet ./...
done

step "fuzz targets, briefly"
scripts/fuzz.sh "${FUZZTIME:-1s}"

[ -d ../shared ] || missing+=("tests against recorded translations and corpora (no ../shared beside the checkout)")
for program in spm_encode spm_decode spm_train sacrebleu bzip2 xz zstd java mvn versitygw promtool chromium g++; do
	command -v "$program" >/dev/null || missing+=("comparisons with $program (not installed)")
done
printf '\n'
if [ ${#missing[@]} -gt 0 ]; then
	echo "Passed. Could not be run here:"
	printf '  %s\n' "${missing[@]}"
else
	echo "Passed, and nothing was left out."
fi
