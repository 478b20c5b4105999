"""Records what PyTorch's recurrent and attention layers compute: writes
recorded.json beside this file, parameters, inputs and outputs in double
precision. Run it with any PyTorch of version 2:

    python tests/nn/record.py
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


def recurrent(module, states):
    rounded(module)
    x = numbers(torch.randn(5, 2, 3))
    start = [numbers(torch.randn(2, 2, 4)) for _ in range(states)]
    given = [torch.tensor(s["values"]).reshape(s["shape"]) for s in [x, *start]]
    y, end = module(given[0], given[1] if states == 1 else (given[1], given[2]))
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


causal = nn.Transformer.generate_square_subsequent_mask(4)
same = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0, "batch_first": True}
recorded = {
    "torch": torch.__version__,
    "rnn": recurrent(nn.RNN(3, 4, 2), 1),
    "lstm": recurrent(nn.LSTM(3, 4, 2), 2),
    "gru": recurrent(nn.GRU(3, 4, 2), 1),
    "attention": block(nn.MultiheadAttention(8, 2, batch_first=True)),
    "encoder": block(nn.TransformerEncoderLayer(**same)),
    "encoder_norm_first_gelu_causal": block(
        nn.TransformerEncoderLayer(**same, norm_first=True, activation="gelu"), mask=causal
    ),
    "decoder": block(nn.TransformerDecoderLayer(**same), memory=True, mask=causal),
}
path = pathlib.Path(__file__).with_name("recorded.json")
path.write_text(json.dumps(recorded) + "\n")
