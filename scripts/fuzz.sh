#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
count=0
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
	for target in $(go test -run '^$' -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "fuzz ${package##*/}.$target for $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x -parallel 2 "$package" >"${TMPDIR:-/tmp}/sluice-fuzz.log" 2>&1 || {
			# The fuzzing engine now and then reports its own deadline as a failure; that leaves no input behind.
			if grep -q 'Failing input written' "${TMPDIR:-/tmp}/sluice-fuzz.log" || ! grep -q 'context deadline exceeded' "${TMPDIR:-/tmp}/sluice-fuzz.log"; then
				cat "${TMPDIR:-/tmp}/sluice-fuzz.log"
				exit 1
			fi
		}
		count=$((count + 1))
	done
done
echo "$count fuzz targets, $time each"
