#!/usr/bin/env bash
# Fetches axe-core, which looks for what keeps people from using a page, into .cache/axe, and prints the path of its script. The
# test of the status page loads it into a browser.
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.14.1
script=$PWD/.cache/axe/axe-$version.min.js
if [ ! -f "$script" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	(cd "$work" && npm pack --silent "axe-core@$version" >/dev/null && tar xzf axe-core-*.tgz)
	mkdir -p .cache/axe
	cp "$work/package/axe.min.js" "$script"
fi
echo "$script"
