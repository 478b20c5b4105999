"""The work items of `peers.rs` in PyTorch: `python3 peers_torch.py DEVICE eager|compile`.

Prints a JSON line for each item: device, item, and the milliseconds of a call
(median of as many as fit into BUDGET_S seconds). ITEMS=2,5a picks items.
Inputs and checksums are those of `support/spec.rs`.
"""

import json
import os
import statistics
import sys
import time

import numpy
import torch
from torch.nn import functional


def values(shape, seed, scale=1.0, shift=0.0):
    """A hash of index and seed, spread over shift - scale .. shift + scale."""
    count = int(numpy.prod(shape))
    with numpy.errstate(over="ignore"):
        x = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761)
        x = x + numpy.uint32(seed * 40503 & 0xFFFFFFFF)
        for bits, factor in [(16, 0x85EBCA6B), (13, 0xC2B2AE35)]:
            x = (x ^ (x >> numpy.uint32(bits))) * numpy.uint32(factor)
        x = x ^ (x >> numpy.uint32(16))
    unit = (x >> numpy.uint32(8)).astype(numpy.float32) * numpy.float32(2.0**-23) - numpy.float32(1)
    return (unit * numpy.float32(scale) + numpy.float32(shift)).reshape(shape)


def attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v)


def block(x, g1, be1, wqkv, bqkv, wo, bo, g2, be2, w1, b1, w2, b2):
    batch, length, width = x.shape
    qkv = functional.layer_norm(x, (width,), g1, be1) @ wqkv + bqkv
    q, k, v = qkv.reshape(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4).unbind(0)
    mixed = attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
    x = x + (mixed @ wo + bo)
    hidden = functional.layer_norm(x, (width,), g2, be2) @ w1 + b1
    return x + (functional.gelu(hidden, approximate="tanh") @ w2 + b2)


def hundred_adds(x, b):
    for _ in range(100):
        x = x + b
    return x



LARGE = (1 << 24,)
ROWS = (4096, 1024)
# Each item's function, inputs (shape, seed, scale, shift) and checksums.
ITEMS = {
    "1_elementwise": (
        lambda a, b, c: torch.tanh(a * b + c) * torch.sigmoid(a) - c,
        [(LARGE, 1), (LARGE, 2), (LARGE, 3)],
        (5347308.052509, -38.116440),
    ),
    "2_softmax": (lambda x: x.softmax(-1), [(ROWS, 1, 4)], (4095.999995, -0.989806)),
    "3_layernorm": (
        lambda x, g, b: functional.layer_norm(x, (1024,), g, b),
        [(ROWS, 1), ((1024,), 2, 0.1, 1), ((1024,), 3, 0.1)],
        (3647242.348949, -1140.643907),
    ),
    "4a_sum_axis0": (lambda x: x.sum(0), [((4096, 4096), 1)], (119962.554307, 1674.046169)),
    "4b_sum_axis1": (lambda x: x.sum(1), [((4096, 4096), 1)], (121373.967744, -756.711499)),
    "5a_matmul_1024": (
        torch.matmul,
        [((1024, 1024), 1), ((1024, 1024), 2)],
        (8933961.536510, -1579.762708),
    ),
    "5b_matmul_512x4096x4096": (
        torch.matmul,
        [((512, 4096), 1), ((4096, 4096), 2)],
        (35704955.156684, 16399.257904),
    ),
    "5c_bmm_32x128x64x128": (
        torch.matmul,
        [((32, 128, 64), 1), ((32, 64, 128), 2)],
        (1114919.556389, -2201.257319),
    ),
    "6_attention": (attention, [((4, 8, 512, 64), seed) for seed in (1, 2, 3)], (22469.126368, -1.743370)),
    "7_conv2d": (
        lambda x, w: functional.conv2d(x, w, padding=1),
        [((8, 64, 56, 56), 1), ((64, 64, 3, 3), 2, 1 / 24)],
        (422005.020563, -223.925213),
    ),
    "9_block": (
        block,
        [
            ((4, 256, 512), 1),
            ((512,), 2, 0.1, 1),
            ((512,), 3, 0.1),
            ((512, 1536), 4, 0.0625),
            ((1536,), 5, 0.1),
            ((512, 512), 6, 0.0625),
            ((512,), 7, 0.1),
            ((512,), 8, 0.1, 1),
            ((512,), 9, 0.1),
            ((512, 2048), 10, 0.0625),
            ((2048,), 11, 0.1),
            ((2048, 512), 12, 0.03125),
            ((512,), 13, 0.1),
        ],
        (312318.500819, -241.454624),
    ),
    "10a_100_adds": (hundred_adds, [((1024,), 1), ((1024,), 2, 0.001)], (493.563201, -10.096668)),
}
TRAINED = [
    ((256, 784), 1),
    ((784, 512), 2, 0.0625),
    ((512,), 3, 0.0625),
    ((512, 512), 4, 0.0625),
    ((512,), 5, 0.0625),
    ((512, 10), 6, 0.0625),
    ((10,), 7, 0.0625),
]
TRAINED_SUMS = (11.561357, -11.099444)


