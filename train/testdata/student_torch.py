"""Trains the student of task.json with PyTorch, for the benchmark beside it. See student.py, which says the same in JAX.

usage: student_torch.py FOLDER, with task.json and model.npz in it; writes losses.json and wall.json.
"""

import json
import sys
import time

import numpy as np
import torch
from torch.nn import functional

folder = sys.argv[1]
with open(folder + "/task.json") as f:
    task = json.load(f)
torch.set_num_threads(task["threads"])
dim, heads = task["dim"], task["heads"]
stored = np.load(folder + "/model.npz")
p = {name: torch.tensor(stored[name], requires_grad=True) for name in stored.files if not name.startswith("special:")}


def norm(name, x):
    return functional.layer_norm(x, (dim,), p[name + "_ln_scale"].flatten(), p[name + "_ln_bias"].flatten(), 1e-6)


def linear(x, w, b=None):
    y = x @ p[w]
    return y if b is None else y + p[b]


def attention(name, x, memory, mask):
    def split(y):
        return y.view(y.shape[0], y.shape[1], heads, -1).transpose(1, 2)

    q, k, v = (split(linear(y, f"{name}_W{c}", f"{name}_b{c}")) for c, y in (("q", x), ("k", memory), ("v", memory)))
    y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    y = y.transpose(1, 2).reshape(x.shape)
    return norm(name + "_Wo", linear(y, name + "_Wo", name + "_bo") + x)


def feed_forward(name, x):
    y = linear(torch.relu(linear(x, name + "_W1", name + "_b1")), name + "_W2", name + "_b2")
    return norm(name + "_ffn", y + x)


def ssru(name, x):
    forget, projected = torch.sigmoid(linear(x, name + "_Wf", name + "_bf")), linear(x, name + "_W")
    inputs, state, states = (1 - forget) * projected, torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = forget[:, t] * state + inputs[:, t]
        states.append(state)
    return norm(name + "_ffn", torch.relu(torch.stack(states, 1)) + x)


def positions(length):
    rate = np.log(10000.0) / (dim // 2 - 1)
    angles = np.arange(length)[:, None] * np.exp(np.arange(dim // 2) * -rate)[None, :]
    return torch.tensor(np.concatenate([np.sin(angles), np.cos(angles)], axis=1), dtype=torch.float32)


def embed(tokens):
    return functional.embedding(tokens, p["Wemb"]) * float(np.sqrt(dim))


def loss(source, source_mask, target, target_mask):
    looks = source_mask[:, None, None, :]
    x = embed(source) + positions(source.shape[1])
    for layer in range(1, task["enc-depth"] + 1):
        x = feed_forward(f"encoder_l{layer}_ffn", attention(f"encoder_l{layer}_self", x, x, looks))
    memory = x
    before = functional.pad(embed(target[:, :-1]), (0, 0, 1, 0))
    x = before + positions(target.shape[1])
    for layer in range(1, task["dec-depth"] + 1):
        name = f"decoder_l{layer}"
        x = feed_forward(name + "_ffn", attention(name + "_context", ssru(name + "_rnn", x), memory, looks))
    logits = functional.linear(x, p["Wemb"], p["decoder_ff_logit_out_b"].flatten())
    costs = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=task["smoothing"], reduction="none")
    return (costs * target_mask.flatten()).sum() / target_mask.sum()


def pad(sentences):
    tokens = np.zeros((len(sentences), max(map(len, sentences))), np.int64)
    mask = np.zeros(tokens.shape, bool)
    for i, sentence in enumerate(sentences):
        tokens[i, : len(sentence)] = sentence
        mask[i, : len(sentence)] = True
    return torch.tensor(tokens), torch.tensor(mask)


batches = [(*pad([pair[0] for pair in batch]), *pad([pair[1] for pair in batch])) for batch in task["batches"]]
beta1, beta2, epsilon = task["adam"]
adam = torch.optim.Adam(p.values(), lr=1.0, betas=(beta1, beta2), eps=epsilon, fused=True)
losses, walls = [], []
for step, rate in enumerate(task["rates"]):
    begin = time.perf_counter()
    adam.zero_grad()
    value = loss(*batches[step % len(batches)])
    value.backward()
    torch.nn.utils.clip_grad_norm_(p.values(), task["clip"])
    adam.param_groups[0]["lr"] = rate
    adam.step()
    losses.append(value.item())
    walls.append(time.perf_counter() - begin)
for name, numbers in (("losses", losses), ("wall", walls)):
    with open(f"{folder}/{name}.json", "w") as f:
        json.dump(numbers, f)
