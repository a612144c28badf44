#!/usr/bin/env bash
# Prints the commands that let a user run a job from topic to topic, and nothing else. acls.csv is the list.
#
#   acls.sh USER JOB INPUT OUTPUT DEAD_LETTERS [OPTION...]
#   acls.sh sluice reviews-en-de reviews reviews.de reviews.failed --bootstrap-server kafka:9092 --command-config admin.properties | sh
#
# For an input of files or objects there is neither a group nor an input topic: leave out INPUT (""), and where the position is kept is
# a group JOB/…, for which JOB is allowed as a prefix.
set -euo pipefail
[ $# -ge 5 ] || {
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
	exit 2
}
user=$1 job=$2 input=$3 output=$4 letters=$5
shift 5
tail -n +2 "$(dirname "$0")/acls.csv" | while IFS=, read -r resource pattern name operation _; do
	case $name in
		INPUT) name=$input ;;
		OUTPUT) name=$output ;;
		DEAD_LETTERS) name=$letters ;;
		JOB*) name=$job${name#JOB} ;;
	esac
	[ -n "$name" ] || continue
	if [ "$resource" = group ] && [ -z "$input" ]; then
		pattern=prefixed name=$job/
	fi
	printf 'kafka-acls.sh %s --add --allow-principal %q --operation %s --%s %q --resource-pattern-type %s\n' \
		"$*" "User:$user" "$operation" "${resource//_/-}" "$name" "$pattern"
done
