#!/usr/bin/env bash
# Measures products in 8 bits beside the ceiling of a core, round after round. Prints Markdown tables for BENCHMARKS.md: how many percent of
# the ceiling each shape of matrix reaches with each number of rows, the median of the rounds, the least and the most. Where a single row is multiplied, it
# is percent of what the core can read where the weights are. At real-time priority where that is allowed.
#
#   scripts/products.sh [ROUNDS]        7 unless said
#   SLUICE_CPU=avx2 scripts/products.sh 3
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-7}
if ! [[ $rounds =~ ^[1-9][0-9]*$ ]]; then
	sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
	exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
go test -c -o "$folder/kernels" ./kernels
first=()
if command -v chrt >/dev/null && chrt -f 50 true 2>/dev/null; then
	first=(chrt -f 50)
fi

for ((round = 0; round < rounds; round++)); do
	"${first[@]}" "$folder/kernels" -test.run '^$' -test.bench 'MulInt8(FromMemory)?$' -test.benchtime 0.1s -test.cpu 1
done | awk '
	# spread sorts the shares of a cell and returns the one in the middle, the least and the most.
	function spread(cell,    n, list, i, j, x) {
		n = split(shares[cell], list, " ")
		for (i = 2; i <= n; i++) {
			x = list[i]
			for (j = i; j > 1 && list[j - 1] + 0 > x + 0; j--) list[j] = list[j - 1]
			list[j] = x
		}
		return n ? sprintf("%.1f (%.1f to %.1f)", (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2, list[1], list[n]) : ""
	}
	/^BenchmarkMulInt8/ {
		split($1, name, "/")
		sub(/rows=/, "", name[3])
		sub(/-[0-9]+$/, "", name[3])
		for (i = 3; i < NF; i += 2) value[$(i + 1)] = $i
		table = name[1] ~ /FromMemory/ ? "from memory" : "the same matrix again and again"
		# A row reads the weights once: each of them is a byte, and a multiply-accumulate.
		share = name[3] == 1 ? 100 * value["GMAC/s"] / value["GB/s-read"] : value["%peak"]
		if (name[3] > 1) ceilings[++bursts] = 100 * value["GMAC/s"] / value["%peak"]
		if (!(table in known)) { known[table]; tables[++tableCount] = table }
		if (!((table, name[2]) in known)) { known[table, name[2]]; shapes[table, ++shapeCount[table]] = name[2] }
		if (!((table, "rows", name[3]) in known)) { known[table, "rows", name[3]]; rows[table, ++rowCount[table]] = name[3] }
		cell = table SUBSEP name[2] SUBSEP name[3]
		shares[cell] = shares[cell] " " share
	}
	END {
		for (i = 1; i <= bursts; i++) {
			low = i == 1 || ceilings[i] < low ? ceilings[i] : low
			high = ceilings[i] > high ? ceilings[i] : high
		}
		printf "The ceiling: %.1f to %.1f GMAC/s.\n", low, high
		for (t = 1; t <= tableCount; t++) {
			table = tables[t]
			printf "\nPercent, %s:\n\n| |", table
			for (r = 1; r <= rowCount[table]; r++) printf rows[table, r] == 1 ? " 1 row, of reading |" : " %d |", rows[table, r]
			printf "\n|---|"
			for (r = 1; r <= rowCount[table]; r++) printf "---|"
			print ""
			for (s = 1; s <= shapeCount[table]; s++) {
				printf "| %s |", shapes[table, s]
				for (r = 1; r <= rowCount[table]; r++) printf " %s |", spread(table SUBSEP shapes[table, s] SUBSEP rows[table, r])
				print ""
			}
		}
	}
'
