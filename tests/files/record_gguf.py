"""Records `recorded/blocks.safetensors` and `recorded/small.gguf` by the PyPI packages gguf and numpy.

Blocks of random bytes of every format, with scales of ordinary size, and what they decode to; numbers and
what they encode to; and a file with metadata of all types.
"""
import json
import os
import struct

import gguf
import numpy as np
from gguf import quants

FOLDER = os.path.join(os.path.dirname(__file__), "recorded")
# Where a block has floats of 16 bits.
FLOATS = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}
BLOCKS = 3


def save(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        dtype = {"uint8": "U8", "float32": "F32"}[str(array.dtype)]
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def blocks():
    random, tensors = np.random.default_rng(0), {}
    for name, floats in FLOATS.items():
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        packed = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for at in floats:
            scale = random.uniform(-2, 2, (BLOCKS, 1)).astype("<f2")
            packed[:, at:at + 2] = scale.view(np.uint8)
        if name == "MXFP4":
            packed[:, 0] = [120, 127, 0]
        tensors[f"{name}.bytes"] = packed
        tensors[f"{name}.values"] = quants.dequantize(packed, kind).astype(np.float32)
    numbers = random.standard_normal((4, 64)).astype(np.float32)
    numbers[3, :32] = 0
    tensors["numbers"] = numbers
    for name in ["Q8_0", "Q4_0"]:
        tensors[f"{name}.encoded"] = quants.quantize(numbers, gguf.GGMLQuantizationType[name])
    save(os.path.join(FOLDER, "blocks.safetensors"), tensors)


def small():
    writer = gguf.GGUFWriter(os.path.join(FOLDER, "small.gguf"), "llama")
    writer.add_uint8("u8", 255)
    writer.add_int8("i8", -1)
    writer.add_uint16("u16", 65535)
    writer.add_int16("i16", -2)
    writer.add_uint32("u32", 4294967295)
    writer.add_int32("i32", -3)
    writer.add_uint64("u64", 2**64 - 1)
    writer.add_int64("i64", -4)
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("bool", True)
    writer.add_array("tokens", ["a", "é", ""])
    writer.add_array("scores", [1.5, -2.0])
    writer.add_custom_alignment(64)
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    writer.add_tensor("grid", grid)
    writer.add_tensor("half", grid.astype(np.float16))
    writer.add_tensor("ints", np.arange(4, dtype=np.int32))
    kind = gguf.GGMLQuantizationType.Q8_0
    packed = quants.quantize(np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32), kind)
    writer.add_tensor("packed", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


blocks()
small()
