#!/usr/bin/env bash
# Tests what is written for 64-bit ARM on another machine, under QEMU (package qemu-user): the kernels' tests at every level, and a
# translation that must have the bytes of this machine's, on a processor of each level. Arguments go to the tests: -test.v, say.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v qemu-aarch64 >/dev/null || {
	echo "qemu-aarch64 is needed: apt-get install qemu-user"
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0
for package in kernels internal/cpu; do
	GOARCH=arm64 go test -c -o "$work/test" "./$package"
	echo "tests of $package on all levels"
	(cd "$package" && qemu-aarch64 -cpu max "$work/test" -test.short -test.skip Int8Peak "$@") # speeds mean nothing here
done

# nogpu: the program that looks for a GPU needs the C library of its processor. Here it is that of the image, which the tests build, too.
go build -trimpath -tags nogpu -o "$work/here" ./cmd/sluice
GOARCH=arm64 go build -tags nogpu -o "$work/sluice" ./cmd/sluice
printf '%s\n' 'A man in a red shirt is reading a newspaper.' 'Two children are playing football on the beach.' '' \
	'Do you want to save the changes before closing?' >"$work/source"
translate() { "$@" translate -m models/ende-tiny --quiet --cpu-threads 1 <"$work/source"; }
translate "$work/here" >"$work/want"
while read -r processor level; do
	chosen=$(qemu-aarch64 -cpu "$processor" "$work/sluice" version | sed -n 's/^kernel *int8: //p')
	[ "$chosen" = "$level" ] || {
		echo "$processor: the products are those for $chosen, not $level"
		exit 1
	}
	translate qemu-aarch64 -cpu "$processor" "$work/sluice" | diff - "$work/want"
	echo "$processor ($level) translates as this machine does"
done <<-'PROCESSORS'
	cortex-a72 NEON
	neoverse-n1 SDOT
	max SMMLA
PROCESSORS
