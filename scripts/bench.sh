#!/usr/bin/env bash
# Measures the CPU engine: products, stages, whole texts, batching, latency. Prints Markdown for BENCHMARKS.md.
#
#   scripts/bench.sh [--quick] MODEL NEWS SHORT
#
# MODEL is a folder with an 8-bit model, NEWS and SHORT are texts, a sentence a line. --quick takes a tenth of the texts.
set -euo pipefail
cd "$(dirname "$0")/.."
every=1
if [ "${1:-}" = --quick ]; then
	every=10
	shift
fi
if [ $# != 3 ]; then
	sed -n '2,6s/^# \{0,1\}//p' "$0"
	exit 2
fi
model=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk "NR % $every == 0" "$2" >"$folder/news"
awk "NR % $every == 0" "$3" >"$folder/short"
awk "NR % (20 * $every) == 0" "$2" >"$folder/few"
go build -o "$folder/sluice" ./cmd/sluice

# row LABEL FLAGS...: a line of a table
row() {
	local label=$1
	shift
	"$folder/sluice" bench -m "$model" --json "$@" | awk -v label="$label" '
		{ gsub(/[",:]/, " "); value[$1] = $2 }
		END {
			printf "| %s | %.0f | %.0f | %.0f to %.0f | %.0f | %.0f %% | %.0f %% | %.0f |\n", label, value["source_words_per_second"],
				value["source_words_per_cpu_second"], value["slowest_words_per_second"], value["fastest_words_per_second"],
				value["gmacs_per_second_and_worker"], 100 * value["gmacs_per_second_and_worker"] / value["ceiling_gmacs_per_core"],
				100 * (1 - value["macs_left_out_share"]) * value["gmacs_per_second_and_worker"] / value["ceiling_gmacs_per_core"],
				value["resident_megabytes"]
		}'
}

head() {
	printf '\n## %s\n\n| | source words/s, median | in a second of processor time | slowest to fastest pass | GMAC/s, zeros included | of the ceiling | without zeros | MB |\n' "$1"
	echo '|---|---|---|---|---|---|---|---|'
}

printf 'Machine: %s, %s cores.\n' "$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)" "$(nproc)"

head 'Whole texts'
for text in news short; do
	for workers in 1 2; do
		row "$text, workers: $workers" -i "$folder/$text" --cpu-threads "$workers"
	done
	row "$text, beam 4" -i "$folder/$text" --cpu-threads 1 --beam-size 4 --runs 3
done

for precision in int16 bfloat16 float32; do
	row "few news, $precision" -i "$folder/few" --cpu-threads 1 --precision "$precision" --runs 3
done

printf '\n## From file to file\n\n| | source words/s, median of three | slowest to fastest |\n|---|---|---|\n'
for text in news short; do
	words=$(wc -w <"$folder/$text")
	for ((run = 1; run <= 3; run++)); do
		began=$EPOCHREALTIME
		"$folder/sluice" translate -m "$model" -i "$folder/$text" -o "$folder/translated" --overwrite --cpu-threads 1 --quiet
		echo "$began $EPOCHREALTIME"
	done | awk -v words="$words" '{ print words / ($2 - $1) }' | sort -g | awk -v text="$text" '
		{ speed[NR] = $1 }
		END { printf "| %s, the whole command with loading, one worker | %.0f | %.0f to %.0f |\n", text, speed[2], speed[1], speed[3] }'
done

head 'Implementations'
for level in avx512vnni avx512 avxvnni avx2; do
	if [ "$level" = avxvnni ] && ! grep -qw avx_vnni /proc/cpuinfo; then continue; fi # AVX2 would stand in for it
	SLUICE_CPU=$level row "news, $level" -i "$folder/news" --cpu-threads 1 --runs 3
done

head 'Topping up and sorting'
for text in news short; do
	for sort in src none; do
		row "$text, topped up, sorted: $sort" -i "$folder/$text" --cpu-threads 1 --maxi-batch-sort "$sort" --runs 3
		row "$text, mini-batches, sorted: $sort" -i "$folder/$text" --cpu-threads 1 --maxi-batch-sort "$sort" --top-up 1 --runs 3
	done
done

head 'One sentence at a time'
row 'news' -i "$folder/few" --cpu-threads 1 --one-by-one --runs 3
"$folder/sluice" bench -m "$model" -i "$folder/few" --cpu-threads 1 --one-by-one --runs 3 | tail -1

printf '\n## Stages\n\n```\n'
go test ./translator/cpumodel -run '^$' -bench 'Encode|Step' -benchtime 2s | grep -E '^(Benchmark|cpu)'
printf "%s\n" "\`\`\`" "" "## Architectures" ""
go test ./translator/cpumodel -run '^$' -bench Architectures -benchtime 1s -cpu 1 -timeout 60m | awk '
	/^BenchmarkArchitectures/ {
		split($1, name, "/"); sub(/-[0-9]+$/, "", name[5])
		if (name[4] == "int8" && name[5] == 1) order[++n] = name[2] " " name[3]
		row = name[2] " " name[3]
		for (i = 3; i < NF; i += 2) value[row, name[4], name[5], $(i + 1)] = $i
	}
	END {
		print "| student | MMAC a piece | MB in 8 bits | 8 bits: 1 | 32 | 48 together | of the ceiling | 16 bits: 1 | 32 | 48 | of the ceiling | bfloat16: 1 | 32 | 48 | of the ceiling | float32: 1 | 32 | 48 | of the ceiling |"
		print "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
		split("int8 int16 bfloat16 float32", precisions)
		for (i = 1; i <= n; i++) {
			r = order[i]
			printf "| %s | %.1f | %.0f |", r, value[r, "int8", 48, "MMAC/piece"], value[r, "int8", 48, "MB"]
			for (p = 1; p <= 4; p++) {
				for (together = 1; together <= 48; together += together == 1 ? 31 : 16) printf " %.0f |", value[r, precisions[p], together, "pieces/s"]
				printf " %.0f %% |", value[r, precisions[p], 48, "%peak"]
			}
			print ""
		}
	}
'
printf "%s\n" "" "## Kernels" "" "\`\`\`"
go test ./kernels -run '^$' -bench 'MulInt8|MulInt16|MulBFloat16|MulFloat32|Accumulate|DotRows|Attention|Rows' -benchtime 0.2s | grep -E '^(Benchmark|cpu)'
echo '```'
