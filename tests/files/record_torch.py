"""Records `recorded/*.pt`: archives laid out as torch.save lays them out (protocol 2, stored files at
multiples of 64 bytes, persistent identifiers of storages), made without PyTorch by stand-ins for its
functions and classes under the names that its pickles have.
"""
import collections
import io
import os
import pickle
import struct
import sys
import types
import zipfile

FOLDER = os.path.join(os.path.dirname(__file__), "recorded")
TYPES = {
    "FloatStorage": "f", "DoubleStorage": "d", "HalfStorage": "e", "LongStorage": "q", "IntStorage": "i",
    "ShortStorage": "h", "CharStorage": "b", "ByteStorage": "B", "BoolStorage": "?", "BFloat16Storage": "H",
}
torch, utils, storages = (types.ModuleType(name) for name in ["torch", "torch._utils", "torch.storage"])


def function(module, name):
    def stand_in(*_):
        raise AssertionError("a stand-in")

    stand_in.__module__, stand_in.__name__, stand_in.__qualname__ = module.__name__, name, name
    setattr(module, name, stand_in)


for name in ["_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"]:
    function(utils, name)
function(torch, "Size")
function(torch, "uint32")
for name in TYPES:
    setattr(torch, name, type(name, (), {"__module__": "torch"}))
storages.UntypedStorage = type("UntypedStorage", (), {"__module__": "torch.storage"})
sys.modules.update({"torch": torch, "torch._utils": utils, "torch.storage": storages})


class Storage:
    def __init__(self, kind, values):
        self.kind, self.values = kind, values


class Call:
    """What a pickle calls to make a value."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def strides_of(shape):
    strides, next_stride = [], 1
    for extent in reversed(shape):
        strides.insert(0, next_stride)
        next_stride *= extent
    return tuple(strides)


def tensor(storage, shape, offset=0, strides=None):
    strides = strides_of(shape) if strides is None else strides
    arguments = storage, offset, shape, strides, False, collections.OrderedDict()
    return Call(utils._rebuild_tensor_v2, *arguments)


def parameter(value):
    return Call(utils._rebuild_parameter, value, True, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.storages = []

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        if value not in self.storages:
            self.storages.append(value)
        key = str(self.storages.index(value))
        kind = getattr(torch, value.kind, None) or storages.UntypedStorage
        return "storage", kind, key, "cpu", len(value.values)


def save(name, value, protocol=2, compression=zipfile.ZIP_STORED):
    program = io.BytesIO()
    pickler = Pickler(program, protocol)
    pickler.dump(value)
    with zipfile.ZipFile(os.path.join(FOLDER, name), "w", compression) as archive:
        def put(file, data):
            info = zipfile.ZipInfo(f"archive/{file}")
            info.compress_type = compression
            start = archive.fp.tell() + 30 + len(info.filename) + 4
            info.extra = b"FB" + struct.pack("<H", -start % 64) + b"Z" * (-start % 64)
            archive.writestr(info, data)

        put("data.pkl", program.getvalue())
        put("byteorder", b"little")
        for key, storage in enumerate(pickler.storages):
            code = TYPES.get(storage.kind, "B")
            put(f"data/{key}", struct.pack(f"<{len(storage.values)}{code}", *storage.values))
        put("version", b"3\n")


def model():
    state = collections.OrderedDict()
    shared = Storage("FloatStorage", range(12))
    state["embed.weight"] = tensor(shared, (4, 3))
    state["head.weight"] = parameter(tensor(shared, (4, 3)))
    state["turned"] = tensor(shared, (3, 4), 0, (1, 3))
    state["part"] = tensor(shared, (2, 2), 4, (3, 1))
    state["repeated"] = tensor(shared, (2, 3), 3, (0, 1))
    state["scalar"] = tensor(Storage("LongStorage", [7]), ())
    state["none"] = tensor(Storage("FloatStorage", []), (0, 3))
    for kind in TYPES:
        state[f"types.{kind}"] = tensor(Storage(kind, [0, 1, 1]), (3,))
    state["types.turned_short"] = tensor(Storage("ShortStorage", range(4)), (2, 2), 0, (1, 2))
    # Of a type without a storage of its own: bytes, and the type as an argument.
    untyped = Storage("UntypedStorage", [1, 0, 0, 0, 255, 255, 255, 255])
    arguments = untyped, 0, (2,), (1,), False, collections.OrderedDict(), torch.uint32
    state["types.uint32"] = Call(utils._rebuild_tensor_v3, *arguments)
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    return state


state = model()
save("state.pt", state)
save("nested.pt", {
    "model": state, "epoch": 3, "lr": 0.5, "name": "é", "done": True, "large": -(2**40), "nothing": None,
    "optimizer": {"state": {0: {"exp_avg": tensor(Storage("FloatStorage", [1.0, 2.0]), (2,))}},
                  "param_groups": [{"betas": (0.9, 0.999), "params": [0, 1]}]},
})
save("protocol4.pt", {"x": tensor(Storage("FloatStorage", [1.0, 2.0]), (2,))}, protocol=4)
save("alone.pt", tensor(Storage("DoubleStorage", [1.0, 2.0]), (2,)))
save("deflated.pt", {"x": tensor(Storage("FloatStorage", [0.0] * 64), (64,))}, 2, zipfile.ZIP_DEFLATED)
save("calls.pt", {"x": Call(print, "executed")})
