#!/usr/bin/env python3
"""Saves the weights of other libraries' programs, so that losses can be compared:
python3 peers_weights.py FOLDER_OF_PROGRAMS FOLDER_TO_WRITE. Needs torch and safetensors.
"""

import importlib
import sys
from pathlib import Path

from safetensors.torch import save_file

programs, folder = map(Path, sys.argv[1:3])
sys.path.insert(0, str(programs))
folder.mkdir(parents=True, exist_ok=True)
for name in ["resnet50", "whisper", "unet", "smolvla"]:
    state = importlib.import_module(name).torch_model().state_dict()
    save_file({key: value.contiguous() for key, value in state.items()}, folder / f"{name}.safetensors")
