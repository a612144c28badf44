#!/bin/sh
# Trains the models in this folder with the spm_train of SentencePiece 0.1.97.
set -e
cd "$(dirname "$0")"
train() {
	name=$1
	shift
	spm_train --input=text.txt --model_prefix="$name" --minloglevel=2 --bos_id=-1 --eos_id=0 --unk_id=1 \
		--normalization_rule_tsv=rules.tsv --num_threads=1 "$@"
	mv "$name.model" "$name.spm"
	rm "$name.vocab"
}
train unigram --vocab_size=460 --byte_fallback --split_digits --user_defined_symbols='__tag__,<br>' --control_symbols='<2de>'
train bpe --model_type=bpe --vocab_size=460 --byte_fallback --user_defined_symbols='__tag__,<br>'
train plain --vocab_size=160 --pad_id=2 --hard_vocab_limit=false
