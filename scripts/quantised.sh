#!/usr/bin/env bash
# What finetuning for few bits brings: the demo student is trained a little for 8 and for 4 bits, on its own translations, and
# evaluated in float32, in 8 and in 4 bits. Needs ../shared beside the checkout, python3 and about a quarter of an hour of one core.
# Models, evaluations and a page about them stay in the folder that is given.
set -euo pipefail
work=$(realpath -m "${1:?usage: scripts/quantised.sh FOLDER}")
cd "$(dirname "$0")/.."
mkdir -p "$work"
go build -o bin/sluice ./cmd/sluice
shared=$(realpath ../shared) sluice=$PWD/bin/sluice
student=$shared/models/ende-tiny
cd "$work"

# 60,000 sentences of the training set, and what the student itself says to them: there is little new to learn from that, so
# that a difference is mostly one of the bits.
tar -xOf "$shared/data/train.tar.xz" train.en | python3 -c '
import random, sys
random.seed(6)
seen, lines = set(), []
for line in sys.stdin.buffer:
    line = line.decode("utf8").rstrip("\n")
    if 2 <= len(line.split()) <= 40 and "\t" not in line and line not in seen:
        seen.add(line)
        lines.append(line)
random.shuffle(lines)
sys.stdout.buffer.write(("\n".join(lines[:60000]) + "\n").encode("utf8"))' >ft.en
"$sluice" translate -m "$student/model.npz" --precision int8 -v "$student/vocab.spm" "$student/vocab.spm" \
	--shortlist "$student/lex.s2t.gz" 100 100 -i ft.en -o ft.de --quiet --tolerate all --overwrite

finetune() { # NAME UPDATES RATE [SETTINGS]: trains NAME.npz from the student
	cat >"$1.yml" <<-END
		model: $1.npz
		pretrained-model: $student/model.npz
		vocabs: [$student/vocab.spm]
		train-sets: [ft.en, ft.de]
		dim-emb: 256
		enc-depth: 6
		dec-depth: 2
		transformer-dim-ffn: 1536
		transformer-ffn-activation: relu
		transformer-decoder-autoreg: rnn
		dec-cell: ssru
		tied-embeddings-all: true
		mini-batch-words: 1000
		maxi-batch: 50
		cpu-threads: 1
		disp-freq: 10
		save-freq: 50
		after-batches: $2
		learn-rate: $3
		lr-decay-inv-sqrt: 100
	END
	printf '%s\n' "${@:4}" >>"$1.yml"
	"$sluice" train -c "$1.yml"
}
finetune q8 40 0.00003 'quantize-bits: 8' 'lr-warmup: 5' 'exponential-smoothing: 0.05'
finetune q4 225 0.0001 'quantize-bits: 4' 'quantize-log-based: true' 'quantize-optimization-steps: 3' 'lr-warmup: 10' 'exponential-smoothing: 0.02'
# One update with next to no learning rate: what is left is the rounding that calibration gives.
finetune c4 1 1e-12 'quantize-bits: 4' 'quantize-log-based: true' 'quantize-scales: blocks' 'quantize-optimization-steps: 3' 'quantize-calibrate: 80'
"$sluice" model convert c4.npz c4.bin --type 4bit --overwrite
"$sluice" model convert q4.npz q4.bin --type 4bit --overwrite
"$sluice" model convert "$student/model.npz" rounded4.bin --type 4bit --overwrite
"$sluice" model convert "$student/model.npz" float32.npz --type float32 --overwrite

evaluate() { # NAME MODEL OPTIONS…: adds to evaluations.json
	local sets=() set
	for set in multi30k-2016 mix tatoeba wmt14-en-de wmt15-en-de wmt19-en-de; do
		sets+=(--source "$shared/data/test-$set.en" --reference "$shared/data/test-$set.de")
	done
	"$sluice" eval --name "$1" -m "$2" "${@:3}" -v "$student/vocab.spm" "$student/vocab.spm" --keep translations "${sets[@]}" --json >>evaluations.json
}
rm -f evaluations.json
evaluate 'float32' float32.npz
evaluate 'int8, rounded' float32.npz --precision int8
evaluate 'int8, finetuned' q8.npz --precision int8
evaluate '4 bits, rounded' rounded4.bin
evaluate '4 bits, whole powers, finetuned' q4.bin
evaluate '4 bits, calibrated' c4.bin
# The table of docs/quality.md: what is lost against float32, which is the first.
python3 -c '
import json, sys
decoder, text, rows = json.JSONDecoder(), sys.stdin.read().strip(), []
while text:
    row, end = decoder.raw_decode(text)
    rows.append(row)
    text = text[end:].strip()
names = [s["name"].removeprefix("test-").removesuffix("-en-de") for s in rows[0]["sets"]]
print("| model | bytes |", " | ".join(names), "| mean |")
print("|---|---|" + "---|" * (len(names) + 1))
for row in rows:
    lost = [base["bleu"] - s["bleu"] for base, s in zip(rows[0]["sets"], row["sets"])]
    print("|", row["name"], "|", row["bytes"], "|", " | ".join("%.2f" % v for v in lost + [sum(lost) / len(lost)]), "|")
' <evaluations.json
"$sluice" report q8.npz q4.npz --evaluation evaluations.json --title 'Few bits' -o report.html --overwrite
