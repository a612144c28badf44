#!/usr/bin/env bash
# What 8-bit arithmetic costs: BLEU of the demo student on four test sets, in float32 and quantised in several ways, as a Markdown
# table. Rows with the same last column gave the same bytes. Needs ../shared beside the checkout and a few minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
go build -o bin/sluice ./cmd/sluice
shared=../shared
student=$shared/models/ende-tiny
float=$student/model.npz
stored=$student/model.intgemm.alphas.bin
shortlist=models/ende-tiny/lex.s2t.bin
sets=(multi30k-2016 mix tatoeba wmt14-en-de)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

row() { # NAME TITLE MODEL [OPTIONS…]: a row of the table; losses are against the first row
	local name=$1 title=$2 model=$3 set
	shift 3
	local scores=()
	for set in "${sets[@]}"; do
		bin/sluice translate -m "$model" -v "$student/vocab.spm" "$student/vocab.spm" -i "$shared/data/test-$set.en" \
			-o "$work/$name.$set.de" --quiet --tolerate all "$@"
		scores+=("$(bin/sluice score bleu -i "$work/$name.$set.de" --score-only --width 2 "$shared/data/test-$set.de")")
		cat "$work/$name.$set.de" >>"$work/$name.de"
	done
	[[ -v float32 ]] || float32=("${scores[@]}")
	paste <(printf '%s\n' "${scores[@]}") <(printf '%s\n' "${float32[@]}") |
		awk -v title="$title" -v digest="$(sha256sum <"$work/$name.de" | cut -c1-6)" '
			{ line = line " | " $1; sum += $1; lost = $2 - $1; if (NR == 1 || lost > most) most = lost }
			END { printf "| %s%s | %.2f | %.2f | %s |\n", title, line, sum / NR, most, digest }'
}

echo '| arithmetic | multi30k-2016 | mix | tatoeba | wmt14-en-de | mean | largest loss | output |'
echo '|---|---|---|---|---|---|---|---|'
row float32 'float32' "$float" --precision float32
row bfloat16 'bfloat16' "$float" --precision bfloat16
row sigma7 'int8 from float32, weights cut off at mean ± 7σ (default)' "$float" --precision int8
row sigma8 'int8 from float32, at 8σ' "$float" --precision int8 --int8-saturation 8
row sigma6 'int8 from float32, at 6σ' "$float" --precision int8 --int8-saturation 6
row sigma4 'int8 from float32, at 4σ' "$float" --precision int8 --int8-saturation 4
row max 'int8 from float32, nowhere (plain max)' "$float" --precision int8 --int8-saturation -1
row rows 'int8 as stored, a multiplier for each row (default)' "$stored"
row alphas 'int8 as stored, with its alphas' "$stored" --gemm-precision int8shiftAlphaAll
row rows-list 'int8 as stored, a multiplier for each row, shortlist (default of the demo model)' "$stored" --shortlist "$shortlist"
row alphas-list 'int8 as stored, with its alphas, shortlist' "$stored" --gemm-precision int8shiftAlphaAll --shortlist "$shortlist"

echo
echo 'Alphas against a multiplier for each row, all sets together, with the shortlist, by paired bootstrap:'
echo
for set in "${sets[@]}"; do cat "$shared/data/test-$set.de"; done >"$work/reference"
sluice=$PWD/bin/sluice
cd "$work"
"$sluice" score bleu -i alphas-list.de --paired rows-list.de --width 2 reference | sed 's/^/    /'
