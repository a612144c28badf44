# shellcheck shell=bash disable=SC2329
# needs: xz
xz -dc docs/examples/tatoeba.en-de.tsv.xz >pairs.tsv
head -n 200 pairs.tsv | cut -f 1 >news.en
