#!/usr/bin/env bash
# Prints the path of promtool, which checks rules of Prometheus. Where it is not installed it is taken out of Debian's package of
# Prometheus, which is not installed: that would start a server.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v promtool; then exit; fi
program=$PWD/.cache/bin/promtool
if [ ! -x "$program" ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work"
	(cd "$work" && apt-get download -qq prometheus >&2)
	dpkg -x "$work"/prometheus_*.deb "$work/files"
	mkdir -p .cache/bin
	cp "$work/files/usr/bin/promtool" "$program"
fi
echo "$program"