def checksums(y):
    y = y.detach().double().cpu().numpy().ravel()
    weights = (numpy.arange(y.size) % 101 - 50) / 50
    return float(numpy.abs(y).sum()), float((y * weights).sum())


def milliseconds(call, wait):
    """The first call's, and the median of those that fit into the budget."""
    budget = float(os.environ.get("BUDGET_S", "2"))

    def timed():
        start = time.perf_counter()
        call()
        wait()
        return 1e3 * (time.perf_counter() - start)

    cold = timed()
    for _ in range(3):
        timed()
    times, start = [], time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - start < budget and len(times) < 10_000):
        times.append(timed())
    return cold, statistics.median(times)


def training(device, through):
    """A step of gradient descent, and the losses of the first five."""
    x, *weights = [torch.from_numpy(values(*one)).to(device) for one in TRAINED]
    labels = torch.tensor([(7 * i + 3) % 10 for i in range(256)], device=device)
    weights = [weight.requires_grad_(True) for weight in weights]
    losses = []

    def forward(x, w1, b1, w2, b2, w3, b3):
        hidden = torch.relu(torch.relu(x @ w1 + b1) @ w2 + b2)
        return functional.cross_entropy(hidden @ w3 + b3, labels)

    forward = through(forward)

    def step():
        loss = forward(x, *weights)
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients):
                weight -= 0.01 * gradient
        if len(losses) < 5:
            losses.append(loss.detach())

    return step, lambda: torch.stack(losses), TRAINED_SUMS


def item(name, device, through):
    """A call, its result, and the checksums of that."""
    function, inputs, sums = ITEMS[name]
    function = through(function)
    arguments = [torch.from_numpy(values(*one)).to(device) for one in inputs]

    def call():
        with torch.no_grad():
            return function(*arguments)

    return call, call, sums


def main():
    device, mode = sys.argv[1], sys.argv[2]
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    through = torch.compile if mode == "compile" else lambda function: function
    wanted = [part for part in os.environ.get("ITEMS", "").split(",") if part]
    agree = True
    for name in [*ITEMS, "8_mlp_train"]:
        if wanted and name.split("_")[0] not in wanted:
            continue
        made = training(device, through) if name == "8_mlp_train" else item(name, device, through)
        call, result, expected = made
        cold, median = milliseconds(call, wait)
        sums = checksums(result())
        close = all(abs(a - b) < 1e-3 * expected[0] for a, b in zip(sums, expected))
        agree &= close
        line = {"peer": f"torch {mode}", "device": device, "item": name, "median_ms": median, "cold_ms": cold}
        print(json.dumps({**line, "agrees": close}), flush=True)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
