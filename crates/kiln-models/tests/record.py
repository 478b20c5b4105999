#!/usr/bin/env python3
"""Records what transformers computes for small models of every kind: python3 record.py [folder].

The weights follow a formula of their place, so that none need be stored: element i of the k-th name in
alphabetical order is base + amplitude * sin(0.7 i + 1.3 k), where norms are near one and all else near zero.
Needs the packages torch and transformers; recorded with 2.15.0 and 5.24.0.
"""

import json
import sys
from pathlib import Path

import torch
import transformers as tf

SIZES = dict(
    vocab_size=24, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, attn_implementation="eager",
)
TOKENS = [[1, 5, 3, 7, 20, 11, 2, 9], [4, 4, 0, 23, 8, 15, 6, 1]]

LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16, rope_theta=100.0)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=10000.0)

DECODERS = {
    "llama": tf.LlamaConfig(**SIZES, rms_norm_eps=1e-5, rope_parameters=LLAMA3),
    "llama_yarn": tf.LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=YARN),
    "mistral": tf.MistralConfig(**SIZES, sliding_window=4, head_dim=6),
    "qwen2": tf.Qwen2Config(**SIZES),
    "qwen3": tf.Qwen3Config(**SIZES, head_dim=6),
    "gemma": tf.GemmaConfig(**SIZES, head_dim=6),
    "gemma2": tf.Gemma2Config(**SIZES, head_dim=6, sliding_window=4, query_pre_attn_scalar=9, attn_logit_softcapping=2.0,
                              final_logit_softcapping=3.0),
    "gemma3": tf.Gemma3TextConfig(**SIZES, head_dim=6, sliding_window=4, query_pre_attn_scalar=9,
                                  layer_types=["sliding_attention", "full_attention"]),
}
BERT = tf.BertConfig(vocab_size=24, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
                     max_position_embeddings=16, attn_implementation="eager")
SHAPES = dict(num_labels=5, image_size=32, patch_size=8, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
              num_attention_heads=4)
IMAGES = {
    "resnet": tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=5),
    "resnet_bottleneck": tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 1], num_labels=5),
    "vit": tf.ViTConfig(**SHAPES, attn_implementation="eager"),
}


def fill(model, whole_norms):
    """Gives the weights the formula's values; returns their names and shapes."""
    shapes = {}
    names = sorted(name for name, value in model.state_dict().items() if value.is_floating_point())
    with torch.no_grad():
        for k, name in enumerate(names):
            value = model.state_dict()[name]
            wave = torch.sin(0.7 * torch.arange(value.numel(), dtype=torch.float64) + 1.3 * k)
            norm = "norm" in name.lower() and name.endswith("weight")
            base = 1.0 if norm and whole_norms or name.endswith("running_var") else 0.0
            value.copy_((base + 0.2 * wave).reshape(value.shape))
            shapes[name] = list(value.shape)
    return shapes


def rounded(values):
    return [float(f"{value:.7g}") for value in values.flatten().tolist()]


def write(folder, name, model, config, output, **rest):
    record = dict(config=json.loads(config.to_json_string()), output=rounded(output), **rest)
    record["config"].pop("transformers_version", None)
    (folder / f"{name}.json").write_text(json.dumps(record) + "\n")


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "recorded")
    folder.mkdir(exist_ok=True)
    tokens = torch.tensor(TOKENS)
    for name, config in DECODERS.items():
        model = tf.AutoModelForCausalLM.from_config(config).eval()
        names = fill(model, whole_norms=not name.startswith("gemma"))
        output = model(tokens).logits
        write(folder, name, model, config, output, names=names, tokens=TOKENS)
    model = tf.BertModel(BERT).eval()
    names = fill(model, whole_norms=True)
    mask = [[1] * 8, [1] * 5 + [0] * 3]
    output = model(tokens, attention_mask=torch.tensor(mask)).last_hidden_state
    write(folder, "bert", model, BERT, output, names=names, tokens=TOKENS, mask=mask)
    images = torch.sin(0.1 * torch.arange(2 * 3 * 32 * 32, dtype=torch.float64)).float().reshape(2, 3, 32, 32)
    for name, config in IMAGES.items():
        model = tf.AutoModelForImageClassification.from_config(config).eval()
        names = fill(model, whole_norms=True)
        write(folder, name, model, config, model(images).logits, names=names)


main()
