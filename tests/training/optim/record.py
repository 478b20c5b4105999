"""Records what PyTorch's optimizers, schedules and clipping do: writes
recorded.json beside this file. Run it with any PyTorch of version 2:

    python tests/training/optim/record.py

Every optimizer moves two parameters, in double precision, for 100 steps down
a bent valley, whose gradient `gradients` states in closed form; so nothing but
the optimizer is compared.
"""

import json
import math
import pathlib

import torch

STEPS = 100
KEPT = [1, 2, 10, 50, 100]


def start():
    a = torch.tensor([[1.5, -0.7, 0.2], [-2.0, 0.9, 3.1]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.3, -1.1], dtype=torch.float64, requires_grad=True)
    return a, b


def gradients(a, b, step):
    """Of a fixed function, with a disturbance that changes from step to step."""
    row = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3)
    wave = math.sin(0.7 * step)
    return 0.3 * row * a + torch.sin(3 * a) + 0.2 * wave, b**3 - 0.5 * b + 0.1 * wave * a.sum(1)


def run(make):
    a, b = start()
    optimizer = make([a, b])
    kept = []
    for step in range(1, STEPS + 1):
        with torch.no_grad():
            a.grad, b.grad = gradients(a.detach(), b.detach(), step)
        optimizer.step()
        if step in KEPT:
            kept.append({"step": step, "a": a.detach().flatten().tolist(), "b": b.detach().tolist()})
    return kept


def lion(params, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1):
    """PyTorch has no Lion; this follows algorithm 2 of Chen et al. 2023."""

    class Lion(torch.optim.Optimizer):
        def __init__(self):
            super().__init__(params, {})
            self.mean = [torch.zeros_like(p) for p in params]

        @torch.no_grad()
        def step(self):
            for p, mean in zip(params, self.mean):
                direction = torch.sign(betas[0] * mean + (1 - betas[0]) * p.grad)
                p -= lr * (direction + weight_decay * p)
                mean.copy_(betas[1] * mean + (1 - betas[1]) * p.grad)

    return Lion()


o = torch.optim
OPTIMIZERS = {
    "sgd": lambda p: o.SGD(p, lr=0.05),
    "sgd_momentum": lambda p: o.SGD(p, lr=0.02, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "sgd_nesterov": lambda p: o.SGD(p, lr=0.02, momentum=0.8, nesterov=True, weight_decay=0.01),
    "adam": lambda p: o.Adam(p, lr=0.03),
    "adam_decay_amsgrad": lambda p: o.Adam(p, lr=0.03, betas=(0.8, 0.99), weight_decay=0.05, amsgrad=True),
    "adamw": lambda p: o.AdamW(p, lr=0.03, weight_decay=0.1),
    "adamw_amsgrad": lambda p: o.AdamW(p, lr=0.03, amsgrad=True),
    "rmsprop": lambda p: o.RMSprop(p, lr=0.02),
    "rmsprop_centered_momentum": lambda p: o.RMSprop(
        p, lr=0.005, alpha=0.9, momentum=0.7, centered=True, weight_decay=0.02, eps=1e-3
    ),
    "adagrad": lambda p: o.Adagrad(p, lr=0.1),
    "adagrad_decay": lambda p: o.Adagrad(
        p, lr=0.1, lr_decay=0.02, weight_decay=0.03, initial_accumulator_value=0.1
    ),
    "lion": lion,
}


def one_parameter(lr):
    return o.SGD([torch.zeros(1, requires_grad=True)], lr=lr)


def schedule(make, steps=60):
    optimizer = one_parameter(0.4)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


s = o.lr_scheduler
SCHEDULES = {
    "step": lambda opt: s.StepLR(opt, 7, 0.5),
    # Beyond its end PyTorch's cosine rises again; ours stays, so stop there.
    "cosine": lambda opt: s.CosineAnnealingLR(opt, 60, 0.02),
    "warm_up_cosine": lambda opt: s.SequentialLR(
        opt, [s.LinearLR(opt, 0.1, 1.0, 8), s.CosineAnnealingLR(opt, 60, 0.0)], [8]
    ),
    "one_cycle": lambda opt: s.OneCycleLR(opt, 0.3, total_steps=60, cycle_momentum=False),
}


def plateau():
    optimizer = one_parameter(0.4)
    scheduler = s.ReduceLROnPlateau(optimizer, factor=0.3, patience=3, min_lr=0.01)
    rates = []
    for step in range(60):
        scheduler.step(max(1.0 - 0.1 * step, 0.4) + 0.00001 * math.cos(step))
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def clipping():
    found = []
    for most in [0.5, 100.0]:
        a, b = start()
        a.grad, b.grad = gradients(a.detach(), b.detach(), 1)
        norm = torch.nn.utils.clip_grad_norm_([a, b], most)
        found.append({"most": most, "norm": norm.item(), "a": a.grad.flatten().tolist(), "b": b.grad.tolist()})
    return found


recorded = {
    "torch": torch.__version__,
    "optimizers": {name: run(make) for name, make in OPTIMIZERS.items()},
    "schedules": {name: schedule(make) for name, make in SCHEDULES.items()},
    "plateau": plateau(),
    "clipping": clipping(),
}
path = pathlib.Path(__file__).with_name("recorded.json")
path.write_text(json.dumps(recorded, indent=1) + "\n")
