#!/usr/bin/env bash
# Sends sentences to the topic of compose.yml, and shows the translations as they come.
#
#   infra/compose/send.sh SENTENCE...     each argument is one message
#   infra/compose/send.sh < FILE          each line is one
set -euo pipefail
cd "$(dirname "$0")"
kafka() { docker compose exec -T kafka "/opt/kafka/bin/$1" --bootstrap-server localhost:9092 "${@:2}"; }

# message KEY TEXT: with what JSON does not take as it is.
message() {
	local text=${2//\\/\\\\}
	text=${text//\"/\\\"}
	printf '%s\t{"text":"%s"}\n' "$1" "${text//$'\t'/ }"
}

sentences=("$@")
[ $# -gt 0 ] || mapfile -t sentences
for i in "${!sentences[@]}"; do message "$(date +%s)-$i" "${sentences[i]}"; done |
	kafka kafka-console-producer.sh --topic reviews --property parse.key=true
# Those that were sent before are shown, too.
kafka kafka-console-consumer.sh --topic reviews.de --from-beginning --isolation-level read_committed --timeout-ms 10000 2>/dev/null || true
