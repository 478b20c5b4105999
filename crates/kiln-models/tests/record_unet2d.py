#!/usr/bin/env python3
"""Records what diffusers computes for small U-Nets: python3 record_unet2d.py [folder].

Weights are those of record.py's formula. Needs the packages torch, transformers and diffusers; recorded with 2.15.0,
5.24.0 and 0.42.1.
"""

import json
import sys
from pathlib import Path

import diffusers
import torch
from record import fill, wave, write

SIZES = dict(sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4)
CONDITION = dict(**SIZES, in_channels=4, out_channels=4, cross_attention_dim=12)

MODELS = {
    "ddpm": diffusers.UNet2DModel(
        **SIZES, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4, downsample_padding=0, flip_sin_to_cos=False, freq_shift=1, norm_eps=1e-6,
        center_input_sample=True,
    ),
    "stable_diffusion": diffusers.UNet2DConditionModel(
        **CONDITION, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), attention_head_dim=2,
    ),
    "stable_diffusion_xl": diffusers.UNet2DConditionModel(
        **CONDITION, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=[2, 4], use_linear_projection=True,
        transformer_layers_per_block=[1, 2], addition_embed_type="text_time", addition_time_embed_dim=4,
        projection_class_embeddings_input_dim=29,
    ),
}


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "recorded")
    times = torch.tensor([3, 250])
    for name, model in MODELS.items():
        names = fill(model.eval(), whole_norms=True)
        told = dict(encoder_hidden_states=wave(2, 5, 12)) if name != "ddpm" else {}
        if name.endswith("xl"):
            sizes = torch.tensor([[64.0, 48, 0, 4, 64, 64], [32, 32, 8, 0, 64, 64]])
            told["added_cond_kwargs"] = dict(text_embeds=wave(2, 5), time_ids=sizes)
        # Levels of odd extents come back to them.
        images = wave(2, model.config.in_channels, 8, 7 if name == "stable_diffusion" else 8)
        write(folder, name, model, json.loads(model.to_json_string()), model(images, times, **told).sample, names=names)


if __name__ == "__main__":
    main()
