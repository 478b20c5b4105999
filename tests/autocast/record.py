"""Records the types that PyTorch's operations give under autocast: writes
recorded.json beside this file. Run it with any PyTorch of version 2.15:

    python tests/autocast/record.py

Of each operation in tests/corpus the first call on float32 is made again under
`torch.autocast` in bfloat16, on its inputs and on these in bfloat16. The table
of the CPU is asked with the values; that of CUDA with tensors of no memory,
which dispatch as those on a GPU do, so that no GPU is needed. An operation that
fails so, for instance since its shape depends on values, is left out there.
"""

import json
import pathlib
import struct
import warnings

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

CORPUS = pathlib.Path(__file__).parent.with_name("corpus")
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64"}
TYPES |= {"I32": "int32", "U8": "uint8", "BOOL": "bool"}


def inputs(file, number):
    content = (CORPUS / file).read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header, found = json.loads(content[8 : 8 + length]), []
    while entry := header.get(f"c{number}.i{len(found)}"):
        start, end = (8 + length + at for at in entry["data_offsets"])
        dtype = getattr(torch, TYPES[entry["dtype"]])
        flat = torch.frombuffer(bytearray(content[start:end]), dtype=dtype) if end > start else torch.empty(0, dtype=dtype)
        found.append(flat.reshape(entry["shape"]))
    return found


def decoded(value, tensors):
    if isinstance(value, list):
        return [decoded(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((key, inner),) = value.items()
    match key:
        case "t":
            return tensors[inner]
        case "tuple":
            return tuple(decoded(item, tensors) for item in inner)
        case "f":
            return float(inner)
        case "dtype":
            return getattr(torch, inner)
        case "slice":
            return slice(*inner)
    raise ValueError(key)


def called(name, op, a, kw):
    if "as" in op:
        return eval(op["as"], {"torch": torch, "F": F, "a": a, "kw": kw})
    owner, path = torch, op["call"].split(".")
    if len(path) == 1 and not hasattr(torch, path[0]):
        owner = torch.Tensor
    for part in path:
        owner = getattr(owner, part)
    return owner(*a, **kw)


def types(result):
    results = result if isinstance(result, (tuple, list)) else [result]
    return ",".join(str(tensor.dtype).removeprefix("torch.") for tensor in results)


def recorded(name, op, case, kind):
    found = []
    for low in [False, True]:
        tensors = inputs(op["file"], case["n"])
        if low:
            tensors = [x.bfloat16() if x.dtype == torch.float32 else x for x in tensors]
        try:
            with FakeTensorMode() if kind == "cuda" else warnings.catch_warnings():
                if kind == "cuda":
                    tensors = [torch.empty(x.shape, dtype=x.dtype, device="cuda:0") for x in tensors]
                a = decoded(case["args"], tensors)
                kw = {key: decoded(value, tensors) for key, value in case.get("kw", {}).items()}
                torch.set_autocast_enabled(kind, True)
                found.append(types(called(name, op, a, kw)))
        except Exception:
            found.append(None)
        finally:
            torch.set_autocast_enabled(kind, False)
            torch.clear_autocast_cache()
    return found


warnings.simplefilter("ignore")
for kind in ["cpu", "cuda"]:
    torch.set_autocast_dtype(kind, torch.bfloat16)
ops = {}
for name, op in json.loads((CORPUS / "manifest.json").read_text())["ops"].items():
    cases = (case for case in op["cases"] if case["dt"] == "float32" and not case.get("cplx"))
    if case := next(cases, None):
        ops[name] = {"case": case["n"]} | {kind: recorded(name, op, case, kind) for kind in ["cpu", "cuda"]}
lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(op)}" for name, op in ops.items())
path = pathlib.Path(__file__).with_name("recorded.json")
path.write_text(f'{{"torch": "{torch.__version__}", "ops": {{\n{lines}\n}}}}\n')
