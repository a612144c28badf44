#!/usr/bin/env bash
# The container image, made without a daemon, and tried out.
#
#   image.sh build [FOLDER] [MODEL]    makes FOLDER/sluice.tar (bin/) from this checkout, for "docker load" and others; with
#                                      a MODEL, a file or folder, it is in the image at /model
#   image.sh test                      makes it, measures it, and runs it as the user it names, without rights, on a
#                                      read-only file system, without network. Needs root on Linux
#   image.sh dockerfile                builds the Dockerfile with buildah and compares. Where its base image cannot be had,
#                                      one is made of the Go installation here
#
# ARCH=arm64 makes it for another processor.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${ARCH:-$(go env GOARCH)}
most=$((60 << 20)) # bytes that the image may have without a model
certificates=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}

work=""
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

say() { printf '%s\n' "$*" >&2; }

# programs FOLDER: what the image holds, statically linked.
programs() {
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -tags nogpu -ldflags='-s -w' -o "$1/sluice" ./cmd/sluice
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -ldflags='-s -w' -o "$1/healthcheck" ./infra/healthcheck
}

# build FOLDER MODEL PROGRAMS: without a folder of programs they are built.
build() {
	local folder=$1 model=${2:-} made=${3:-} layers=()
	mkdir -p "$folder"
	if [ -z "$made" ]; then
		made=$folder/programs
		mkdir -p "$made"
		programs "$made"
	fi
	[ -f "$certificates" ] || {
		say "there are no certificates of authorities in $certificates: set CERTIFICATES"
		return 1
	}
	layers=("$certificates=/etc/ssl/certs/ca-certificates.crt")
	[ -z "$model" ] || layers+=("$model=/model")
	layers+=(LICENSE=/usr/share/doc/sluice/LICENSE THIRD_PARTY_NOTICES=/usr/share/doc/sluice/THIRD_PARTY_NOTICES
		"$made/healthcheck=/usr/bin/healthcheck" "$made/sluice=/usr/bin/sluice")
	go run ./scripts/image -o "$folder/sluice.tar" -name sluice:latest -arch "$arch" "${layers[@]}"
}

# unpack TAR FOLDER: the file system of an image.
unpack() {
	local layout
	layout=$(mktemp -d)
	tar -xf "$1" -C "$layout"
	mkdir -p "$2"
	# manifest.json names the layers from the lowest to the highest.
	sed 's/.*"Layers":\[\([^]]*\)\].*/\1/; s/[",]/ /g' "$layout/manifest.json" | tr ' ' '\n' | while read -r layer; do
		[ -z "$layer" ] || tar -xzf "$layout/$layer" -C "$2"
	done
	rm -r "$layout"
}

# within ROOT MODEL FILES COMMAND...: runs a command in the file system of an image as a container runtime would: as the user
# that the Dockerfile names, without capabilities and network, on a root that cannot be written.
within() {
	local root=$1 model=$2 files=$3
	shift 3
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --net /bin/sh -euc '
		root=$1 model=$2 files=$3
		shift 3
		mount --bind "$root" "$root"
		mount --bind "$model" "$root/model"
		mount -o remount,bind,ro "$root/model"
		mount --bind "$files" "$root/data"
		mount -t proc proc "$root/proc"
		mount -o remount,bind,ro "$root"
		exec env -i MODEL=/model setpriv --no-new-privs unshare --root="$root" --wd=/ --setgid 65532 --setuid 65532 "$@"
	' sh "$root" "$model" "$files" "$@"
}

# gpu_root FOLDER: what the stage gpu of the Dockerfile holds, with the glibc of this machine for that of the base.
gpu_root() {
	local library
	mkdir -p "$1/usr/bin" "$1/model" "$1/data" "$1/proc"
	CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags='-s -w' -o "$1/usr/bin/sluice" ./cmd/sluice
	ldd "$1/usr/bin/sluice" | grep -o '/[^ ]*' | while read -r library; do
		mkdir -p "$1$(dirname "$library")"
		cp -L "$library" "$1$library"
	done
	chmod 755 "$1"
}

# expect WHAT FOUND WANTED
expect() {
	if [ "$2" != "$3" ]; then
		say "$1: \"$2\", expected \"$3\""
		return 1
	fi
	say "ok: $1"
}

