"""Records `recorded/*.npy` and `recorded/*.npz` by the PyPI package numpy."""
import os

import numpy as np

FOLDER = os.path.join(os.path.dirname(__file__), "recorded")
grid = np.arange(6).reshape(2, 3)
arrays = {
    "f2": grid.astype("<f2"), "f4": grid.astype("<f4"), "f8": grid.astype("<f8"), "i1": grid.astype("i1"),
    "i2": grid.astype("<i2"), "i4": grid.astype("<i4"), "i8": grid.astype("<i8"), "u1": grid.astype("u1"),
    "u2": grid.astype("<u2"), "u4": grid.astype("<u4"), "u8": grid.astype("<u8"), "bool": grid > 2,
    "big": grid.astype(">f4"), "big16": grid.astype(">i2"), "fortran": np.asfortranarray(grid.astype("<f4")),
    "fortran_i2": np.asfortranarray(grid.astype("<i2")), "scalar": np.float32(7), "none": np.zeros((0, 3)),
    "line": np.arange(3, dtype="<f4"),
}
np.savez(os.path.join(FOLDER, "stored.npz"), **arrays)
np.savez_compressed(os.path.join(FOLDER, "deflated.npz"), **arrays)
np.save(os.path.join(FOLDER, "fortran.npy"), arrays["fortran"])
