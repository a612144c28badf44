#!/usr/bin/env bash
# Compares programs, or revisions of this repository, which it builds: "sluice bench" with each in turns, there and back again. Prints the words
# that each translates in a second of its processor time, which other processes disturb less than the clock, and how many times as many it
# does as the first in the same round: the median, and the least and the most. At real-time priority where that is allowed. Each program has a
# cache folder of its own: what two revisions have measured of products is seldom worth anything to the other, and they would measure at each start.
#
#   scripts/turns.sh ROUNDS PROGRAM|REVISION... -- FLAGS        FLAGS are those of sluice bench; a program or revision may have further ones
#   scripts/turns.sh 6 HEAD~10 HEAD -- -m models/ende-tiny -i news.en --cpu-threads 1 --runs 3
#   scripts/turns.sh 6 "HEAD --top-up 1" HEAD -- -m models/ende-tiny -i news.en --cpu-threads 1 --runs 3
set -euo pipefail
cd "$(dirname "$0")/.."
usage() {
	sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

rounds=${1:-}
[[ $rounds =~ ^[1-9][0-9]*$ ]] || usage
shift
names=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	names+=("$1")
	shift
done
if [ ${#names[@]} = 0 ] || [ $# -lt 2 ]; then usage; fi
shift
folder=$(mktemp -d)
trap 'git worktree prune; rm -rf "$folder"' EXIT

programs=()
further=()
declare -A built # by name
for named in "${names[@]}"; do
	name=${named%% *}
	further+=("${named#"$name"}")
	if [ "${built[$name]:-}" ]; then
		programs+=("${built[$name]}")
		continue
	fi
	program=$folder/program${#programs[@]}
	built[$name]=$program
	if [ -f "$name" ]; then
		cp "$name" "$program"
	elif git rev-parse --quiet --verify "$name^{commit}" >/dev/null; then
		git worktree add --quiet --detach "$folder/tree${#programs[@]}" "$name"
		go build -C "$folder/tree${#programs[@]}" -o "$program" ./cmd/sluice
		rm -rf "$folder/tree${#programs[@]}"
	else
		echo "scripts/turns.sh: $name is neither a program nor a revision" >&2
		exit 2
	fi
	programs+=("$program")
done

first=()
if command -v chrt >/dev/null && chrt -r 10 true 2>/dev/null; then
	first=(chrt -r 10)
fi
for ((round = 0; round < rounds; round++)); do
	for ((turn = 0; turn < ${#programs[@]}; turn++)); do
		i=$((round % 2 == 0 ? turn : ${#programs[@]} - 1 - turn))
		read -ra own <<<"${further[i]}"
		speed=$(XDG_CACHE_HOME=${programs[i]}.cache "${first[@]}" "${programs[i]}" bench --json "$@" "${own[@]}" | awk '/"median"/ { median = 1 } median && /"source_words_per_cpu_second"/ { gsub(/[^0-9.e+]/, "", $2); print $2; exit }')
		echo "$round $i ${speed:?no speed in what ${names[i]} printed}"
	done
done | awk -v names="$(printf '%s\n' "${names[@]}")" '
	# middle sorts the first n of a list and returns the one in the middle.
	function middle(list, n,    i, j, x) {
		for (i = 2; i <= n; i++) {
			x = list[i]
			for (j = i; j > 1 && list[j - 1] > x; j--) list[j] = list[j - 1]
			list[j] = x
		}
		return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2
	}
	{ speed[$1, $2] = $3; rounds = $1 + 1; programs = $2 + 1 > programs ? $2 + 1 : programs }
	END {
		split(names, name, "\n")
		for (i = 0; i < programs; i++) {
			for (r = 0; r < rounds; r++) {
				speeds[r + 1] = speed[r, i]
				times[r + 1] = speed[r, i] / speed[r, 0]
			}
			median = middle(times, rounds)
			printf "%8.0f words in a second of processor time, %.3f times the first (%.3f to %.3f): %s\n", middle(speeds, rounds), median, times[1], times[rounds], name[i + 1]
		}
	}
'