test_image() {
	local model size answer
	work=$(mktemp -d)
	build "$work"
	size=$(wc -c <"$work/sluice.tar")
	say "the image has $size bytes, compressed, without model"
	unpack "$work/sluice.tar" "$work/root"
	size=$(du -sb "$work/root" | cut -f1)
	say "its files have $size bytes"
	[ "$size" -le "$most" ] || {
		say "that is more than $most"
		return 1
	}
	build "$work/again" "" "$work/programs"
	cmp "$work/sluice.tar" "$work/again/sluice.tar"
	say "ok: a second image has the same bytes"
	unshare --mount true 2>/dev/null || {
		say "missing: running the image (it needs root and namespaces)"
		return 0
	}
	model=$PWD/models/ende-tiny
	mkdir -p "$work/files/in" "$work/files/out"
	printf 'A man is reading a newspaper.\n' >"$work/files/in/one.en"
	cat >"$work/files/job.yml" <<'YML'
name: image
source: {files: {paths: /data/in}}
sink: {files: {folder: /data/out}}
translate: {models: "${MODEL}"}
YML
	chown -R 65532:65532 "$work/files"
	mkdir -p "$work/root/model" "$work/root/data" "$work/root/proc" # which a runtime makes for what it mounts
	chmod 755 "$work" "$work/root"
	within "$work/root" "$model" "$work/files" /usr/bin/sluice run /data/job.yml
	answer=$(cat "$work/files/out/one.en")
	expect "a job, as user 65532, on a read-only file system" "$answer" "$(bin_translate "$work/files/in/one.en")"
	expect "who has written the output" "$(stat -c %u "$work/files/out/one.en")" 65532
	if within "$work/root" "$model" "$work/files" /usr/bin/sluice translate -m /model --quiet -i /data/in/one.en -o /one.de 2>"$work/refused"; then
		say "the file system of the image can be written"
		return 1
	fi
	grep -qi 'read-only file system' "$work/refused"
	say "ok: the file system of the image cannot be written"
	if within "$work/root" "$model" "$work/files" /usr/bin/healthcheck 2>/dev/null; then
		say "the health check is content with nothing"
		return 1
	fi
	say "ok: the health check sees that nothing runs"
	rm -r "$work/files/out" && mkdir "$work/files/out" && chown 65532:65532 "$work/files/out"
	gpu_root "$work/gpu"
	within "$work/gpu" "$model" "$work/files" /usr/bin/sluice run /data/job.yml
	expect "the program for GPUs, with glibc and without a GPU" "$(cat "$work/files/out/one.en")" "$answer"
}

# bin_translate FILE: what a program outside of an image makes of it.
bin_translate() { go run ./cmd/sluice translate -m models/ende-tiny --quiet -i "$1"; }

# builder: the image that the Dockerfile builds in, made of what is here.
builder() {
	local container root
	container=$(buildah from scratch)
	root=$(buildah mount "$container")
	mkdir -p "$root/usr/local" "$root/etc/ssl/certs" "$root/tmp" "$root/root"
	cp -r "$(go env GOROOT)" "$root/usr/local/go"
	cp "$certificates" "$root/etc/ssl/certs/"
	cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
	buildah umount "$container" >/dev/null
	buildah config --env PATH=/usr/local/go/bin --env HOME=/root "$container"
	buildah commit -q --rm "$container" localhost/sluice-builder >/dev/null
}

dockerfile() {
	local base=localhost/sluice-builder options=(--format docker --isolation chroot --network host)
	work=$(mktemp -d)
	if buildah pull -q golang:1.26 >/dev/null 2>&1; then
		base=golang:1.26
	else
		say "the base image cannot be had: building in one made of $(go version)"
		builder
		# Modules that are here already need not come over the network.
		options+=(--volume "$(go env GOMODCACHE):/root/go/pkg/mod" --volume "$(go env GOCACHE):/root/.cache/go-build")
	fi
	buildah build -q "${options[@]}" --build-arg BUILDER="$base" -t localhost/sluice . >/dev/null
	buildah build -q "${options[@]}" --build-arg BUILDER="$base" --target with-model --build-arg WITH_MODEL=models/ende-tiny \
		-t localhost/sluice-with-model . >/dev/null
	expect "its health check" "$(buildah inspect --type image --format '{{.Docker.Config.Healthcheck.Test}}' localhost/sluice)" "[CMD /usr/bin/healthcheck]"
	expect "the user of the image" "$(buildah inspect --type image --format '{{.Docker.Config.User}}' localhost/sluice)" 65532:65532
	local container root
	container=$(buildah from localhost/sluice-with-model)
	root=$(buildah mount "$container")
	expect "the model in the image" "$(cd "$root/model" && find . -type f | sort | xargs sha256sum | sha256sum)" \
		"$(cd models/ende-tiny && find . -type f | sort | xargs sha256sum | sha256sum)"
	expect "folders of the image" "$(cd "$root" && find . -type f -path './usr/bin/*' | sort | tr '\n' ' ')" "./usr/bin/healthcheck ./usr/bin/sluice "
	printf 'A man is reading a newspaper.\n' >"$work/one.en"
	expect "a translation by the image" "$(chroot --userspec=65532:65532 "$root" /usr/bin/sluice translate -m /model --quiet <"$work/one.en")" \
		"$(bin_translate "$work/one.en")"
	buildah umount "$container" >/dev/null
	buildah rm "$container" >/dev/null
	buildah rmi -f localhost/sluice localhost/sluice-with-model >/dev/null
	if [ "$base" = localhost/sluice-builder ]; then
		buildah rmi -f "$base" >/dev/null
	fi
}

case ${1:-} in
	build) build "${2:-bin}" "${3:-}" ;;
	test) test_image ;;
	dockerfile) dockerfile ;;
	*)
		sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
		exit 2
		;;
esac
