"""The students with self-attention of "sluice bench gpu", for the engines that are measured beside it.

The test TestPeersOfGPU compares them with those of the command.
"""

import math
from collections import namedtuple

Student = namedtuple("Student", "encoder decoder dim ffn heads vocabulary")

STUDENTS = {
    "tiny": Student(6, 2, 256, 1536, 8, 32000),
    "small": Student(6, 2, 384, 1536, 6, 32000),
    "base": Student(6, 2, 512, 2048, 8, 32000),
    "large": Student(12, 2, 1024, 4096, 16, 32000),
}

LENGTH = 25  # pieces of a sentence, the end included, on both sides
BATCH = 512  # sentences that are translated together


def matrices(s):
    """The shapes of the parameters by Marian's names, of which biases and norms have one row."""
    yield "Wemb", (s.vocabulary, s.dim)
    yield "decoder_ff_logit_out_b", (1, s.vocabulary)
    for side, depth, attentions in ("encoder", s.encoder, ["self"]), ("decoder", s.decoder, ["self", "context"]):
        for layer in range(1, depth + 1):
            scope = f"{side}_l{layer}"
            for attention in attentions:
                for part in "qkvo":
                    yield f"{scope}_{attention}_W{part}", (s.dim, s.dim)
                    yield f"{scope}_{attention}_b{part}", (1, s.dim)
                yield from norm(f"{scope}_{attention}_Wo", s.dim)
            yield f"{scope}_ffn_W1", (s.dim, s.ffn)
            yield f"{scope}_ffn_b1", (1, s.ffn)
            yield f"{scope}_ffn_W2", (s.ffn, s.dim)
            yield f"{scope}_ffn_b2", (1, s.dim)
            yield from norm(f"{scope}_ffn_ffn", s.dim)


def norm(scope, dim):
    yield f"{scope}_ln_scale", (1, dim)
    yield f"{scope}_ln_bias", (1, dim)


def parameters(s, uniform):
    """Random parameters; uniform(shape, limit) gives numbers between -limit and limit. Norms begin as they do in training."""
    for name, shape in matrices(s):
        if name.endswith("_ln_scale"):
            yield name, uniform(shape, 0) + 1
        elif shape[0] == 1:
            yield name, uniform(shape, 0)
        else:
            yield name, uniform(shape, math.sqrt(6 / sum(shape)))
