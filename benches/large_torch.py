"""The items of `large.rs` that arithmetic bounds, in PyTorch: `python3 large_torch.py DEVICE`.

Prints a JSON line for each: item, and the milliseconds of a call (median of as many as
fit into BUDGET_S seconds). TINY=1 takes the sizes of `large.rs --tiny`.
"""

import json
import os
import sys

import torch
from peers_torch import milliseconds
from torch.nn import functional


def main():
    device = sys.argv[1]
    tiny = os.environ.get("TINY") == "1"
    side, shape = (256, (1, 2, 128, 32)) if tiny else (8192, (8, 16, 4096, 128))

    def number(*dims):
        return (torch.rand(dims, device=device) * 2 - 1).to(torch.bfloat16)

    a, b = number(side, side), number(side, side)
    q, k, v = (number(*shape) for _ in range(3))
    items = {
        "m_matmul_bf16": lambda: a @ b,
        "a_causal_attention_bf16": lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    }
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    for item, call in items.items():
        _, median = milliseconds(call, wait)
        print(json.dumps({"peer": "torch", "device": device, "item": item, "median_ms": median}))


if __name__ == "__main__":
    with torch.no_grad():
        main()
