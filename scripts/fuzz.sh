#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
count=0
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
for package in $packages; do
	listed=$(go test -run '^$' -list '^Fuzz' "$package") # ends the script if the package does not compile
	for target in $(grep '^Fuzz' <<<"$listed" || true); do
		echo "fuzz ${package##*/}.$target for $time"
		if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x -parallel 2 "$package" >"$log" 2>&1; then
			# The fuzzing engine now and then reports its own deadline as a failure. That is its only complaint then, and the
			# seeds have passed in the ordinary tests.
			if grep -qE 'Failing input written|panic:' "$log" || ! grep -qE '^ +context deadline exceeded$' "$log"; then
				cat "$log"
				exit 1
			fi
		fi
		count=$((count + 1))
	done
done
[ "$count" -gt 0 ] || {
	echo "no fuzz target was found"
	exit 1
}
echo "$count fuzz targets, $time each"
