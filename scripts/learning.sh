#!/usr/bin/env bash
# Trains a small student here and in JAX, from the same three seeds, on the same mini-batches, and compares losses and BLEU. Needs
# ../shared beside the checkout, and python3 with the module jax. The settings of model and training are in train/learning_test.go.
#
#   scripts/learning.sh FOLDER [UPDATES]     an epoch of 3,125 updates unless something else is said; the corpus stays in FOLDER
set -euo pipefail
folder=$(realpath -m "${1:?usage: scripts/learning.sh FOLDER [UPDATES]}") updates=${2:-3125}
cd "$(dirname "$0")/.."
mkdir -p "$folder"
train=../shared/data/train.tar.xz

# 200,500 pairs of the training set that look like captions, Tatoeba or dialogues: 3 to 14 words on both sides, of letters alone, an
# end of sentence behind them. 500 of them are held back.
if ! [ -e "$folder/pairs.tsv" ]; then
	paste <(tar -xOf "$train" train.en) <(tar -xOf "$train" train.de) | python3 -c '
import random, re, sys
sentence = re.compile(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß'"'"' ,-]*[.!?]")
random.seed(6)
pairs = set()
for line in sys.stdin.buffer:
    sides = line.decode("utf8").rstrip("\n").split("\t")
    if len(sides) == 2 and all(3 <= len(side.split()) <= 14 and sentence.fullmatch(side) for side in sides):
        pairs.add("\t".join(sides))
pairs = sorted(pairs)
random.shuffle(pairs)
sys.stdout.buffer.write("".join(pair + "\n" for pair in pairs[:200500]).encode("utf8"))' >"$folder/pairs.tmp"
	mv "$folder/pairs.tmp" "$folder/pairs.tsv"
fi
wc -l "$folder/pairs.tsv"
SLUICE_LEARNING="$folder/pairs.tsv" SLUICE_LEARNING_UPDATES=$updates go test ./train -run '^TestLearning$' -count=1 -v -timeout 10h
