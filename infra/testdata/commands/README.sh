# shellcheck shell=bash disable=SC2329
# needs: java mvn zstd xz
# What a reader has: texts, models under the names of the text, programs at both ends of a pipe, Kafka with topics.
xz -dc docs/examples/tatoeba.en-de.tsv.xz >pairs.tsv
head -n 400 pairs.tsv | cut -f 1 | tee dev.en >train.en
head -n 400 pairs.tsv | cut -f 2 >train.de
head -n 20 train.en | tee corpus.en >test.en
zstd -q corpus.en
head -n 20 train.de | gzip >mono.de.gz
sluice model convert models/ende-tiny model.npz
for name in deen a b r2l; do ln -s model.npz $name.npz; done
cp models/ende-tiny/vocab.spm vocab.spm
mkdir news
cp corpus.en news/monday.en
printf '{"id":1,"title":"A red shirt."}\n{"id":2,"title":"Two children."}\n' >items.jsonl
producer() { head -n 3 corpus.en; }
consumer() { cat; }
sluice translate -m models/ende-tiny -i test.en -o output.de --quiet
head -n 20 train.de >reference.de
sluice translate -m models/ende-tiny -b 4 --n-best -i test.en -o test.nbest --quiet
cat >train.yml <<'YML'
model: trained/model.npz
train-sets: [train.en, train.de]
vocabs: [vocab.spm, vocab.spm]
dim-emb: 16
transformer-heads: 2
transformer-dim-ffn: 16
enc-depth: 1
dec-depth: 1
mini-batch: 16
after-batches: 2
YML
mkdir trained
scripts/kafka.sh start kafka 9092
cleanup() { scripts/kafka.sh stop kafka; }
go run ./scripts/streams topics kafka:9092 reviews.en:2 reviews.de:2 reviews.failed:1
