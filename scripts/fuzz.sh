#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time (default 10s), those behind one that fails too.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$(go env GOCACHE)/fuzz
count=0
failed=()
while IFS=$'\t' read -r package folder; do
	grep -qs '^func Fuzz' "$folder"/*_test.go || continue
	# One program for all targets of a package: "go test -fuzz" would link it for each.
	go test -c -fuzz . -o "$work/test" "$package"
	listed=$(cd "$folder" && "$work/test" -test.run '^$' -test.list '^Fuzz')
	for target in $listed; do
		echo "fuzz ${package##*/}.$target for $time"
		if ! (cd "$folder" && "$work/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x \
			-test.parallel 2 -test.fuzzcachedir "$cache/$package") >"$work/log" 2>&1; then
			# The fuzzing engine now and then reports its own deadline as a failure. That is its only complaint then, and the
			# seeds have passed in the ordinary tests.
			if grep -qE 'Failing input written|panic:' "$work/log" || ! grep -qE '^ +context deadline exceeded$' "$work/log"; then
				cat "$work/log"
				failed+=("${package##*/}.$target")
			fi
		fi
		count=$((count + 1))
	done
done < <(go list -f '{{.ImportPath}}{{"\t"}}{{.Dir}}' ./...)
[ "$count" -gt 0 ] || {
	echo "no fuzz target was found"
	exit 1
}
echo "$count fuzz targets, $time each"
[ "${#failed[@]}" -eq 0 ] || {
	echo "failed: ${failed[*]}"
	exit 1
}
