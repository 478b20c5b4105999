#!/usr/bin/env python3
"""Records what transformers computes for small models of every kind: python3 record.py [folder].

The weights follow a formula of their place, so that none need be stored: element i of the k-th name in
alphabetical order is base + amplitude * sin(0.7 i + 1.3 k), where norms are near one and all else near zero.
Needs the packages torch and transformers; recorded with 2.15.0 and 5.24.0.
"""

import json
import math
import sys
from pathlib import Path

import networks
import torch
import transformers as tf

SIZES = dict(
    vocab_size=24, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, attn_implementation="eager",
)
# Beams, the token that ends texts, and the power of the length.
BEAMS = [(2, 2, 1.0), (3, 22, 1.0), (4, 9, 0.0), (4, 18, 2.0), (5, 5, -1.0), (3, 23, 0.5), (4, 0, 1.0)]
TOKENS = [[1, 5, 3, 7, 20, 11, 2, 9], [4, 4, 0, 23, 8, 15, 6, 1]]

LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16, rope_theta=100.0)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=10000.0)

DECODERS = {
    "llama": tf.LlamaConfig(**SIZES, rms_norm_eps=1e-5, rope_parameters=LLAMA3),
    "llama_yarn": tf.LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=YARN),
    "mistral": tf.MistralConfig(**SIZES, sliding_window=4, head_dim=6),
    "smollm3": tf.SmolLM3Config(**SIZES, no_rope_layers=[1, 0], pad_token_id=0),
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
# Positions are counted from the one after that of padding.
ROBERTA = tf.RobertaConfig(vocab_size=24, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
                           max_position_embeddings=34, type_vocab_size=1, pad_token_id=22, attn_implementation="eager")
DISTILBERT = tf.DistilBertConfig(vocab_size=24, dim=16, hidden_dim=20, n_layers=2, n_heads=4, max_position_embeddings=16,
                                 attn_implementation="eager")
ENCODERS = {"bert": (tf.BertModel, BERT), "roberta": (tf.RobertaModel, ROBERTA), "distilbert": (tf.DistilBertModel, DISTILBERT)}
SHAPES = dict(num_labels=5, image_size=32, patch_size=8, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
              num_attention_heads=4)
IMAGES = {
    "resnet": tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=5),
    "resnet_bottleneck": tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 1], num_labels=5),
    "vit": tf.ViTConfig(**SHAPES, attn_implementation="eager"),
}

PART = dict(layers=2, attention_heads=4, ffn_dim=20)
WHISPER = tf.WhisperConfig(
    vocab_size=24, d_model=16, num_mel_bins=8, max_source_positions=50, max_target_positions=16, decoder_start_token_id=1,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, suppress_tokens=[5], begin_suppress_tokens=[19, 2],
    attn_implementation="eager", **{f"{part}_{key}": n for part in ("encoder", "decoder") for key, n in PART.items()},
)

UNETS = {
    "unet": dict(model_type="unet", in_channels=3, out_channels=3, block_out_channels=[8, 8, 12], norm_num_groups=4),
    "unet_timed": dict(model_type="unet", in_channels=3, out_channels=2, block_out_channels=[8, 12], norm_num_groups=4,
                       time_embedding=True, attention_heads=3),
}
EXPERT = dict(model_type="smolvla_expert", hidden_size=16, intermediate_size=20, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, head_dim=6, action_dim=5, context_dim=7)


def fill(model, whole_norms):
    """Gives the weights the formula's values; returns their names and shapes."""
    shapes = {}
    # Whisper's scores have the weights of its embedding.
    names = sorted(name for name, value in model.state_dict().items() if value.is_floating_point() and name != "proj_out.weight")
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
    config = config if isinstance(config, dict) else json.loads(config.to_json_string())
    record = dict(config=dict(config), output=rounded(output), **rest)
    record["config"].pop("transformers_version", None)
    (folder / f"{name}.json").write_text(json.dumps(record) + "\n")


