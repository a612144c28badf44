#!/usr/bin/env bash
# A student that goes on from another: the demo student learns from those of its own translations that are better than what it says
# greedily, and is stored in 8 and in 4 bits. Everything is evaluated on six test sets beside the demo student. Needs ../shared beside
# the checkout, python3 with numpy, 8 GB of memory and about an hour of two cores. A training or translation that was stopped goes on where it was.
# Models, translations, evaluations and a page stay in the folder that is given.
set -euo pipefail
work=$(realpath -m "${1:?usage: scripts/student.sh FOLDER [PARTS [UPDATES [UPDATES-IN-8-BITS]]]}")
parts=${2:-8} updates=${3:-200} in8=${4:-20}
cd "$(dirname "$0")/.."
mkdir -p "$work"
go build -o bin/sluice ./cmd/sluice
data=$(realpath ../shared/data) demo=$(realpath ../shared/models/ende-tiny) sluice=$PWD/bin/sluice
vocabulary=(-v "$demo/vocab.spm" "$demo/vocab.spm")
cd "$work"

# Pairs of the training set: short talk, captions, sentences, and what programs say, mixed alike in every part.
[[ -f part9.tsv ]] || {
	tar -xf "$data/train.tar.xz" train.en train.de
	python3 - "$data/tatoeba.en-de.tsv.xz" <<-'END'
		import lzma, random, re, sys
		talk = {line.split("\t")[0] for line in lzma.open(sys.argv[1], "rt", encoding="utf8")}
		caption = re.compile(r"(A|An|Two|Three|The|Several|People|Some|Four|Many|Group|Young|Man|Woman|Children|Men|Women)\b[^:;()\"/0-9_]*"
		                     r"(ing|man|woman|girl|boy|people|dog|men|child)\b[^:;()\"/0-9_]*\.?$")
		end, word = re.compile(r"[.!?][\"')\u201d\u00bb\u201c]*$"), re.compile(r"[A-Za-z]{2,}")
		def kind(s, t, words):
		    if s in talk: return "talk"
		    if end.search(s) and end.search(t) and words >= 5:
		        return "captions" if caption.match(s) and words >= 6 and len(s) < 140 else "sentences"
		    return "rest" if len(word.findall(s)) >= 2 else "none"
		kinds, seen = {k: [] for k in ("talk", "captions", "sentences", "rest", "none")}, set()
		with open("train.en", encoding="utf8", newline="\n") as a, open("train.de", encoding="utf8", newline="\n") as b:
		    for s, t in zip(a, b):
		        s, t = s.rstrip("\n"), t.rstrip("\n")
		        n, m = len(s.split()), len(t.split())
		        if not (2 <= n <= 30 and 2 <= m <= 32 and len(t) <= 2 * len(s) + 10 and len(s) <= 2 * len(t) + 10): continue
		        if "\t" in s + t or s == t or s.lower() in seen: continue
		        seen.add(s.lower())
		        kinds[kind(s, t, n)].append(s + "\t" + t + "\n")
		random.seed(8)
		for pairs in kinds.values(): random.shuffle(pairs)
		random.seed(8)
		for i in range(10):
		    part = [p for k, n in {"captions": 2200, "talk": 3700, "sentences": 6000, "rest": 2000}.items() for p in kinds[k][i * n:(i + 1) * n]]
		    random.shuffle(part)
		    with open(f"part{i}.tsv", "w", encoding="utf8") as out: out.writelines(part)
	END
}

