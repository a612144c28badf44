"""Translates random sentences with CTranslate2 and a student of random weights, and prints how many source pieces a second it does.

    ctranslate2_student.py SIZE BEAM STREAMS SENTENCES [cuda or cpu]

The model is made by CTranslate2's own converter of Marian's models, from random parameters. Every translation has the length of its source.
"""

import sys
import tempfile
import time

from students import BATCH, LENGTH, STUDENTS, parameters

try:
    import ctranslate2
    import numpy as np
    from ctranslate2.converters import marian
    from ctranslate2.specs import common_spec, transformer_spec
except ImportError as e:
    sys.exit(f"{sys.argv[0]}: {e}: pip install ctranslate2, in the environment of {sys.executable}")


def spec_of(student):
    random = np.random.default_rng(2018)

    def uniform(shape, limit):
        return (limit * (2 * random.random(shape, dtype=np.float32) - 1)).astype(np.float32)

    spec = transformer_spec.TransformerSpec.from_config(
        (student.encoder, student.decoder), student.heads, pre_norm=False, activation=common_spec.Activation.RELU)
    marian.set_transformer_spec(spec, dict(parameters(student, uniform)))
    vocabulary = ["</s>", "<unk>"] + [f"piece{i}" for i in range(2, student.vocabulary)]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.add_source_eos = True
    return spec, vocabulary


def main(size, beam, streams, sentences, device="cuda"):
    beam, streams, sentences = int(beam), int(streams), int(sentences)
    spec, vocabulary = spec_of(STUDENTS[size])
    random = np.random.default_rng(1)
    sources = [[vocabulary[i] for i in random.integers(2, len(vocabulary), LENGTH - 1)] for _ in range(sentences)]
    with tempfile.TemporaryDirectory() as folder:
        spec.validate()
        spec.optimize(quantization="float16" if device == "cuda" else None)
        spec.save(folder)
        index = [0] * streams if device == "cuda" else 0
        translator = ctranslate2.Translator(folder, device=device, device_index=index, compute_type="float16" if device == "cuda" else "default")

    def translate(some):
        results = translator.translate_batch(some, beam_size=beam, max_batch_size=max(1, BATCH // beam), batch_type="examples",
                                             min_decoding_length=LENGTH, max_decoding_length=LENGTH)
        for result in results:
            assert len(result.hypotheses[0]) == LENGTH, f"a translation of {len(result.hypotheses[0])} pieces, not {LENGTH}"

    translate(sources[: streams * BATCH])  # a warm-up
    began = time.monotonic()
    translate(sources)
    print(round(sentences * LENGTH / (time.monotonic() - began)))


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6) or sys.argv[1] not in STUDENTS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(STUDENTS)} BEAM STREAMS SENTENCES [cuda|cpu]")
    main(*sys.argv[1:])
