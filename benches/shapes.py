"""The work of shapes.rs in PyTorch (eager and compiled) and JAX, on the CPU,
beside kiln: runs `PROGRAM --device cpu` and each peer that is installed in turn,
items of a letter at a time, and prints a table of CPU time per call.

    cargo bench --bench shapes --no-run
    python benches/shapes.py target/release/deps/shapes-... [--rounds 2] [--items a1,c2]

Times are CPU time of all threads, the least of the rounds; results are compared
by two checksums within 1e-2 of the first (16-bit floats) or 1e-3.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import time

ARGUMENTS = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ARGUMENTS.add_argument("program")
ARGUMENTS.add_argument("--rounds", type=int, default=2)
ARGUMENTS.add_argument("--items", default="")
ARGUMENTS.add_argument("--peer", help="run only this peer, in this process")
THREADS = int(os.environ.get("NTHREADS", "2"))
BUDGET = float(os.environ.get("BUDGET_S", "0.7"))


def values(shape, seed):
    """A hash of index and seed in -1..1, as the benchmark in Rust makes it."""
    import numpy as np

    with np.errstate(over="ignore"):
        x = np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(2654435761)
        x += np.uint32(seed * 40503 & 0xFFFFFFFF)
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x85EBCA6B)
        x ^= x >> np.uint32(13)
        x *= np.uint32(0xC2B2AE35)
        x ^= x >> np.uint32(16)
    unit = (x >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    return unit.reshape(shape)


SHAPES = {
    "a1_softmax_4097x1023": [(4097, 1023)],
    "a2_layernorm_4097x1023": [(4097, 1023), (1023,), (1023,)],
    "a3_matmul_1000": [(1000, 1000), (1000, 1000)],
    "a4_chain_1000x1000": [(1000, 1000), (1000,)],
    "b1_matmul_16x4096x4096": [(16, 4096), (4096, 4096)],
    "b2_matmul_4096x16x4096": [(4096, 16), (16, 4096)],
    "b3_gemv_4096x4096": [(4096, 4096), (4096,)],
    "b4_vecmat_4096x4096": [(1, 4096), (4096, 4096)],
    "c1_matmul_transposed_1024": [(1024, 1024), (1024, 1024)],
    "c2_transpose_add_2048": [(2048, 2048), (2048, 2048)],
    "c3_strided_2048x2048": [(2048, 2048)],
    "c4_permute_64x256x256": [(64, 256, 256)],
    "d1_conv_stride2": [(8, 64, 56, 56), (128, 64, 3, 3)],
    "d2_conv_1x1": [(8, 256, 28, 28), (64, 256, 1, 1)],
    "d3_conv_depthwise": [(8, 128, 56, 56), (128, 1, 3, 3)],
    "e1_gelu_bf16_4M": [(1 << 22,)],
    "e2_softmax_f16_2048x1024": [(2048, 1024)],
    "e3_matmul_bf16_512": [(512, 512), (512, 512)],
    "f1_cross_entropy_256x50257": [(256, 50257)],
    "g1_group_norm_8x64x56x56": [(8, 64, 56, 56), (64,), (64,)],
    "g2_rms_swiglu_512x512x1024": [(512, 512), (512,), (512, 1024), (512, 1024)],
    "g3_group_norm_silu_16x256x64x64": [(16, 256, 64, 64), (256,), (256,)],
    "h1_rotary_4x8x512x64": [(4, 8, 512, 64), (512, 32), (512, 32)],
    "i1_topk_256x10000": [(256, 10000)],
    "i2_cumsum_1024x4096": [(1024, 4096)],
    "i3_gather_rows_8192": [(50000, 256)],
    "k1_gradient_convs_16x64x28x28": [(16, 64, 28, 28), (64, 64, 3, 3), (64, 64, 3, 3)],
    "k2_gradient_mlp_512x256x1024": [(512, 256), (256, 1024), (1024, 256)],
    "k3_gradient_conv_stride2": [(8, 64, 56, 56), (128, 64, 3, 3)],
    "k4_gradient_max_pool": [(8, 64, 56, 56)],
    "l1_conv_transpose_8x64x28x28": [(8, 64, 28, 28), (64, 32, 4, 4)],
    "l2_bilinear_4x32x64x64": [(4, 32, 64, 64)],
    "m1_index_add_8192x256": [(8192, 256)],
    "m2_flat_cat_512x8x784": [(512, 8, 784), (65536,)],
}


def torch_items():
    import torch
    import torch.nn.functional as F

    def rotary(x, c, s):
        even, odd = x[..., :32], x[..., 32:]
        return torch.cat([even * c - odd * s, odd * c + even * s], -1)

    def swiglu(x, g, a, b):
        y = F.rms_norm(x, (512,), g, 1e-6)
        return F.silu(y @ a) * (y @ b)

    def gradient(f):
        def row(*x):
            loss = lambda *x: f(*x).square().mean()
            gradients = torch.func.grad(loss, argnums=tuple(range(len(x))))(*x)
            return torch.cat([g.reshape(-1) for g in gradients])

        return row

    return {
        "a1": lambda x: torch.softmax(x, -1),
        "a2": lambda x, g, b: F.layer_norm(x, (1023,), g, b),
        "a3": lambda a, b: a @ b,
        "a4": lambda x, b: F.gelu(x * 1.5 + b).square(),
        "b1": lambda a, b: a @ b,
        "b2": lambda a, b: a @ b,
        "b3": lambda a, b: a @ b,
        "b4": lambda a, b: a @ b,
        "c1": lambda a, b: a @ b.T,
        "c2": lambda a, b: a.T + b,
        "c3": lambda x: x[:, ::2] * 2.0 + 1.0,
        "c4": lambda x: x.permute(2, 0, 1).contiguous(),
        "d1": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
        "d2": lambda x, w: F.conv2d(x, w),
        "d3": lambda x, w: F.conv2d(x, w, padding=1, groups=128),
        "e1": lambda x: F.gelu(x),
        "e2": lambda x: torch.softmax(x, -1),
        "e3": lambda a, b: a @ b,
        "f1": lambda x: F.cross_entropy(x, torch.arange(256) * 191),
        "g1": lambda x, g, b: F.group_norm(x, 8, g, b),
        "g2": swiglu,
        "g3": lambda x, g, b: F.silu(F.group_norm(x, 32, g, b)),
        "h1": rotary,
        "i1": lambda x: torch.topk(x, 10)[0],
        "i2": lambda x: torch.cumsum(x, 1),
        "i3": lambda t: F.embedding(torch.arange(8192) * 6, t),
        "k1": gradient(lambda x, v, w: F.conv2d(F.conv2d(x, v, padding=1).relu(), w, padding=1)),
        "k2": gradient(lambda x, v, w: F.gelu(x @ v) @ w),
        "k3": gradient(lambda x, w: F.conv2d(x, w, stride=2, padding=1)),
        "k4": gradient(lambda x: F.max_pool2d(x, 3, 2, 1)),
        "l1": lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        "l2": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        "m1": lambda x: torch.zeros(1000, 256).index_add(0, torch.arange(8192) * 7 % 1000, x),
        "m2": lambda x, y: torch.cat([x.permute(1, 0, 2).reshape(-1), y]),
    }


def jax_items():
    import jax
    import jax.numpy as jnp

    def layer_norm(x, g, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b

    def group_norm(x, g, b, groups):
        y = x.reshape(x.shape[0], groups, -1)
        mean, var = y.mean(-1, keepdims=True), y.var(-1, keepdims=True)
        y = ((y - mean) * jax.lax.rsqrt(var + 1e-5)).reshape(x.shape)
        return y * g[None, :, None, None] + b[None, :, None, None]

    def swiglu(x, g, a, b):
        y = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g
        return jax.nn.silu(y @ a) * (y @ b)

    def rotary(x, c, s):
        even, odd = x[..., :32], x[..., 32:]
        return jnp.concatenate([even * c - odd * s, odd * c + even * s], -1)

    def cross_entropy(x):
        picked = x[jnp.arange(256), jnp.arange(256) * 191]
        return (jax.nn.logsumexp(x, -1) - picked).mean()

    def gradient(f):
        def row(*x):
            loss = lambda *x: jnp.square(f(*x)).mean()
            gradients = jax.grad(loss, argnums=tuple(range(len(x))))(*x)
            return jnp.concatenate([g.reshape(-1) for g in gradients])

        return row

    def conv(x, w, stride=1, padding=0, groups=1):
        pads = [(padding, padding)] * 2
        return jax.lax.conv_general_dilated(x, w, (stride, stride), pads, feature_group_count=groups)

    def conv_transpose(x, w):
        flipped = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
        return jax.lax.conv_general_dilated(x, flipped, (1, 1), [(2, 2)] * 2, lhs_dilation=(2, 2))

    def max_pool(x):
        pads = ((0, 0), (0, 0), (1, 1), (1, 1))
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), pads)

    return {
        "a1": lambda x: jax.nn.softmax(x, -1),
        "a2": layer_norm,
        "a3": lambda a, b: a @ b,
        "a4": lambda x, b: jnp.square(jax.nn.gelu(x * 1.5 + b, approximate=False)),
        "b1": lambda a, b: a @ b,
        "b2": lambda a, b: a @ b,
        "b3": lambda a, b: a @ b,
        "b4": lambda a, b: a @ b,
        "c1": lambda a, b: a @ b.T,
        "c2": lambda a, b: a.T + b,
        "c3": lambda x: x[:, ::2] * 2.0 + 1.0,
        "c4": lambda x: x.transpose(2, 0, 1),
        "d1": lambda x, w: conv(x, w, stride=2, padding=1),
        "d2": conv,
        "d3": lambda x, w: conv(x, w, padding=1, groups=128),
        "e1": lambda x: jax.nn.gelu(x, approximate=False),
        "e2": lambda x: jax.nn.softmax(x, -1),
        "e3": lambda a, b: a @ b,
        "f1": cross_entropy,
        "g1": lambda x, g, b: group_norm(x, g, b, 8),
        "g2": swiglu,
        "g3": lambda x, g, b: jax.nn.silu(group_norm(x, g, b, 32)),
        "h1": rotary,
        "i1": lambda x: jax.lax.top_k(x, 10)[0],
        "i2": lambda x: jnp.cumsum(x, 1),
        "i3": lambda t: t[jnp.arange(8192) * 6],
        "k1": gradient(lambda x, v, w: conv(jax.nn.relu(conv(x, v, padding=1)), w, padding=1)),
        "k2": gradient(lambda x, v, w: jax.nn.gelu(x @ v, approximate=False) @ w),
        "k3": gradient(lambda x, w: conv(x, w, stride=2, padding=1)),
        "k4": gradient(max_pool),
        "l1": conv_transpose,
        "l2": lambda x: jax.image.resize(x, (4, 32, 128, 128), "linear"),
        "m1": lambda x: jnp.zeros((1000, 256)).at[jnp.arange(8192) * 7 % 1000].add(x),
        "m2": lambda x, y: jnp.concatenate([x.transpose(1, 0, 2).reshape(-1), y]),
    }


def timed(call):
    """CPU milliseconds per call, of all threads."""
    for _ in range(3):
        call()
    calls, wall, cpu = 0, time.perf_counter(), time.process_time()
    while calls < 5 or time.perf_counter() - wall < BUDGET:
        call()
        calls += 1
    return (time.process_time() - cpu) / calls * 1e3


def report(item, cpu_ms, result):
    import numpy as np

    flat = np.asarray(result, dtype=np.float64).ravel()
    weights = (np.arange(flat.size) % 101 - 50) / 50
    print(json.dumps({"item": item, "cpu_ms": cpu_ms, "sum_abs": float(np.abs(flat).sum()), "wsum": float(flat @ weights)}), flush=True)


def run_torch(names, compiled):
    import torch

    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    items = torch_items()
    kinds = {"e1": torch.bfloat16, "e2": torch.float16, "e3": torch.bfloat16}
    for name in names:
        key = name.split("_")[0]
        inputs = [torch.from_numpy(values(s, i + 1)).to(kinds.get(key, torch.float32)) for i, s in enumerate(SHAPES[name])]
        call = torch.compile(items[key], dynamic=False) if compiled else items[key]
        try:
            result = call(*inputs)
            report(name, timed(lambda: call(*inputs)), result.float().numpy())
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)


def run_jax(names):
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + f" --xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={THREADS}"
    import jax
    import jax.numpy as jnp

    items = jax_items()
    kinds = {"e1": jnp.bfloat16, "e2": jnp.float16, "e3": jnp.bfloat16}
    for name in names:
        key = name.split("_")[0]
        inputs = [jnp.asarray(values(s, i + 1), dtype=kinds.get(key, jnp.float32)) for i, s in enumerate(SHAPES[name])]
        call = jax.jit(items[key])
        try:
            result = call(*inputs).block_until_ready()
            report(name, timed(lambda: call(*inputs).block_until_ready()), result.astype(jnp.float32))
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)


PEERS = {
    "torch": lambda names: run_torch(names, False),
    "torch.compile": lambda names: run_torch(names, True),
    "jax": run_jax,
}


def lines(command, items):
    environment = dict(os.environ, ITEMS=items, BUDGET_S=str(BUDGET), OMP_WAIT_POLICY="PASSIVE")
    out = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{") and '"_process"' not in line]


def main():
    given = ARGUMENTS.parse_args()
    keys = given.items.split(",") if given.items else [name.split("_")[0] for name in SHAPES]
    names = [name for name in SHAPES if name.split("_")[0] in keys]
    if given.peer:
        return PEERS[given.peer](names)
    best = {}
    # What is compared runs within a minute: items of a letter in turn.
    groups = [",".join(group) for _, group in itertools.groupby(keys, key=lambda key: key[0])]
    for group in groups * given.rounds:
        for who in ["kiln", *PEERS]:
            command = [given.program, "--device", "cpu"]
            if who != "kiln":
                command = [sys.executable, __file__, given.program, "--peer", who, "--items", group]
            for line in lines(command, group):
                known = best.setdefault(line["item"], {}).get(who)
                if known is None or line["cpu_ms"] < known["cpu_ms"]:
                    best[line["item"]][who] = line
    ratios = []
    print("| item | kiln | " + " | ".join(PEERS) + " | ratio to the best |\n|---|---|" + "---|" * len(PEERS) + "---|")
    for name in names:
        found = best.get(name, {})
        if "kiln" not in found:
            continue
        kiln, cells = found["kiln"], []
        loose = 1e-2 if name.startswith("e") else 1e-3
        for who in PEERS:
            peer = found.get(who)
            same = peer and all(abs(peer[key] - kiln[key]) < loose * abs(peer["sum_abs"]) for key in ["sum_abs", "wsum"])
            cells.append("-" if not peer else f"{peer['cpu_ms']:.3g}" + ("" if same else " !"))
        peers = [found[who]["cpu_ms"] for who in PEERS if who in found]
        ratio = kiln["cpu_ms"] / min(peers) if peers else math.nan
        ratios.append(ratio)
        print(f"| {name} | {kiln['cpu_ms']:.3g} | {' | '.join(cells)} | {ratio:.2f} |")
    # A view takes no time that the clock can tell.
    timed = [math.log(ratio) for ratio in ratios if ratio > 0]
    if timed:
        print(f"geometric mean {math.exp(sum(timed) / len(timed)):.2f} of {len(timed)} items")


main()
