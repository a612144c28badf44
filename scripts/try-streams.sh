#!/usr/bin/env bash
# Shows streaming jobs at work on this machine, without containers: real Kafka and a real S3 server as processes. Sentences
# go into a topic, two workers translate them, one of the two is killed, the page of the other shows what it has taken over, and every
# sentence comes out once. Then a corpus in S3 is translated by two workers. What should hold is checked; the script fails if it does not.
#
#   scripts/try-streams.sh [MESSAGES]    how many messages (400); the second half is written after the kill
#
# Needs Java 17, mvn, curl, and, the first time, the network. KAFKA_PORT (19092) and S3_PORT (19000) change the ports. SLUICE
# is the program to use, MODEL the model.
set -euo pipefail
cd "$(dirname "$0")/.."
messages=${1:-400}
kafka=127.0.0.1:${KAFKA_PORT:-19092}
store=http://127.0.0.1:${S3_PORT:-19000}
export MODEL=${MODEL:-models/ende-tiny} KAFKA_BOOTSTRAP=$kafka SESSION=6s
work=$(mktemp -d)
workers=()

say() { printf '\n== %s\n' "$*"; }
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	tail -n 20 "$work"/*.log >&2 || true
	exit 1
}

# shellcheck disable=SC2329
clean() {
	local pid
	for pid in "${workers[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
	scripts/kafka.sh stop "$work/kafka" || true
	scripts/s3.sh stop "$work/s3" || true
	rm -rf "$work"
}
trap clean EXIT

streams() { "$work/streams" "$@"; }

# sentences FIRST LAST: keyed messages, some with two sentences, one that is no JSON.
sentences() {
	local texts=(
		'A man in a red shirt is reading a newspaper.'
		'Two children are playing football on the beach.'
		'Do you want to save the changes? The file could not be opened.'
		'An old woman is sitting on a bench.'
		'A dog runs through the water.'
	)
	local i
	for i in $(seq "$1" "$2"); do
		if [ "$i" = 57 ]; then
			printf '%d\tthis is no JSON\n' "$i"
		else
			printf '%d\t{"id":%d,"text":"%s"}\n' "$i" "$i" "${texts[i % 5]}"
		fi
	done
}

# worker NUMBER JOB: starts one in the background.
worker() {
	LISTEN=127.0.0.1:$((${KAFKA_PORT:-19092} + 100 + $1)) "$sluice" run "$2" >"$work/worker$1.log" 2>&1 &
	workers+=($!)
}

# eventually SECONDS COMMAND...: until it holds.
eventually() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.3
	done
}

is_ready() { curl -fsS "http://127.0.0.1:$((${KAFKA_PORT:-19092} + 100 + $1))/readyz" >/dev/null 2>&1; }

# page NUMBER PATH: what the status page of a worker answers.
page() { curl -fsS "http://127.0.0.1:$((${KAFKA_PORT:-19092} + 100 + $1))$2"; }
# carries NUMBER LANES: whether the page of a worker shows so many open lanes.
carries() { page "$1" /api/state | grep -q "\"open\":$2[,}]"; }
written() { streams read "$kafka" reviews.de 0 | wc -l; }
has_written() { [ "$(written)" -ge "$1" ]; }

# s3 METHOD PATH [FILE]: a request that is signed.
s3() {
	local options=()
	[ -z "${3:-}" ] || options=(--upload-file "$3")
	curl -fsS --aws-sigv4 aws:amz:us-east-1:s3 --user testuser:secretsecret \
		-H "x-amz-content-sha256: $(sha256sum <"${3:-/dev/null}" | cut -d ' ' -f 1)" -X "$1" "${options[@]}" "$store/$2"
}

say "building"
sluice=${SLUICE:-$work/sluice}
[ -n "${SLUICE:-}" ] || go build -trimpath -o "$work/sluice" ./cmd/sluice
go build -trimpath -o "$work/streams" ./scripts/streams

say "starting Kafka and an S3 server"
scripts/kafka.sh start "$work/kafka" "${KAFKA_PORT:-19092}"
scripts/s3.sh start "$work/s3" "${S3_PORT:-19000}" >/dev/null
streams topics "$kafka" reviews:4 reviews.de:4 reviews.failed:4

say "two workers of docs/examples/kafka.yml; $((messages / 2)) messages"
worker 1 docs/examples/kafka.yml
worker 2 docs/examples/kafka.yml
eventually 60 is_ready 1 || fail "worker 1 is not ready"
eventually 60 is_ready 2 || fail "worker 2 is not ready"
sentences 1 $((messages / 2)) | streams write "$kafka" reviews
eventually 120 has_written $((messages * 3 / 8)) || fail "nothing is translated"

say "killing worker 1 by force; $((messages - messages / 2)) more messages"
kill -KILL "${workers[0]}"
wait "${workers[0]}" 2>/dev/null || true
sentences $((messages / 2 + 1)) "$messages" | streams write "$kafka" reviews
say "the page of worker 2, which has the partitions of worker 1 now"
eventually 60 carries 2 4 || fail "worker 2 does not take the partitions of worker 1: $(page 2 /api/state)"
page 2 / | grep -o '<title>[^<]*</title>'
"$sluice" top --once "127.0.0.1:$((${KAFKA_PORT:-19092} + 102))"
eventually 180 has_written $((messages - 1)) || fail "only $(written) of $((messages - 1)) messages came out"

say "what came out"
streams read "$kafka" reviews.de 0 >"$work/out"
sort -n -k3,3 "$work/out" | cut -f 4 | sed -n 1,5p
printf '...\n'
streams read "$kafka" reviews.failed 1 | cut -f 4
# Each id once, and in the order of its partition.
[ "$(cut -f 3 "$work/out" | sort -u | wc -l)" = $((messages - 1)) ] || fail "ids are missing"
[ "$(wc -l <"$work/out")" = $((messages - 1)) ] || fail "$(wc -l <"$work/out") messages came out of $((messages - 1))"
streams read "$kafka" reviews 0 | sort -n -k1,1 -k2,2 | cut -f 1,3 | grep -v "$(printf '\t57$')" >"$work/order.in"
sort -n -k1,1 -k2,2 "$work/out" | cut -f 1,3 >"$work/order.out"
cmp "$work/order.in" "$work/order.out" || fail "the order has changed"
echo "$((messages - 1)) messages came out, each once and in order; 1 dead letter"

say "worker 2, before it is told to stop"
curl -fsS "http://127.0.0.1:$((${KAFKA_PORT:-19092} + 102))/metrics" | grep -E '^sluice_(records_total|source_words_total|lanes_open)'
kill -TERM "${workers[1]}"
status=0
wait "${workers[1]}" || status=$?
[ "$status" = 0 ] || fail "worker 2 ended with $status"
workers=()
echo "it ended with 0"

say "a corpus in S3, two workers of docs/examples/corpus-s3.yml"
export AWS_ACCESS_KEY_ID=testuser AWS_SECRET_ACCESS_KEY=secretsecret AWS_REGION=us-east-1
export BUCKET=corpora S3_ENDPOINT=$store S3_PATH_STYLE=true
s3 PUT corpora
for part in 1 2 3 4; do
	sentences 1 50 | grep -v 'no JSON' | sed 's/.*"text":"\(.*\)"}/\1/' >"$work/part"
	s3 PUT "corpora/corpus/en/part-$part" "$work/part"
done
for shard in 0 1; do
	SHARD=$shard/2 LISTEN=127.0.0.1:0 "$sluice" run docs/examples/corpus-s3.yml >"$work/shard$shard.log" 2>&1 &
	workers+=($!)
done
for pid in "${workers[@]}"; do wait "$pid" || fail "a worker ended with $?"; done
workers=()
for part in 1 2 3 4; do
	[ "$(s3 GET "corpora/corpus/de/part-$part" | wc -l)" = 50 ] || fail "part $part has not as many lines as its input"
done
s3 GET corpora/corpus/de/part-1 | sed -n 1,3p
echo "4 objects, line for line"

say "everything held"
