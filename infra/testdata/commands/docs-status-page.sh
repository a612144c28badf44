# shellcheck shell=bash disable=SC2329
# needs: xz
# A job with a page, that has work for as long as the document takes.
xz -dc docs/examples/tatoeba.en-de.tsv.xz | cut -f 1 | sed 's/["\\]//g; s/.*/{"text":"&"}/' >all.jsonl
mkdir in
for i in $(seq -w 12); do cp all.jsonl "in/reviews-$i.jsonl"; done
head -n 200 all.jsonl | sed 's/{"text":"//; s/"}//' >news.en
cat >reviews.yml <<'YML'
name: reviews-en-de
source: {files: {paths: in}}
sink: {files: {folder: out}}
records: {format: jsonl, field: text, targets: text_de}
translate: {models: models/ende-tiny}
dead-letters: failed
memory: 8MiB
observe: {listen: "localhost:9090"}
YML
sluice run reviews.yml >run.log 2>&1 &
job=$!
cleanup() { kill -KILL $job; }
ready
