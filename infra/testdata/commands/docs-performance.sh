# shellcheck shell=bash
# needs: xz
xz -dc docs/examples/tatoeba.en-de.tsv.xz >pairs.tsv
head -n 100 pairs.tsv | cut -f 1 >TEXT
