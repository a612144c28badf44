#!/usr/bin/env bash
# BLEU of the demo student in float32 and in 8 bits on four test sets, as a Markdown table. Needs ../shared beside the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
go build -o bin/sluice ./cmd/sluice
shared=../shared
student=$shared/models/ende-tiny
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

score() { # MODEL SET [OPTIONS…]: the BLEU of a model on a test set
	local model=$1 set=$2
	shift 2
	bin/sluice translate -m "$model" -v "$student/vocab.spm" "$student/vocab.spm" -i "$shared/data/test-$set.en" -o "$work/out.de" \
		--overwrite --quiet --tolerate all "$@"
	bin/sluice score bleu -i "$work/out.de" --score-only --width 2 "$shared/data/test-$set.de"
}

echo '| test set | float32 | int8, from float32 | int8, stored with alphas | int8 with alphas and shortlist |'
echo '|---|---|---|---|---|'
for set in multi30k-2016 mix tatoeba wmt14-en-de; do
	printf '| %s | %s | %s | %s | %s |\n' "$set" \
		"$(score "$student/model.npz" "$set" --precision float32)" \
		"$(score "$student/model.npz" "$set" --precision int8)" \
		"$(score "$student/model.intgemm.alphas.bin" "$set")" \
		"$(score "$student/model.intgemm.alphas.bin" "$set" --shortlist models/ende-tiny/lex.s2t.bin)"
done
