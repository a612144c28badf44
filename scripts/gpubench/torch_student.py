"""Translates random sentences greedily with a student of random weights in PyTorch, and prints how many source pieces a second it does.

    torch_student.py SIZE SENTENCES [cuda or cpu]

The encoder's pass and a decoder's step are captured as CUDA graphs, float16, with keys and values in caches of fixed size, so that 25 steps run
without a word to the processor. Sentences are translated 512 at a time; every translation has the length of its source. On the processor,
which is for tests, there are no graphs, and it is float32; the steps are compared with a decoder that has no cache there.
"""

import math
import sys
import time

from students import BATCH, LENGTH, STUDENTS, parameters

try:
    import torch
    from torch.nn import functional
except ImportError as e:
    sys.exit(f"{sys.argv[0]}: {e}: pip install torch, in the environment of {sys.executable}")


class Translator:
    def __init__(self, student, batch, device):
        self.s, self.batch, self.graphs = student, batch, device == "cuda"
        kind = {"device": device, "dtype": torch.float16 if self.graphs else torch.float32}
        generator = torch.Generator(device).manual_seed(2018)

        def uniform(shape, limit):
            return (limit * (2 * torch.rand(shape, device=device, generator=generator) - 1)).to(kind["dtype"])

        self.p = dict(parameters(student, uniform))
        for scope in {name[: -len("_Wq")] for name in self.p if name.endswith("_Wq")}:  # what is multiplied with the same rows, at once
            for kind_of, parts in ("Wqkv", "qkv"), ("Wkv", "kv"):
                self.p[f"{scope}_{kind_of}"] = torch.cat([self.p[f"{scope}_W{part}"] for part in parts], 1)
                self.p[f"{scope}_{kind_of.replace('W', 'b')}"] = torch.cat([self.p[f"{scope}_b{part}"] for part in parts], 1)
        self.signal = self.positions(**kind)
        self.source = torch.zeros((batch, LENGTH), dtype=torch.long, device=device)
        self.tokens = torch.zeros(batch, dtype=torch.long, device=device)
        self.begins = torch.zeros((batch, 1), **kind)  # 0 where the decoder begins, with an embedding of zeros
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.places = torch.arange(LENGTH, device=device)
        head = student.dim // student.heads
        self.contexts = [torch.zeros((2, batch, student.heads, LENGTH, head), **kind) for _ in range(student.decoder)]
        self.words = [torch.zeros((2, batch, student.heads, LENGTH, head), **kind) for _ in range(student.decoder)]
        self.output = torch.zeros((LENGTH, batch), dtype=torch.long, device=device)
        self.run_encoder, self.run_step = self.captured(self.encode), self.captured(self.step)

    def positions(self, **kind):
        half = self.s.dim // 2
        angles = torch.arange(LENGTH)[:, None] * torch.exp(torch.arange(half) * (-math.log(10000) / (half - 1)))
        return torch.cat([angles.sin(), angles.cos()], 1).to(**kind)

    def captured(self, work):
        """The work as a CUDA graph, after a warm-up on a stream of its own, which capturing needs."""
        if not self.graphs:
            return work
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                work()
                self.position.zero_()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph.replay

    def linear(self, x, scope, part):
        return torch.addmm(self.p[f"{scope}_b{part}"][0], x.flatten(0, -2), self.p[f"{scope}_W{part}"]).view(*x.shape[:-1], -1)

    def norm(self, x, scope):
        return functional.layer_norm(x, x.shape[-1:], self.p[f"{scope}_ln_scale"][0], self.p[f"{scope}_ln_bias"][0], 1e-6)

    def heads(self, x, parts):
        """Rows of a batch, some vectors side by side in each, as a tensor for each of these: batch × heads × places × elements."""
        return x.view(self.batch, -1, parts, self.s.heads, self.s.dim // self.s.heads).permute(2, 0, 3, 1, 4)

    def attended(self, x, scope, queries, keys, values, mask=None):
        found = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return self.norm(x + self.linear(found.transpose(1, 2).reshape(x.shape), scope, "o"), f"{scope}_Wo")

    def feed_forward(self, x, scope):
        return self.norm(x + self.linear(torch.relu(self.linear(x, scope, "1")), scope, "2"), f"{scope}_ffn")

    def embedded(self, tokens, signal):
        return functional.embedding(tokens, self.p["Wemb"]) * math.sqrt(self.s.dim) + signal

    def encode(self):
        x = self.embedded(self.source, self.signal)
        for layer in range(1, self.s.encoder + 1):
            scope = f"encoder_l{layer}"
            x = self.attended(x, f"{scope}_self", *self.heads(self.linear(x, f"{scope}_self", "qkv"), 3))
            x = self.feed_forward(x, f"{scope}_ffn")
        for layer in range(1, self.s.decoder + 1):
            self.contexts[layer - 1].copy_(self.heads(self.linear(x, f"decoder_l{layer}_context", "kv"), 2))

    def step(self):
        """One step of all hypotheses: reads tokens and position, and replaces both."""
        x = self.embedded(self.tokens[:, None], 0) * self.begins[:, :, None] + self.signal.index_select(0, self.position)
        mask = (self.places <= self.position)[None, :]
        for layer in range(1, self.s.decoder + 1):
            own, context, words = f"decoder_l{layer}_self", f"decoder_l{layer}_context", self.words[layer - 1]
            queries, keys, values = self.heads(self.linear(x, own, "qkv"), 3)
            words[0].index_copy_(2, self.position, keys)
            words[1].index_copy_(2, self.position, values)
            x = self.attended(x, own, queries, words[0], words[1], mask)
            x = self.attended(x, context, self.heads(self.linear(x, context, "q"), 1)[0], *self.contexts[layer - 1])
            x = self.feed_forward(x, f"decoder_l{layer}_ffn")
        self.tokens.copy_(self.best(x[:, 0]))
        self.output.index_copy_(0, self.position, self.tokens[None])
        self.begins.fill_(1)
        self.position.add_(1)

    def best(self, x):
        scores = torch.addmm(self.p["decoder_ff_logit_out_b"][0], x, self.p["Wemb"].t())
        scores[:, 0] = -math.inf  # the end, so that all translations are as long
        return scores.argmax(1)

    def translate(self, sources):
        self.source.copy_(sources)
        self.begins.zero_()
        self.position.zero_()
        self.run_encoder()
        for _ in range(LENGTH):
            self.run_step()
        return self.output

    def check(self):
        """Compares the last translations with those of a decoder without caches that is given the same words."""
        x = self.embedded(self.output[:-1].t(), 0)
        x = torch.cat([torch.zeros_like(x[:, :1]), x], 1) + self.signal
        mask = self.places[None, :] <= self.places[:, None]
        for layer in range(1, self.s.decoder + 1):
            own, context = f"decoder_l{layer}_self", f"decoder_l{layer}_context"
            x = self.attended(x, own, *self.heads(self.linear(x, own, "qkv"), 3), mask)
            x = self.attended(x, context, self.heads(self.linear(x, context, "q"), 1)[0], *self.contexts[layer - 1])
            x = self.feed_forward(x, f"decoder_l{layer}_ffn")
        again = self.best(x.flatten(0, 1)).view(self.batch, LENGTH).t()
        same = (again == self.output).float().mean().item()
        if same < 0.99:
            sys.exit(f"{sys.argv[0]}: of the tokens of the steps, {same:.0%} are those of a decoder without caches")


@torch.inference_mode()
def main(size, sentences, device="cuda"):
    batch = BATCH if device == "cuda" else 4
    batches = max(1, int(sentences) // batch)
    translator = Translator(STUDENTS[size], batch, device)
    sources = torch.randint(2, STUDENTS[size].vocabulary, (batches, batch, LENGTH), device=device)
    sources[:, :, -1] = 0
    translator.translate(sources[0])
    if device == "cuda":
        torch.cuda.synchronize()
    else:
        translator.check()
    began = time.monotonic()
    for some in sources:
        output = translator.translate(some)
    output.sum().item()  # waits for the device
    print(round(batches * batch * LENGTH / (time.monotonic() - began)))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in STUDENTS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(STUDENTS)} SENTENCES [cuda|cpu]")
    main(*sys.argv[1:])
