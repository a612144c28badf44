#!/usr/bin/env bash
# Translates a text with bergamot, the library of browsermt's Marian, and with sluice, in turns, on one core each, and prints how
# many source words each does in a second of its processor time, which other processes disturb less than the clock; loading is left out.
# Needs ../shared beside the checkout for the 8-bit model in Marian's form, a Python up to 3.10 (PYTHON), and PyPI, where bergamot 0.4.5
# comes from. SLUICE_CPU=avx2 and INTGEMM_CPUID=AVX2 limit both to AVX2.
#
#   scripts/peer.sh TEXT [ROUNDS] [WORDS...]     5 rounds; bergamot with batches of 256, 384 and 512 WORDS unless others are said
set -euo pipefail
text=$(realpath "${1:?usage: scripts/peer.sh TEXT [ROUNDS] [WORDS...]}") rounds=${2:-5}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- 256 384 512
cd "$(dirname "$0")/.."
model=$(realpath ../shared/models/ende-tiny) work=$PWD/.cache/peer
mkdir -p "$work"
if ! [ -x "$work/python/bin/python" ]; then
	"${PYTHON:-python3.10}" -m venv "$work/python"
	"$work/python/bin/pip" install -q --disable-pip-version-check bergamot==0.4.5
fi
go build -o "$work/sluice" ./cmd/sluice
"$work/sluice" shortlist convert "$model/lex.s2t.gz" "$work/shortlist.bin" --vocabs "$model/vocab.spm" --overwrite
for words in "$@"; do
	cat >"$work/$words.yml" <<-YAML
		models: [$model/model.intgemm.alphas.bin]
		vocabs: [$model/vocab.spm, $model/vocab.spm]
		shortlist: [$work/shortlist.bin, false]
		beam-size: 1
		normalize: 1.0
		word-penalty: 0
		mini-batch-words: $words
		workspace: 128
		max-length-factor: 2.0
		max-length-break: 128
		ssplit-mode: paragraph
		skip-cost: true
		quiet: true
		quiet-translation: true
		gemm-precision: int8shiftAlphaAll
	YAML
done

# The module is opened without its package, which asks a server for a list of models.
cat >"$work/translate.py" <<'PYTHON'
import glob, importlib.util, os, sys, time

(found,) = glob.glob(os.path.join(sys.prefix, "lib", "*", "site-packages", "bergamot", "_bergamot*.so"))
spec = importlib.util.spec_from_file_location("_bergamot", found)
bergamot = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bergamot)
lines = open(sys.argv[2], encoding="utf8").read().splitlines()
service = bergamot.Service(bergamot.ServiceConfig(numWorkers=1, logLevel="off"))
model = service.modelFromConfigPath(sys.argv[1])
options = bergamot.ResponseOptions(alignment=False, qualityScores=False, HTML=False)
begin = time.process_time()
translated = service.translate(model, bergamot.VectorString(lines), options)
took = time.process_time() - begin
assert len(translated) == len(lines)
print(round(sum(len(line.split()) for line in lines) / took))
PYTHON

for ((round = 1; round <= rounds; round++)); do
	echo "sluice $("$work/sluice" bench -m models/ende-tiny -i "$text" --cpu-threads 1 --runs 1 --json |
		python3 -c 'import json, sys; print(round(json.load(sys.stdin)["median"]["source_words_per_cpu_second"]))')"
	for words in "$@"; do
		echo "bergamot, batches of $words words: $("$work/python/bin/python" "$work/translate.py" "$work/$words.yml" "$text")"
	done
done | tee >(cat >&2) | python3 -c '
import collections, statistics, sys
rates = collections.defaultdict(list)
for line in sys.stdin:
    name, rate = line.rsplit(maxsplit=1)
    rates[name].append(float(rate))
ours = rates["sluice"]
for name, theirs in rates.items():
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    print(f"{name} {statistics.median(theirs):.0f} words/s of processor time, median of {len(theirs)}; sluice does {ratio:.2f} times as many in the same round, in the median")
'
