# shellcheck shell=bash disable=SC2329
# needs: java mvn
# Kafka, and a job that has run once: reviews.yml is the document's.
scripts/kafka.sh start kafka 9092
cleanup() { scripts/kafka.sh stop kafka; }
go run ./scripts/streams topics kafka:9092 reviews:2 reviews.de:2 reviews.failed:1
printf '1\t{"text":"A man is reading a newspaper."}\n2\tthis is no JSON\n' | go run ./scripts/streams write kafka:9092 reviews
sed 's/topics: reviews}/topics: reviews, stop-at-end: true}/' reviews.yml >once.yml
sluice run once.yml
