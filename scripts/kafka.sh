#!/usr/bin/env bash
# Real Apache Kafka on loopback, for tests: one to three nodes, each broker and controller, from the artifacts that
# Maven fetches. Needs Java 17 and mvn.
#
#   kafka.sh fetch                     fetch the artifacts (once; 45 MB)
#   kafka.sh start DIR PORT [NODES]    start 1 (default) to 3 nodes with their data in DIR. Brokers listen on PORT and
#                                      the ports behind it, with TLS and SASL on PORT+10 and those behind it, and as
#                                      controllers on PORT+20 and those behind it
#   kafka.sh stop DIR                  stop all nodes; the data stay
#   kafka.sh kill DIR NODE [SIGNAL]    send a signal, KILL by default, to one node, 1 to 3
#   kafka.sh up DIR NODE               start one node again and wait until it is ready
#
# DIR/ca.pem is what clients of the ports with TLS have to trust. Their users are "sluice" and "nobody", with the
# password "secret", for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; what they may do is up to ACLs. Whoever connects
# without TLS may do anything.
#
# KAFKA_VERSION, KAFKA_LIBS (where the artifacts lie) and KAFKA_HEAP (options of the JVM) change the defaults. With
# KAFKA_OWNER the nodes are stopped when the process of that number has ended.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=${KAFKA_VERSION:-4.4.0}
libs=${KAFKA_LIBS:-$here/../.cache/kafka-$version}
heap=${KAFKA_HEAP:--Xms128m -Xmx512m}
jvm="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true"
password=secret

# alive PID: a process that has ended but was not waited for does not count.
alive() {
	case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null || ps -o stat= -p "$1" 2>/dev/null) in
		'' | Z* | X*) return 1 ;;
	esac
}

# gone PID TENTHS: wait until it has ended.
gone() {
	for _ in $(seq "$2"); do
		alive "$1" || return 0
		sleep 0.1
	done
	return 1
}

fetch() {
	mkdir -p "$libs"
	mvn -q -B -f "$here/kafka/pom.xml" dependency:copy-dependencies -Dkafka.version="$version" -DoutputDirectory="$libs"
}

# certificate DIR: one key pair for all nodes, and what clients have to trust.
certificate() {
	[ ! -e "$1/ca.pem" ] || return 0
	keytool -genkeypair -keystore "$1/keys.p12" -storetype PKCS12 -storepass "$password" -alias broker \
		-keyalg EC -groupname secp256r1 -validity 365 -dname CN=localhost -ext san=dns:localhost,ip:127.0.0.1 2>/dev/null
	keytool -exportcert -rfc -keystore "$1/keys.p12" -storepass "$password" -alias broker >"$1/ca.pem" 2>/dev/null
}

# properties DIR NODE PORT NODES: the configuration of one node.
properties() {
	local replicas=$(($4 < 3 ? $4 : 3)) insync=$(($4 < 2 ? 1 : $4 - 1)) voters="" i
	for i in $(seq "$4"); do voters+="${voters:+,}$i@127.0.0.1:$(($3 + 19 + i))"; done
	local plain=$(($3 - 1 + $2)) secure=$(($3 + 9 + $2))
	local login=org.apache.kafka.common.security
	cat <<PROPERTIES
process.roles=broker,controller
node.id=$2
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:$plain,SECURE://127.0.0.1:$secure,CONTROLLER://127.0.0.1:$(($3 + 19 + $2))
advertised.listeners=PLAINTEXT://127.0.0.1:$plain,SECURE://127.0.0.1:$secure
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
ssl.keystore.location=$1/keys.p12
ssl.keystore.password=$password
ssl.keystore.type=PKCS12
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.secure.plain.sasl.jaas.config=$login.plain.PlainLoginModule required user_sluice="$password" user_nobody="$password";
listener.name.secure.scram-sha-256.sasl.jaas.config=$login.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config=$login.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs=$1/node$2/data
num.network.threads=2
num.io.threads=4
auto.create.topics.enable=false
default.replication.factor=$replicas
min.insync.replicas=$insync
offsets.topic.replication.factor=$replicas
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=$insync
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$replicas
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.backoff.ms=200
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
controlled.shutdown.max.retries=1
PROPERTIES
}

