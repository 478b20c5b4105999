"""Records what PyTorch's GradScaler does: writes recorded.json beside this file.
Run it with any PyTorch of version 2.3 or later:

    python tests/training/grad_scaler/record.py

Two parameters in double precision move for 200 steps down the valley of
tests/training/optim/record.py. At some steps an element of a scaled gradient is inf or
NaN, as after an overflow. Each parameter is moved by one optimizer for both, or
by one of its own, with gradients clipped between `unscale_` and `step` or not.
"""

import json
import math
import pathlib
import warnings

import torch

STEPS = 200
KEPT = [1, 2, 3, 10, 50, 100, 200]
SCALER = dict(init_scale=1024.0, growth_factor=2.0, backoff_factor=0.25, growth_interval=7)
# By step: the parameter whose gradient overflows, the element, and what it is then.
BAD = {1: ("a", 0, math.inf), 2: ("b", 1, math.nan), 20: ("a", 5, -math.inf), 28: ("b", 0, math.inf)}
BAD |= {step: ("a", step % 6, math.inf) for step in range(60, 66)}
BAD |= {step: ("b", step % 2, math.nan) for step in range(150, 200, 9)}


def start():
    a = torch.tensor([[1.5, -0.7, 0.2], [-2.0, 0.9, 3.1]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.3, -1.1], dtype=torch.float64, requires_grad=True)
    return a, b


def gradients(a, b, step):
    row = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3)
    wave = math.sin(0.7 * step)
    return 0.3 * row * a + torch.sin(3 * a) + 0.2 * wave, b**3 - 0.5 * b + 0.1 * wave * a.sum(1)


def run(make, clip=None):
    a, b = start()
    optimizers = make(a, b)
    scaler = torch.amp.GradScaler("cpu", **SCALER)
    kept, scales, skipped = [], [], {"a": [], "b": []}
    for step in range(1, STEPS + 1):
        scale = scaler.scale(torch.ones((), dtype=torch.float64))
        with torch.no_grad():
            a.grad, b.grad = (gradient * scale for gradient in gradients(a.detach(), b.detach(), step))
            if step in BAD:
                name, element, value = BAD[step]
                {"a": a, "b": b}[name].grad.view(-1)[element] = value
        before = a.detach().clone(), b.detach().clone()
        for optimizer in optimizers:
            if clip is not None:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_([a, b], clip)
            scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        for name, old, new in zip("ab", before, (a, b)):
            if torch.equal(old, new):
                skipped[name].append(step)
        if step in KEPT:
            kept.append({"step": step, "a": a.detach().flatten().tolist(), "b": b.detach().tolist()})
    return {"scales": scales, "skipped": skipped, "params": kept}


o = torch.optim
RUNS = {
    "sgd": lambda: run(lambda a, b: [o.SGD([a, b], lr=0.02, momentum=0.9, dampening=0.1)]),
    "adam": lambda: run(lambda a, b: [o.Adam([a, b], lr=0.03)]),
    "adam_clipped": lambda: run(lambda a, b: [o.Adam([a, b], lr=0.03)], clip=0.5),
    "adamw_amsgrad": lambda: run(lambda a, b: [o.AdamW([a, b], lr=0.03, amsgrad=True)]),
    "adagrad": lambda: run(lambda a, b: [o.Adagrad([a, b], lr=0.1, lr_decay=0.02)]),
    "rmsprop": lambda: run(lambda a, b: [o.RMSprop([a, b], lr=0.02)]),
    "two_optimizers": lambda: run(lambda a, b: [o.Adam([a], lr=0.03), o.SGD([b], lr=0.02)]),
}

warnings.simplefilter("ignore")
recorded = {"torch": torch.__version__, "bad": [[s, n, e, str(v)] for s, (n, e, v) in sorted(BAD.items())]}
recorded |= {"runs": {name: make() for name, make in RUNS.items()}}
path = pathlib.Path(__file__).with_name("recorded.json")
path.write_text(json.dumps(recorded, separators=(",", ":")) + "\n")