def greedy(model, features, prompt, count):
    """The likeliest tokens, one by one and without a cache, except those that are suppressed."""
    tokens = list(prompt)
    for place in range(count):
        logits = model(input_features=features, decoder_input_ids=torch.tensor([tokens])).logits[0, -1]
        logits[WHISPER.suppress_tokens + (WHISPER.begin_suppress_tokens if place == 0 else [])] = -torch.inf
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt):]


def beams(folder):
    """The best texts of beam searches that end at different tokens, by the small Llama, and their scores."""
    model = tf.LlamaForCausalLM(DECODERS["llama"]).eval()
    fill(model, whole_norms=True)
    searches = []
    for count, end, penalty in BEAMS:
        found = model.generate(
            torch.tensor([TOKENS[0]]), num_beams=count, num_return_sequences=count, max_new_tokens=6, do_sample=False,
            eos_token_id=end, pad_token_id=end, length_penalty=penalty, return_dict_in_generate=True, output_scores=True,
        )
        new = [row[len(TOKENS[0]):].tolist() for row in found.sequences]
        texts = [row[:row.index(end)] if end in row else row for row in new]
        searches.append(dict(beams=count, end=end, penalty=penalty, texts=texts, scores=rounded(found.sequences_scores)))
    (folder / "beams.json").write_text(json.dumps(searches) + "\n")


def whisper(folder):
    place = torch.arange(16000, dtype=torch.float64)
    sound = (0.3 * torch.sin(1e-5 * place * place) + 0.1 * torch.sin(place)).float()
    hear = tf.WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    features = hear(sound[:12000].numpy(), sampling_rate=16000, return_tensors="pt").input_features
    model = tf.WhisperForConditionalGeneration(WHISPER).eval()
    names = fill(model, whole_norms=True)
    tokens = torch.tensor(TOKENS)
    output = model(input_features=torch.cat([features, 0.5 * features]), decoder_input_ids=tokens).logits
    write(folder, "whisper", model, WHISPER, output, names=names, tokens=TOKENS, features=rounded(features),
          greedy=greedy(model, features, [1, 5], 10))


def wave(*shape):
    return torch.sin(0.1 * torch.arange(math.prod(shape), dtype=torch.float64)).float().reshape(shape)


def trained(folder, name, model, config, *inputs):
    """One step of training: the loss is the mean of the output's squares."""
    names = fill(model, whole_norms=True)
    output = model(*inputs)
    loss = output.pow(2).mean()
    loss.backward()
    norm = sum(value.grad.double().pow(2).sum() for value in model.parameters()) ** 0.5
    write(folder, name, model, config, output.detach(), names=names, loss=float(loss.detach()), gradient_norm=float(norm))


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "recorded")
    folder.mkdir(exist_ok=True)
    tokens = torch.tensor(TOKENS)
    for name, config in DECODERS.items():
        model = tf.AutoModelForCausalLM.from_config(config).eval()
        names = fill(model, whole_norms=not name.startswith("gemma"))
        output = model(tokens).logits
        write(folder, name, model, config, output, names=names, tokens=TOKENS)
    mask = [[1] * 8, [1] * 5 + [0] * 3]
    for name, (kind, config) in ENCODERS.items():
        model = kind(config).eval()
        names = fill(model, whole_norms=True)
        output = model(tokens, attention_mask=torch.tensor(mask)).last_hidden_state
        write(folder, name, model, config, output, names=names, tokens=TOKENS, mask=mask)
    images = wave(2, 3, 32, 32)
    for name, config in IMAGES.items():
        model = tf.AutoModelForImageClassification.from_config(config).eval()
        names = fill(model, whole_norms=True)
        write(folder, name, model, config, model(images).logits, names=names)
    beams(folder)
    whisper(folder)
    for name, config in UNETS.items():
        trained(folder, name, networks.UNet(config), config, wave(2, 3, 8, 8), torch.tensor([3.0, 250.0]))
    trained(folder, "expert", networks.ActionExpert(EXPERT), EXPERT, wave(2, 6, 5), wave(2, 1, 32), wave(2, 4, 7))


if __name__ == "__main__":
    main()