# Of the best 8 translations of each source the one that is closest to the reference, if it is better than what the demo student says
# greedily by more than 3 points of sentence BLEU, and not shorter: chosen by BLEU alone, the student would learn to say less.
say() { # PART OUTPUT OPTIONS…
	[[ -f $2 ]] || cut -f1 "part$1.tsv" | "$sluice" translate -m "$demo/model.npz" --precision int8 "${vocabulary[@]}" --shortlist "$demo/lex.s2t.gz" 100 100 \
		-i - -o "$2" --quiet --tolerate all --overwrite "${@:3}"
}
for ((part = 0; part < parts; part++)); do
	say "$part" "$part.nbest" --beam-size 8 --n-best
	say "$part" "$part.greedy"
	cat >"best$part.yml" <<-END
		name: best$part
		vocabularies: $demo/vocab.spm
		steps: [{name: best, distil: {corpus: part$part.tsv, n-best: $part.nbest, to: best.tsv}}]
	END
	"$sluice" train recipe run "best$part.yml" --quiet
	cut -f2 "best$part/best.tsv" >"$part.best"
	cut -f2 "part$part.tsv" >"$part.reference"
	for which in best greedy; do
		"$sluice" score bleu "$part.reference" -i "$part.$which" --sentence-level --json >"$part.$which.scores"
	done
done
python3 - "$parts" >pairs.tsv <<-'END'
	import json, sys
	def lines(name): return open(name, encoding="utf8", newline="\n").read().rstrip("\n").split("\n")
	def scores(name): return [json.loads(line)["score"] for line in lines(name)]
	for i in range(int(sys.argv[1])):
	    rows = zip(lines(f"part{i}.tsv"), lines(f"{i}.best"), lines(f"{i}.greedy"), scores(f"{i}.best.scores"), scores(f"{i}.greedy.scores"), strict=True)
	    for pair, best, greedy, score, before in rows:
	        longer = len(best.split()) >= len(greedy.split()) and len(best) >= len(greedy) - 4
	        if best != greedy and score > before + 3 and score >= 10 and longer:
	            sys.stdout.buffer.write((pair.split("\t")[0] + "\t" + best + "\n").encode())
END

learn() { # NAME START SEED UPDATES SETTINGS…: trains NAME.npz from START, with one thread
	cat >"$1.yml" <<-END
		model: $1.npz
		pretrained-model: $2
		vocabs: [$demo/vocab.spm]
		train-sets: [pairs.tsv]
		tsv: true
		seed: $3
		after-batches: $4
		dim-emb: 256
		enc-depth: 6
		dec-depth: 2
		transformer-dim-ffn: 1536
		transformer-ffn-activation: relu
		transformer-decoder-autoreg: rnn
		dec-cell: ssru
		tied-embeddings-all: true
		mini-batch: 512
		maxi-batch: 8
		cpu-threads: 1
		disp-freq: 5
		save-freq: 20
	END
	printf '%s\n' "${@:5}" >>"$1.yml"
	"$sluice" train -c "$1.yml"
}
learn_twice() { # NAME START UPDATES SETTINGS…: the mean of two models that see the pairs in different order is NAME.npz
	local seed runs=()
	for seed in 1 2; do
		learn "$1.$seed" "$2" "$seed" "${@:3}" &
		runs+=($!)
	done
	for seed in "${runs[@]}"; do wait "$seed"; done
	python3 - "$1" <<-'END'
		import sys, numpy
		models = [numpy.load(f"{sys.argv[1]}.{seed}.npz") for seed in (1, 2)]
		mean = lambda name: sum(m[name].astype(numpy.float64) for m in models).astype(numpy.float32) / numpy.float32(2)
		numpy.savez(sys.argv[1] + ".npz", **{name: models[0][name] if name.startswith("special:") else mean(name) for name in models[0].files})
	END
}
# Embeddings stay as they are: those of words that do not occur in so few updates would only be pushed away.
settings=('embedding-fix-src: true' 'embedding-fix-trg: true' 'learn-rate: 5e-5' 'lr-warmup: 20' 'lr-decay-inv-sqrt: 60' 'mini-batch-words: 4000' 'exponential-smoothing: 0.02')
learn_twice student "$demo/model.npz" "$updates" "${settings[@]}"
# The same trainings go on with parameters and activations rounded as the engine rounds them in 8 bits.
for seed in 1 2; do
	[[ -d student8.$seed.npz.checkpoints ]] || cp -r "student.$seed.npz.checkpoints" "student8.$seed.npz.checkpoints"
