"""Scores what standard input asks for, one JSON object a line, with sacreBLEU; answers one JSON object a line."""

import json
import sys

import numpy
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.bleu import _get_tokenizer
from sacrebleu.significance import PairedTest


def tokenize(job):
    tokenizer = _get_tokenizer(job["tokenizer"])()
    return [tokenizer(line).split() for line in job["lines"]]


def lower(job):
    return [line.lower() for line in job["lines"]]


def draw(job):
    return numpy.random.default_rng(job["seed"]).choice(job["below"], size=job["count"]).tolist()


def corpus(job):
    metric = {"BLEU": BLEU, "CHRF": CHRF}[job["metric"]](**job.get("args", {}))
    if job.get("sentences"):
        return [str(metric.sentence_score(h, list(r))) for h, r in zip(job["hyps"], zip(*job["refs"]))]
    score = metric.corpus_score(job["hyps"], job["refs"], n_bootstrap=job.get("bootstrap", 1))
    signature = metric.get_signature().format()
    return {
        "short": str(score),
        "text": score.format(4, False, signature, False),
        "json": score.format(1, False, signature, True),
        "signature": signature,
    }


def paired(job):
    metric = {"BLEU": BLEU, "CHRF": CHRF}[job["metric"]](**job.get("args", {}))
    systems = [("baseline", job["baseline"]), ("system", job["hyps"])]
    _, scores = PairedTest(systems, {job["metric"]: metric}, job["refs"], test_type="bs", n_samples=job["bootstrap"])()
    (name,) = [key for key in scores if key != "System"]
    return [vars(result) for result in scores[name]]


for line in sys.stdin:
    job = json.loads(line)
    print(json.dumps(globals()[job["do"]](job), default=float), flush=True)
