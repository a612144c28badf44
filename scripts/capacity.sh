#!/usr/bin/env bash
# From words a day to cores, memory and cost, by measuring this machine with your model and your text.
#
#   capacity.sh MODEL TEXT WORDS_PER_DAY [PRICE]    TEXT has a sentence a line and is typical of what will come: some thousand
#                                                   sentences. PRICE is what a core costs in an hour, in any currency
#
# Speed is counted in words for each second of processor time, so that other load on the machine matters little. THREADS="1 2"
# says for how many threads memory is measured (1, 2, 4 and so on up to the machine's cores if nothing is said). SLUICE is the
# program to use.
set -euo pipefail
[ $# -ge 3 ] || {
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
	exit 2
}
model=$1 text=$2 words=$3 price=${4:-}
sluice=${SLUICE:-$(dirname "$0")/../bin/sluice}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# number NAME: a field of what sluice bench prints.
number() { sed -n "s/^ *\"$1\": \([0-9.e+]*\),\{0,1\}\$/\1/p" "$work/bench" | head -n 1; }

# peak THREADS: most memory that a translation has resident, in MiB.
peak() {
	local pid most=0 now
	"$sluice" translate -m "$model" -i "$text" -o "$work/out" --overwrite --quiet --tolerate all --cpu-threads "$1" >"$work/log" 2>&1 &
	pid=$!
	# Between fork and exec, and once it has ended, there is nothing to see.
	while kill -0 "$pid" 2>/dev/null; do
		now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2>/dev/null) || true
		[ "${now:-0}" -le "$most" ] || most=$now
		sleep 0.05
	done
	wait "$pid" || {
		cat "$work/log" >&2
		return 1
	}
	echo $((most / 1024))
}

threads() {
	local n=1
	while [ "$n" -le "$(nproc)" ]; do
		echo "$n"
		n=$((n * 2))
	done
}

"$sluice" bench -m "$model" -i "$text" --cpu-threads 1 --runs "${RUNS:-3}" --json >"$work/bench"
speed=$(number source_words_per_cpu_second)
printf 'kernels           %s\n' "$(sed -n 's/^ *"int8: \(.*\)",\{0,1\}$/\1/p' "$work/bench")"
printf 'words a core      %.0f a second\n' "$speed"
# Three quarters: nothing is sent evenly over the day, and what was missed has to be caught up with.
awk -v words="$words" -v speed="$speed" 'BEGIN {
	cores = words / 86400 / speed
	printf "cores, all day    %.2f at the least, %.2f at three quarters of their time\n", cores, cores / 0.75
}'
[ -z "$price" ] || awk -v price="$price" -v speed="$speed" 'BEGIN { printf "a million words   %.4f, of cores that are never idle\n", price / 3600 / speed * 1e6 }'
for n in ${THREADS:-$(threads)}; do
	mib=$(peak "$n")
	printf 'memory            %d MiB with threads: %d\n' "$mib" "$n"
done
