"""Networks of which transformers has none, for record.py: a diffusion U-Net and SmolVLA's action expert."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def conv(inputs, outputs, size=3, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


def optional(wanted, build):
    return build() if wanted else None


class Attention(nn.Module):
    """With fewer heads of keys and values than of queries, where `kv_heads` says so."""

    def __init__(self, width, heads, kv_heads, each, bias):
        super().__init__()
        self.shape = heads, kv_heads, each
        self.q_proj = nn.Linear(width, heads * each, bias)
        self.k_proj = nn.Linear(width, kv_heads * each, bias)
        self.v_proj = nn.Linear(width, kv_heads * each, bias)
        self.out_proj = nn.Linear(heads * each, width, bias)

    def forward(self, x, memory):
        heads, kv_heads, each = self.shape
        q = self.q_proj(x).unflatten(-1, (heads, each)).transpose(1, 2)
        k = self.k_proj(memory).unflatten(-1, (kv_heads, each)).transpose(1, 2)
        v = self.v_proj(memory).unflatten(-1, (kv_heads, each)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class Time(nn.Module):
    def __init__(self, waves):
        super().__init__()
        self.waves = waves
        self.linear_1, self.linear_2 = nn.Linear(waves, 4 * waves), nn.Linear(4 * waves, 4 * waves)

    def forward(self, times):
        half = self.waves // 2
        angles = times[:, None] * torch.exp(-math.log(1e4) / half * torch.arange(half))
        return self.linear_2(F.silu(self.linear_1(torch.cat([angles.cos(), angles.sin()], 1))))


class Block(nn.Module):
    def __init__(self, inputs, outputs, groups, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inputs), conv(inputs, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(groups, outputs), conv(outputs, outputs)
        self.time_emb_proj = optional(time, lambda: nn.Linear(time, outputs))
        self.conv_shortcut = optional(inputs != outputs, lambda: conv(inputs, outputs, 1))

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x)))
        if time is not None:
            y = y + self.time_emb_proj(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class PixelAttention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, width)
        self.attention = Attention(width, heads, heads, width // heads, True)

    def forward(self, x):
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(pixels, pixels).transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    def __init__(self, config):
        super().__init__()
        widths, groups, heads = config["block_out_channels"], config["norm_num_groups"], config.get("attention_heads")
        first, last, levels = widths[0], widths[-1], range(len(widths))
        timed = config.get("time_embedding", False)
        time = 4 * first if timed else None
        block = lambda inputs, outputs: Block(inputs, outputs, groups, time)
        self.conv_in, self.conv_out = conv(config["in_channels"], first), conv(first, config["out_channels"])
        self.time = optional(timed, lambda: Time(first))
        self.down_blocks = nn.ModuleList(block(widths[max(i - 1, 0)], widths[i]) for i in levels)
        self.downsamplers = nn.ModuleList(conv(width, width, 3, 2) for width in widths[:-1])
        self.mid_block = block(last, last)
        self.mid_attention = optional(heads, lambda: PixelAttention(last, heads, groups))
        self.up_blocks = nn.ModuleList(block((widths + [last])[i + 1] + widths[i], widths[i]) for i in levels)
        self.norm_out = nn.GroupNorm(groups, first)

    def forward(self, x, times):
        time = None if self.time is None else self.time(times)
        x, kept = self.conv_in(x), []
        for i, block in enumerate(self.down_blocks):
            x = block(self.downsamplers[i - 1](x) if i else x, time)
            kept.append(x)
        x = self.mid_block(x, time)
        x = x if self.mid_attention is None else self.mid_attention(x)
        for i in reversed(range(len(kept))):
            x = F.interpolate(x, scale_factor=2.0) if i + 1 < len(kept) else x
            x = self.up_blocks[i](torch.cat([x, kept[i]], 1), time)
        return self.conv_out(F.silu(self.norm_out(x)))


class Perceptron(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, inner, False), nn.Linear(width, inner, False)
        self.down_proj = nn.Linear(inner, width, False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class ExpertLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["hidden_size"]
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.self_attn = Attention(width, c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], False)
        self.mlp = Perceptron(width, c["intermediate_size"])

    def forward(self, x, seen):
        h = self.input_layernorm(x)
        x = x + self.self_attn(h, h if seen is None else seen)
        return x + self.mlp(self.post_attention_layernorm(x))


class ActionExpert(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["hidden_size"]
        self.action_in_proj = nn.Linear(c["action_dim"], width, False)
        self.time_in_proj = nn.Linear(2 * width, width, False)
        self.context_proj = nn.Linear(c["context_dim"], width, False)
        self.action_out_proj = nn.Linear(width, c["action_dim"], False)
        self.layers = nn.ModuleList(ExpertLayer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(width, 1e-5)

    def forward(self, actions, time, seen):
        x, seen = self.action_in_proj(actions) + self.time_in_proj(time), self.context_proj(seen)
        for number, layer in enumerate(self.layers):
            x = layer(x, seen if number % 2 else None)
        return self.action_out_proj(self.norm(x))