# format DIR NODE: prepare the data of a node; those of a former run are kept.
format() {
	local users=()
	for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do
		for user in sluice nobody; do
			users+=(--add-scram "$mechanism=[name=$user,password=$password]")
		done
	done
	# shellcheck disable=SC2086
	java -Xmx128m $jvm -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$libs/*" kafka.tools.StorageTool format \
		--ignore-formatted -t c2x1aWNlLWZvci10ZXN0cw -c "$1/node$2/server.properties" "${users[@]}" >"$1/node$2/format.log" 2>&1 ||
		{ cat "$1/node$2/format.log" >&2 && return 1; }
}

# launch DIR NODE: start a node.
launch() {
	local node=$1/node$2
	if [ -e "$node/pid" ] && alive "$(cat "$node/pid")"; then
		echo "node $2 runs already" >&2
		return 1
	fi
	: >"$node/log"
	# shellcheck disable=SC2086
	setsid java $heap $jvm -Dorg.slf4j.simpleLogger.showDateTime=true -cp "$libs/*" kafka.Kafka "$node/server.properties" \
		>>"$node/log" 2>&1 </dev/null &
	echo $! >"$node/pid"
}

# ready DIR NODE: wait until a node serves.
ready() {
	local node=$1/node$2 pid port
	pid=$(cat "$node/pid") port=$(cat "$node/port")
	for _ in $(seq 1200); do
		if ! alive "$pid"; then
			echo "node $2 has ended:" >&2
			tail -20 "$node/log" >&2
			return 1
		fi
		if grep -q 'Kafka Server started' "$node/log" && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			return 0
		fi
		sleep 0.05
	done
	echo "node $2 is not ready after 60 s" >&2
	return 1
}

start() {
	local dir port=$2 nodes=${3:-1} node
	dir=$(mkdir -p "$1" && cd "$1" && pwd)
	[ -e "$libs/kafka_2.13-$version.jar" ] || fetch
	certificate "$dir"
	for node in $(seq "$nodes"); do
		mkdir -p "$dir/node$node"
		echo $((port - 1 + node)) >"$dir/node$node/port"
		properties "$dir" "$node" "$port" "$nodes" >"$dir/node$node/server.properties"
		format "$dir" "$node"
	done
	for node in $(seq "$nodes"); do launch "$dir" "$node"; done
	if [ -n "${KAFKA_OWNER:-}" ]; then
		setsid "$0" guard "$dir" "$KAFKA_OWNER" >/dev/null 2>&1 </dev/null &
	fi
	for node in $(seq "$nodes"); do
		ready "$dir" "$node" || { stop "$dir" && return 1; }
	done
}

# guard DIR PID: stop all nodes when the process has ended, unless they are stopped before.
guard() {
	while [ -d "$1" ] && compgen -G "$1/node*/pid" >/dev/null; do
		alive "$2" || { stop "$1" && return; }
		sleep 0.5
	done
}

stop() {
	local file pid pids=()
	for file in "$1"/node*/pid; do
		[ -e "$file" ] || continue
		pid=$(cat "$file")
		kill -CONT "$pid" 2>/dev/null || true
		kill -TERM "$pid" 2>/dev/null && pids+=("$pid")
		rm -f "$file"
	done
	for pid in ${pids[@]+"${pids[@]}"}; do
		gone "$pid" 100 || { kill -KILL "$pid" && gone "$pid" 50; }
	done
}

signal() {
	local pid
	pid=$(cat "$1/node$2/pid")
	kill -"${3:-KILL}" "$pid"
	[ "${3:-KILL}" != KILL ] || gone "$pid" 100
}

case ${1:-} in
	fetch) fetch ;;
	start) start "$2" "$3" "${4:-1}" ;;
	stop) stop "$2" ;;
	kill) signal "$2" "$3" "${4:-KILL}" ;;
	guard) guard "$2" "$3" ;;
	up) launch "$(cd "$2" && pwd)" "$3" && ready "$2" "$3" ;;
	*)
		sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
		exit 2
		;;
esac
