"""An independent implementation of a student, a teacher and a recurrent model in JAX, to compare a training with.

    student.py FOLDER

reads FOLDER/model.npz, the parameters to start from, and FOLDER/task.json: the architecture, the settings, the
mini-batches as lists of sentence pairs, and the learning rate of every step. It trains with Adam, one mini-batch a
step, in the precision that is asked for, and writes FOLDER/gradients.npz, the gradients of the first step,
FOLDER/losses.json, the loss of every step per target word, FOLDER/times.json, the processor time of every step in
seconds, of which the first one compiles, and FOLDER/trained.npz, the parameters after the last step.

Batches are padded and masked here, layers are written for all positions at once, and gradients come from JAX.
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

folder = sys.argv[1]
with open(folder + "/task.json") as f:
    task = json.load(f)
jax.config.update("jax_enable_x64", task["double"])
real = jnp.float64 if task["double"] else jnp.float32
dim, heads = task["dim"], task["heads"]
activation = {
    "relu": jax.nn.relu,
    "swish": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
}[task["activation"]]


def positions(length):
    half = dim // 2
    frequencies = np.exp(-np.arange(half) * (np.log(10000.0) / (half - 1)))
    angles = np.arange(length)[:, None] * frequencies[None, :]
    return jnp.asarray(np.concatenate([np.sin(angles), np.cos(angles)], axis=1), real)


def norm(p, name, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-6) * p[name + "_ln_scale"] + p[name + "_ln_bias"]


def attention(p, name, x, memory, mask):
    """mask: batch × queries × keys, true where a query may look."""

    def split(y):
        return y.reshape(y.shape[0], y.shape[1], heads, dim // heads).transpose(0, 2, 1, 3)

    q = split(x @ p[name + "_Wq"] + p[name + "_bq"])
    k = split(memory @ p[name + "_Wk"] + p[name + "_bk"])
    v = split(memory @ p[name + "_Wv"] + p[name + "_bv"])
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / float(np.sqrt(dim // heads))
    weights = jax.nn.softmax(jnp.where(mask[:, None], scores, -1e9), axis=-1)
    y = jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(x.shape)
    return norm(p, name + "_Wo", y @ p[name + "_Wo"] + p[name + "_bo"] + x)


def feed_forward(p, name, x):
    y = activation(x @ p[name + "_W1"] + p[name + "_b1"]) @ p[name + "_W2"] + p[name + "_b2"]
    return norm(p, name + "_ffn", y + x)


def ssru(p, name, x):
    forget = jax.nn.sigmoid(x @ p[name + "_Wf"] + p[name + "_bf"])
    projected = x @ p[name + "_W"]

    def cell(state, inputs):
        f, w = inputs
        state = f * state + (1 - f) * w
        return state, state

    by_time = (forget.transpose(1, 0, 2), projected.transpose(1, 0, 2))
    _, states = jax.lax.scan(cell, jnp.zeros_like(x[:, 0]), by_time)
    return norm(p, name + "_ffn", jax.nn.relu(states.transpose(1, 0, 2)) + x)


def cell_norm(x, scale, bias=0.0):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-9) * scale + bias


def gru(p, name, state, x, final=False):
    """One step, for all sentences; x is None for a cell without input."""
    width = state.shape[-1]

    def product(y, letter, number):
        gates = jnp.concatenate([y @ p[f"{name}_{letter}"], y @ p[f"{name}_{letter}x"]], axis=-1)
        return cell_norm(gates, p[f"{name}_gamma{number}"])

    u = product(state, "U", 2)
    w = jnp.zeros_like(u) if x is None else product(x, "W", 1)
    b = jnp.concatenate([p[name + "_b"], p[name + "_bx"]], axis=-1)
    r, z = jnp.split(jax.nn.sigmoid((w + u + b)[:, : 2 * width]), 2, axis=-1)
    w, u, b = w[:, 2 * width :], u[:, 2 * width :], b[:, 2 * width :]
    h = jnp.tanh(w + r * (u + b)) if final else jnp.tanh(w + r * u + b)
    return (1 - z) * h + z * state


def read(p, name, x, mask, backward):
    def step(state, inputs):
        y, there = inputs
        state = jnp.where(there[:, None], gru(p, name, state, y), state)
        return state, state

    start = jnp.zeros((x.shape[0], p[name + "_Ux"].shape[0]), real)
    _, states = jax.lax.scan(step, start, (x.transpose(1, 0, 2), mask.T), reverse=backward)
    return states.transpose(1, 0, 2)


def recurrent_top(p, source, source_mask, target):
    """What the output layer multiplies, of a model of type s2s with layer norms, skips, and two layers in the decoder."""
    x = p["Wemb"][source]
    context = jnp.concatenate([read(p, "encoder_bi", x, source_mask, False), read(p, "encoder_bi_r", x, source_mask, True)], axis=-1)
    mean = (context * source_mask[:, :, None]).sum(1) / source_mask.sum(1)[:, None]
    start = jnp.tanh(cell_norm(mean @ p["decoder_ff_state_W"], p["decoder_ff_state_gamma"], p["decoder_ff_state_b"]))
    mapped = cell_norm(context @ p["decoder_Wc_att"], p["decoder_att_gamma1"], p["decoder_b_att"])
    before = jnp.concatenate([jnp.zeros_like(x[:, :1]), p["Wemb"][target[:, :-1]]], axis=1)

    def step(states, y):
        bottom, high = states
        bottom = gru(p, "decoder_cell1", bottom, y)
        query = cell_norm(bottom @ p["decoder_W_comb_att"], p["decoder_att_gamma2"])
        scores = (jnp.tanh(mapped + query[:, None]) @ p["decoder_U_att"])[:, :, 0]
        found = jnp.einsum("bk,bkd->bd", jax.nn.softmax(jnp.where(source_mask, scores, -1e9)), context)
        bottom = gru(p, "decoder_cell2", bottom, found, final=True)
        bottom = gru(p, "decoder_cell3", bottom, None, final=True)
        high = gru(p, "decoder_l2_cell1", high, bottom)
        total = 0.0
        for i, part in enumerate((y, high + bottom, found)):
            name = "decoder_ff_logit_l1_"
            total += cell_norm(part @ p[f"{name}W{i}"], p[f"{name}gamma{i}"], p[f"{name}b{i}"])
        return (bottom, high), jnp.tanh(total)

    _, tops = jax.lax.scan(step, (start, start), before.transpose(1, 0, 2))
    return tops.transpose(1, 0, 2)


def embed(p, tokens):
    return p["Wemb"][tokens] * float(np.sqrt(dim))


def transformer_top(p, source, source_mask, target):
    length = target.shape[1]
    looks = jnp.broadcast_to(source_mask[:, None, :], (source.shape[0], source.shape[1], source.shape[1]))
    x = embed(p, source) + positions(source.shape[1])
    for layer in range(1, task["enc-depth"] + 1):
        x = attention(p, f"encoder_l{layer}_self", x, x, looks)
        x = feed_forward(p, f"encoder_l{layer}_ffn", x)
    memory = x
    before = jnp.concatenate([jnp.zeros((target.shape[0], 1, dim), real), embed(p, target[:, :-1])], axis=1)
    x = before + positions(length)
    causal = jnp.broadcast_to(jnp.tril(jnp.ones((length, length), bool)), (target.shape[0], length, length))
    across = jnp.broadcast_to(source_mask[:, None, :], (target.shape[0], length, source.shape[1]))
    for layer in range(1, task["dec-depth"] + 1):
        name = f"decoder_l{layer}"
        if task["recurrent"]:
            x = ssru(p, name + "_rnn", x)
        else:
            x = attention(p, name + "_self", x, x, causal)
        x = attention(p, name + "_context", x, memory, across)
        x = feed_forward(p, name + "_ffn", x)
    return x


def loss(p, source, source_mask, target, target_mask):
    if task["type"] == "s2s":
        x, bias = recurrent_top(p, source, source_mask, target), p["decoder_ff_logit_l2_b"]
    else:
        x, bias = transformer_top(p, source, source_mask, target), p["decoder_ff_logit_out_b"]
    logits = x @ p["Wemb"].T + bias
    log_probabilities = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_probabilities, target[:, :, None], axis=2)[:, :, 0]
    smoothing = task["smoothing"]
    costs = -(1 - smoothing) * picked - smoothing * log_probabilities.mean(-1)
    return (costs * target_mask).sum() / target_mask.sum()


def pad(sentences, length):
    tokens = np.zeros((len(sentences), length), np.int32)
    mask = np.zeros((len(sentences), length), bool)
    for i, sentence in enumerate(sentences):
        tokens[i, : len(sentence)] = sentence
        mask[i, : len(sentence)] = True
    return tokens, mask


longest = [max(len(pair[side]) for batch in task["batches"] for pair in batch) for side in (0, 1)]
batches = []
for batch in task["batches"]:
    source, source_mask = pad([pair[0] for pair in batch], longest[0])
    target, target_mask = pad([pair[1] for pair in batch], longest[1])
    batches.append((source, source_mask, target, target_mask))

stored = np.load(folder + "/model.npz")
parameters = {name: jnp.asarray(stored[name], real) for name in stored.files if not name.startswith("special:")}
mean = {name: jnp.zeros_like(value) for name, value in parameters.items()}
square = {name: jnp.zeros_like(value) for name, value in parameters.items()}
beta1, beta2, epsilon = task["adam"]
value_and_gradient = jax.jit(jax.value_and_grad(loss))


@jax.jit
def move(parameters, mean, square, gradients, rate, step):
    total = jnp.sqrt(sum((g**2).sum() for g in gradients.values()))
    clip = jnp.minimum(1.0, task["clip"] / total)
    for name, gradient in gradients.items():
        gradient = gradient * clip
        mean[name] = beta1 * mean[name] + (1 - beta1) * gradient
        square[name] = beta2 * square[name] + (1 - beta2) * gradient**2
        moment, second = mean[name] / (1 - beta1**step), square[name] / (1 - beta2**step)
        parameters[name] = parameters[name] - rate * moment / (jnp.sqrt(second) + epsilon)
    return parameters, mean, square


losses, times, walls = [], [], []
for step, rate in enumerate(task["rates"]):
    begin, clock = time.process_time(), time.perf_counter()
    value, gradients = value_and_gradient(parameters, *batches[step % len(batches)])
    losses.append(float(value))
    if step == 0 and task["double"]:
        np.savez(folder + "/gradients.npz", **{name: np.asarray(g, np.float32) for name, g in gradients.items()})
    parameters, mean, square = move(parameters, mean, square, gradients, rate, step + 1.0)
    jax.block_until_ready(parameters)
    times.append(time.process_time() - begin)
    walls.append(time.perf_counter() - clock)
np.savez(folder + "/trained.npz", **{name: np.asarray(value, np.float32) for name, value in parameters.items()})
for name, numbers in (("losses", losses), ("times", times), ("wall", walls)):
    with open(f"{folder}/{name}.json", "w") as f:
        json.dump(numbers, f)