done
learn_twice student8 "$demo/model.npz" $((updates + in8)) "${settings[@]}" 'quantize-bits: 8'
# One update with next to no learning rate: what is left is the rounding that calibration gives.
learn student4 student.npz 1 1 'learn-rate: 1e-12' 'mini-batch-words: 1000' 'quantize-bits: 4' 'quantize-log-based: true' 'quantize-scales: blocks' \
	'quantize-optimization-steps: 3' 'quantize-calibrate: 80'
"$sluice" model convert student4.npz student4.bin --type 4bit --overwrite

evaluate() { # NAME MODEL OPTIONS…
	local sets=() set
	for set in multi30k-2016 mix tatoeba wmt14-en-de wmt15-en-de wmt19-en-de; do
		sets+=(--source "$data/test-$set.en" --reference "$data/test-$set.de")
	done
	"$sluice" eval --name "$1" -m "$2" "${@:3}" "${vocabulary[@]}" --keep translations "${sets[@]}" --json >"$1.json"
}
evaluate demo "$demo/model.npz"
evaluate demo-int8 "$demo/model.npz" --precision int8
evaluate student student.npz
evaluate student-int8 student.npz --precision int8
evaluate student8 student8.npz
evaluate student8-int8 student8.npz --precision int8
evaluate student-4bit student4.bin
# The tables of docs/training.md and docs/quality.md: BLEU, chrF, significance, and what is lost against float32.
python3 - "$sluice" "$data" <<-'END' | tee table.md
	import json, subprocess, sys
	sluice, data = sys.argv[1:]
	names = "demo", "demo-int8", "student", "student-int8", "student8", "student8-int8", "student-4bit"
	systems = [json.load(open(name + ".json")) for name in names]
	sets = [s["name"] for s in systems[0]["sets"]]
	short = [s.removeprefix("test-").removesuffix("-en-de") for s in sets]
	def p(baseline, name, test):
	    texts = [f"translations/{system}.{test}.txt" for system in (baseline, name)]
	    command = [sluice, "score", "bleu", "-i", texts[0], "--paired", texts[1], "--json", f"{data}/{test}.de"]
	    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)[1]["p_value"]
	def table(head, rows):
	    print("|", " | ".join(head), "|\n|" + "---|" * len(head))
	    for row in rows: print("|", " | ".join(row), "|")
	    print()
	bleu = {r["name"]: [s["bleu"] for s in r["sets"]] for r in systems}
	mean = lambda values: values + [sum(values) / len(values)]
	table(["BLEU", "bytes"] + short + ["mean"], ([r["name"], str(r["bytes"])] + ["%.2f" % v for v in mean(bleu[r["name"]])] for r in systems))
	chrf = {r["name"]: [s["chrf"] for s in r["sets"]] for r in systems}
	table(["chrF"] + short + ["mean"], ([name] + ["%.2f" % v for v in mean(chrf[name])] for name in chrf))
	table(["p of the difference"] + short, ([f"{a}, {b}"] + ["%.3f" % p(a, b, s) for s in sets]
	    for a, b in (("demo", "student"), ("demo-int8", "student-int8"), ("demo", "student8"), ("demo-int8", "student8-int8"),
	                 ("student", "student-int8"), ("student8", "student8-int8"), ("student", "student-4bit"))))
	table(["lost against float32"] + short + ["mean"], ([b] + ["%.2f" % v for v in mean([x - y for x, y in zip(bleu[a], bleu[b])])]
	    for a, b in (("demo", "demo-int8"), ("student", "student-int8"), ("student8", "student8-int8"), ("student", "student-4bit"))))
END
cat demo.json demo-int8.json student.json student-int8.json student8.json student8-int8.json student-4bit.json >evaluations.json
"$sluice" report student.1.npz student.2.npz --evaluation evaluations.json --title 'A student that goes on' -o report.html --overwrite
