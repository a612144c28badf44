"""An independent implementation of a student and a teacher in JAX, to compare a training with.

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


def embed(p, tokens):
    return p["Wemb"][tokens] * float(np.sqrt(dim))


def loss(p, source, source_mask, target, target_mask):
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
    logits = x @ p["Wemb"].T + p["decoder_ff_logit_out_b"]
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


losses, times = [], []
for step, rate in enumerate(task["rates"]):
    begin = time.process_time()
    value, gradients = value_and_gradient(parameters, *batches[step % len(batches)])
    losses.append(float(value))
    if step == 0 and task["double"]:
        np.savez(folder + "/gradients.npz", **{name: np.asarray(g, np.float32) for name, g in gradients.items()})
    parameters, mean, square = move(parameters, mean, square, gradients, rate, step + 1.0)
    jax.block_until_ready(parameters)
    times.append(time.process_time() - begin)
np.savez(folder + "/trained.npz", **{name: np.asarray(value, np.float32) for name, value in parameters.items()})
for name, numbers in (("losses", losses), ("times", times)):
    with open(f"{folder}/{name}.json", "w") as f:
        json.dump(numbers, f)
