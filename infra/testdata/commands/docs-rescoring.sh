# shellcheck shell=bash disable=SC2329
# needs: xz
# Models under the names of the text, and a few sentences. The demo model stands for all translation models; the language model has
# learnt next to nothing.
xz -dc docs/examples/tatoeba.en-de.tsv.xz >pairs.tsv
head -n 200 pairs.tsv | cut -f 2 >train.de
for set in dev test; do
	head -n 4 pairs.tsv | cut -f 1 >$set.en
done
head -n 4 pairs.tsv | cut -f 2 >dev.de
cp models/ende-tiny/vocab.spm vocab.spm
ln -s vocab.spm lm.spm
for name in l2r1 l2r2 l2r3 l2r4 r2l1 r2l2 r2l3 r2l4; do ln -s models/ende-tiny/model.intgemm.alphas.bin $name.npz; done
cat >lm.yml <<'YML'
type: lm-transformer
model: lm.npz
train-sets: [train.de]
vocabs: [vocab.spm]
dim-emb: 16
transformer-heads: 2
transformer-dim-ffn: 16
dec-depth: 1
mini-batch: 16
after-batches: 2
YML
sluice train --config lm.yml --quiet
