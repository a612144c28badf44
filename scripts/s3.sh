#!/usr/bin/env bash
# Starts and stops a real S3 server on this machine: versitygw, which keeps objects as files.
#
#   scripts/s3.sh build             prints the path of the program, building it if it is nowhere (that takes long)
#   scripts/s3.sh start DIR [PORT]  serves DIR/buckets on 127.0.0.1:PORT (10000), waits until it answers, prints settings
#   scripts/s3.sh stop DIR          stops it
set -euo pipefail
version=v1.8.0
root=$(cd "$(dirname "$0")/.." && pwd)

find_program() {
	local place
	for place in "$(command -v versitygw || true)" "$(go env GOPATH)/bin/versitygw" "$root/.cache/bin/versitygw"; do
		if [ -n "$place" ] && [ -x "$place" ]; then
			echo "$place"
			return
		fi
	done
	echo "building versitygw $version into .cache/bin" >&2
	GOBIN="$root/.cache/bin" go install "github.com/versity/versitygw/cmd/versitygw@$version" >&2
	echo "$root/.cache/bin/versitygw"
}

start() {
	local dir port=${2:-10000} program
	program=$(find_program)
	mkdir -p "$1/buckets" "$1/iam" "$1/versions"
	dir=$(cd "$1" && pwd) # it takes relative paths for others than they are
	if [ -f "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; then
		echo "a server is running on $dir already" >&2
		exit 1
	fi
	ROOT_ACCESS_KEY=testuser ROOT_SECRET_KEY=secretsecret nohup "$program" --quiet --port "127.0.0.1:$port" --iam-dir "$dir/iam" \
		posix --versioning-dir "$dir/versions" "$dir/buckets" >"$dir/log" 2>&1 &
	echo $! >"$dir/pid"
	for _ in $(seq 100); do
		if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=testuser AWS_SECRET_ACCESS_KEY=secretsecret AWS_REGION=us-east-1"
			return
		fi
		sleep 0.1
	done
	echo "the server does not answer; its log:" >&2
	cat "$dir/log" >&2
	stop "$dir"
	exit 1
}

stop() {
	local dir=$1 pid
	[ -f "$dir/pid" ] || return 0
	pid=$(cat "$dir/pid")
	kill "$pid" 2>/dev/null || true
	for _ in $(seq 50); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	kill -9 "$pid" 2>/dev/null || true
	rm -f "$dir/pid"
}

case "${1:-}" in
build) find_program ;;
start) start "${2:?which folder?}" "${3:-}" ;;
stop) stop "${2:?which folder?}" ;;
*)
	sed -n '2,6s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
