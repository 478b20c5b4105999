"""Records what PyTorch's recurrent and attention layers compute: writes
recorded.json beside this file, parameters, inputs and outputs in double
precision. Run it with any PyTorch of version 2:

    python tests/models/nn/record.py
"""

import json
import pathlib

import torch
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def numbers(tensor):
    # Nine digits tell every mistake, and keep the file small.
    return {"shape": list(tensor.shape), "values": [round(x, 12) for x in tensor.detach().flatten().tolist()]}


def rounded(module):
    """Parameters as they are recorded, norms moved off their starts."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            if "norm" in name:
                p.add_(torch.randn_like(p) * 0.1)
            p.copy_(torch.tensor([round(x, 12) for x in p.flatten().tolist()]).reshape(p.shape))
    return module.eval()


def named(module):
    """PyTorch's one weight for queries, keys and values as three layers."""
    found = {}
    for name, p in module.named_parameters():
        if "in_proj_" in name:
            for part, value in zip("qkv", p.chunk(3)):
                found[name.replace("in_proj_", f"{part}_proj.")] = numbers(value)
        elif name.startswith("linear"):
            found[f"feed_forward.{name}"] = numbers(p)
        else:
            found[name] = numbers(p)
    return found


def recurrent(module, states, lengths=None):
    rounded(module)
    x = numbers(torch.randn(5, 2, 3))
    start = [numbers(torch.randn(2, 2, 4)) for _ in range(states)]
    given = [torch.tensor(s["values"]).reshape(s["shape"]) for s in [x, *start]]
    state = given[1] if states == 1 else (given[1], given[2])
    if lengths is None:
        y, end = module(given[0], state)
    else:
        packed = nn.utils.rnn.pack_padded_sequence(given[0], lengths, enforce_sorted=False)
        y, end = module(packed, state)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, total_length=5)
    end = [end] if states == 1 else list(end)
    y.square().sum().backward()
    gradient = numbers(module.weight_hh_l0.grad)
    return {
        "params": named(module),
        "x": x,
        "start": start,
        "y": numbers(y),
        "end": [numbers(e) for e in end],
        "gradient": gradient,
    }


def block(module, memory=False, mask=None):
    rounded(module)
    given = [numbers(torch.randn(2, 4, 8)) for _ in range(1 + memory)]
    x = [torch.tensor(g["values"]).reshape(g["shape"]) for g in given]
    if isinstance(module, nn.MultiheadAttention):
        y = module(x[0], x[0], x[0], attn_mask=mask, need_weights=False)[0]
    elif memory:
        y = module(x[0], x[1], tgt_mask=mask)
    else:
        y = module(x[0], src_mask=mask)
    return {"params": named(module), "x": given, "y": numbers(y)}


def layer(module, *shape):
    """A layer of one input, its parameters moved off their starts."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    rounded(module)
    x = numbers(torch.randn(*shape) * 2)
    given = torch.tensor(x["values"]).reshape(shape)
    return {"params": named(module), "x": [x], "y": numbers(module(given))}


def rotary(x, base):
    """Halves of the channels turned by the position, as Su et al. 2021 with
    the halves' layout that most models use."""
    length, half = x.shape[-2], x.shape[-1] // 2
    angles = torch.arange(length)[:, None] * base ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class SharedRotary(nn.Module):
    """Four heads of queries, two of keys and values, turned and causal."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(16, 16), nn.Linear(16, 8)
        self.v_proj, self.out_proj = nn.Linear(16, 8), nn.Linear(16, 16)

    def forward(self, x):
        heads = lambda x: x.unflatten(-1, (-1, 4)).transpose(1, 2)
        q, k, v = heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x))
        attend = nn.functional.scaled_dot_product_attention
        y = attend(rotary(q, 1e4), rotary(k, 1e4), v, is_causal=True, enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


LAYERS = {
    "instance_norm": nn.InstanceNorm2d(3),
    "instance_norm_affine": nn.InstanceNorm2d(3, affine=True),
    "prelu": nn.PReLU(3),
    "max_pool": nn.MaxPool2d(3, stride=2, padding=1),
    "avg_pool": nn.AvgPool2d(2, stride=1, count_include_pad=False),
    "adaptive_avg_pool": nn.AdaptiveAvgPool2d((3, 2)),
    "adaptive_max_pool": nn.AdaptiveMaxPool2d(2),
    "relu6": nn.ReLU6(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "mish": nn.Mish(),
    "hardswish": nn.Hardswish(),
    "hardsigmoid": nn.Hardsigmoid(),
    "softsign": nn.Softsign(),
    "tanhshrink": nn.Tanhshrink(),
    "log_sigmoid": nn.LogSigmoid(),
    "selu": nn.SELU(),
    "leaky_relu": nn.LeakyReLU(),
    "elu": nn.ELU(),
    "celu": nn.CELU(),
    "softplus": nn.Softplus(),
    "hardtanh": nn.Hardtanh(),
    "hardshrink": nn.Hardshrink(),
    "softshrink": nn.Softshrink(),
    "softmax": nn.Softmax(-1),
    "log_softmax": nn.LogSoftmax(-1),
    "softmin": nn.Softmin(-1),
    "glu": nn.GLU(),
    "flatten": nn.Flatten(),
}

causal = nn.Transformer.generate_square_subsequent_mask(4)
same = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0, "batch_first": True}
recorded = {
    "torch": torch.__version__,
    "rnn": recurrent(nn.RNN(3, 4, 2), 1),
    "lstm": recurrent(nn.LSTM(3, 4, 2), 2),
    "gru": recurrent(nn.GRU(3, 4, 2), 1),
    "lstm_padded": recurrent(nn.LSTM(3, 4, 2), 2, torch.tensor([2, 5])),
    "gru_padded": recurrent(nn.GRU(3, 4, 2), 1, torch.tensor([4, 1])),
    "attention": block(nn.MultiheadAttention(8, 2, batch_first=True)),
    "encoder": block(nn.TransformerEncoderLayer(**same)),
    "encoder_norm_first_gelu_causal": block(
        nn.TransformerEncoderLayer(**same, norm_first=True, activation="gelu"), mask=causal
    ),
    "decoder": block(nn.TransformerDecoderLayer(**same), memory=True, mask=causal),
    "shared_rotary": layer(SharedRotary(), 2, 5, 16),
} | {
    # Four columns are enough to tell rows, and an even number for halves.
    name: layer(module, 2, 3, 5, 4) for name, module in LAYERS.items()
}
path = pathlib.Path(__file__).with_name("recorded.json")
path.write_text(json.dumps(recorded) + "\n")
