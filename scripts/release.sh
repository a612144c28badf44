#!/usr/bin/env bash
# The programs of a release, as .goreleaser.yml builds them.
#
#   release.sh build [FOLDER]              all systems, from the commit that is checked out, into FOLDER (bin/release), with
#                                          bills of materials and checksums
#   release.sh reproducible [OS_ARCH]      builds one system twice, from two clones in different folders, with caches of their own,
#                                          and compares the bytes. The system of this machine if nothing is said
#   release.sh goreleaser [OS_ARCH]        a release that is not published, by GoReleaser, which is built into .cache/bin for it (a quarter of
#                                          an hour, the first time); and its programs compared with those that are built here. For one
#                                          system, or all
#   release.sh program FILE                the static program for this machine, from the checkout itself
set -euo pipefail
cd "$(dirname "$0")/.."
targets=(linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64)
gpu_targets=(linux_amd64 linux_arm64)
work=""
trap '[ -z "$work" ] || { chmod -R u+w "$work" && rm -rf "$work"; }' EXIT

# program TARGET FILE TAGS: from the checkout in the current folder. With the tag nogpu it is static.
program() {
	CGO_ENABLED=0 GOOS=${1%_*} GOARCH=${1#*_} GOFLAGS='' \
		go build -trimpath -buildvcs=true -ldflags '-s -w -buildid=' -tags "$3" -o "$2" ./cmd/sluice
}

# clone FOLDER: what is committed, with the tags, and nothing else.
clone() {
	git clone -q --no-hardlinks . "$1"
	# Modules are there already; the address of the clone's origin must not matter.
	git -C "$1" remote remove origin
}

build() {
	local folder target suffix
	folder=$(mkdir -p "$1" && cd "$1" && pwd)
	work=$(mktemp -d)
	clone "$work/source"
	for target in "${targets[@]}"; do
		suffix=""
		[ "${target%_*}" != windows ] || suffix=.exe
		(cd "$work/source" && program "$target" "$folder/sluice_$target$suffix" nogpu)
	done
	for target in "${gpu_targets[@]}"; do (cd "$work/source" && program "$target" "$folder/sluice-gpu_$target" ""); done
	go build -o "$work/sbom" ./scripts/sbom
	for target in "$folder"/sluice_* "$folder"/sluice-gpu_*; do "$work/sbom" "$target" "$target.spdx.json"; done
	(cd "$folder" && sha256sum sluice_* sluice-gpu_* >checksums.txt && cat checksums.txt)
}

reproducible() {
	local one two
	work=$(mktemp -d)
	clone "$work/one"
	clone "$work/somewhere else"
	(cd "$work/one" && GOCACHE=$work/cache1 program "$1" "$work/first" nogpu)
	(cd "$work/somewhere else" && GOCACHE=$work/cache2 program "$1" "$work/second" nogpu)
	one=$(sha256sum <"$work/first") two=$(sha256sum <"$work/second")
	if [ "$one" != "$two" ]; then
		echo "two builds of the same commit differ: ${one%% *} and ${two%% *}" >&2
		return 1
	fi
	echo "two builds for $1 have the same bytes: sha256 ${one%% *}"
	go version -m "$work/first" | grep -E '^\s(mod|build\svcs)' || true
}

# same TARGET PREFIX TAGS: whether GoReleaser's program has the bytes of the one that is built here.
same() {
	(cd "$work/own" && program "$1" "$work/program" "$3")
	cmp "$work/program" "$work/source/dist/$2_$1"_*/sluice*
	echo "$2_$1 has the same bytes"
}

goreleaser() {
	local goreleaser=$PWD/.cache/bin/goreleaser version target
	version=$(sed -n 's|^\tgithub.com/goreleaser/goreleaser/v2 ||p' infra/validate/go.mod)
	if [ "$(cat "$goreleaser.version" 2>/dev/null)" != "$version" ]; then
		GOBIN=$PWD/.cache/bin GOFLAGS='' go install "github.com/goreleaser/goreleaser/v2@$version"
		echo "$version" >"$goreleaser.version"
	fi
	work=$(mktemp -d)
	clone "$work/source"
	git -C "$work/source" remote add origin https://github.com/sluice-mt/sluice # it wants one, and does not ask it for anything here
	clone "$work/own"
	if [ -n "$1" ]; then
		targets=("$1")
		[[ " ${gpu_targets[*]} " == *" $1 "* ]] && gpu_targets=("$1") || gpu_targets=()
	fi
	# Of the lists of systems those that are wanted.
	sed -E "/^      - [a-z]+_[a-z0-9]+$/{/- ${1:-.*}$/!d}" .goreleaser.yml >"$work/config.yml"
	(cd "$work/source" && "$goreleaser" check && "$goreleaser" release --snapshot --clean --config "$work/config.yml")
	(cd "$work/source/dist" && sha256sum --quiet -c checksums.txt && ls)
	for target in "${targets[@]}"; do same "$target" sluice nogpu; done
	for target in "${gpu_targets[@]}"; do same "$target" sluice-gpu ""; done
}

case ${1:-} in
	build) build "${2:-bin/release}" ;;
	reproducible) reproducible "${2:-$(go env GOOS)_$(go env GOARCH)}" ;;
	goreleaser) goreleaser "${2:-}" ;;
	program) program "$(go env GOOS)_$(go env GOARCH)" "${2:?which file?}" nogpu ;;
	*)
		sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
		exit 2
		;;
esac
