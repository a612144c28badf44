#!/usr/bin/env bash
# The way of somebody who has never seen the project: a fresh clone of what is committed, an empty home, no caches but that of Go's
# modules, no C compiler, no network for Go. First what README.md says, then the scenario of infra/compose without containers: real Kafka and
# a real S3 server as processes, sentences in, translations out, a worker killed in between, the status page showing it. In the end the
# program of a release is built there, and once more elsewhere with other caches: both have the same bytes.
#
#   newcomer.sh [MESSAGES]     how many messages go through the streams (200)
#
# As root on Linux it runs in a mount namespace of its own, in which the homes of users are empty. What the machine has to have is what
# README.md says of it: Go; and for the streams Java, Maven's artifacts of Kafka (scripts/kafka.sh fetch) and the S3 server (scripts/s3.sh build).
set -euo pipefail
cd "$(dirname "$0")/.."
messages=${1:-200}
say() { printf '\n=== %s\n' "$*"; }

# inside: what the newcomer does, in the clone.
inside() {
	say "README: make demo"
	make demo | tee ../demo
	grep -q '^    Zwei Kinder spielen' ../demo
	say "README: make test is there (it is what runs this)"
	make -n test | grep -q scripts/test.sh
	say "the scenario of infra/compose, as processes"
	SLUICE=$PWD/bin/sluice scripts/try-streams.sh "$messages"
	say "the program of a release"
	scripts/release.sh program ../released
	ls -A "$HOME"
}

if [ "${1:-}" = inside ]; then
	messages=$2
	inside
	exit
fi

work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
clone() {
	git clone -q --no-hardlinks . "$1"
	git -C "$1" remote remove origin
}
clone "$work/sluice"
mkdir "$work/home" "$work/tmp" "$work/tools" "$work/modules"
tools=$(dirname "$(command -v java || command -v true)"):$(dirname "$(command -v go)")
s3=$(scripts/s3.sh build)
cp "$s3" "$work/tools/versitygw"
[ -e .cache/kafka-4.4.0 ] || scripts/kafka.sh fetch
cp -r .cache/kafka-* "$work/tools/kafka"
modules=$(go env GOMODCACHE)
environment=(HOME="$work/home" TMPDIR="$work/tmp" PATH="$work/tools:$tools:/usr/local/bin:/usr/bin:/bin" GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0
	KAFKA_LIBS="$work/tools/kafka" KAFKA_PORT="${KAFKA_PORT:-23092}" S3_PORT="${S3_PORT:-23192}")

if [ "$(id -u)" = 0 ] && [ "$(uname)" = Linux ] && unshare --mount true 2>/dev/null; then
	# shellcheck disable=SC2016
	unshare --mount bash -euc '
		work=$1 modules=$2 home=$3
		shift 3
		mount --bind "$modules" "$work/modules"
		mount -o remount,bind,ro "$work/modules"
		for folder in /home "$home"; do [ ! -d "$folder" ] || mount -t tmpfs none "$folder"; done
		cd "$work/sluice"
		exec env -i "$@"
	' bash "$work" "$modules" "$HOME" "${environment[@]}" GOMODCACHE="$work/modules" scripts/newcomer.sh inside "$messages"
else
	(cd "$work/sluice" && env -i "${environment[@]}" GOMODCACHE="$modules" scripts/newcomer.sh inside "$messages")
fi

say "the same program, built elsewhere"
clone "$work/somewhere else"
(cd "$work/somewhere else" && scripts/release.sh program "$work/again")
cmp "$work/released" "$work/again"
sha256sum <"$work/again"
go version -m "$work/again" | grep -E '^\s(mod|build\svcs)'
say "the newcomer has arrived"
