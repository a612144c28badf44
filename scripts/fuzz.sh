#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time (default 10s), as many at once as there are processors; those behind one that fails, too.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$(go env GOCACHE)/fuzz

# fuzz PACKAGE FOLDER TARGET, with one process: as many targets as there are processors run at once.
fuzz() {
	local log
	log=$work/${1##*/}.$3
	echo "fuzz ${1##*/}.$3 for $time"
	if ! (cd "$2" && "$work/test" -test.run '^$' -test.fuzz "^$3\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x \
		-test.parallel 1 -test.fuzzcachedir "$cache/$1") >"$log" 2>&1; then
		# The fuzzing engine now and then reports its own deadline as a failure. That is its only complaint then, and the
		# seeds have passed in the ordinary tests.
		if grep -qE 'Failing input written|panic:' "$log" || ! grep -qE '^ +context deadline exceeded$' "$log"; then
			cat "$log"
			echo "${1##*/}.$3" >>"$work/failed"
		fi
	fi
}

count=0
touch "$work/failed"
while IFS=$'\t' read -r package folder; do
	grep -qs '^func Fuzz' "$folder"/*_test.go || continue
	# One program for all targets of a package: "go test -fuzz" would link it for each.
	go test -c -vet=off -fuzz . -o "$work/test" "$package"
	listed=$(cd "$folder" && "$work/test" -test.run '^$' -test.list '^Fuzz')
	for target in $listed; do
		while [ "$(jobs -rp | wc -l)" -ge "$(getconf _NPROCESSORS_ONLN)" ]; do wait -n || true; done
		fuzz "$package" "$folder" "$target" &
		count=$((count + 1))
	done
	wait
done < <(go list -f '{{.ImportPath}}{{"\t"}}{{.Dir}}' ./...)
[ "$count" -gt 0 ] || {
	echo "no fuzz target was found"
	exit 1
}
echo "$count fuzz targets, $time each"
[ ! -s "$work/failed" ] || {
	echo "failed: $(paste -sd ' ' "$work/failed")"
	exit 1
}
