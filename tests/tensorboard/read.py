"""Reads the files of tests/tensorboard.rs with TensorBoard's own reader."""

import io
import math
import sys

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import HISTOGRAMS, EventAccumulator

run = sys.argv[1]


def read(folder):
    events = EventAccumulator(folder, size_guidance={HISTOGRAMS: 0})
    events.Reload()
    return events


events = read(run)
losses = events.Scalars("loss/train")
assert [event.step for event in losses] == [0, 1, 2, 3, 4], losses
assert [event.value for event in losses] == [1, 0.5, 0.25, 0.125, 0.0625], losses
assert losses[0].wall_time > 1.7e9, losses

(weights,) = events.Histograms("weights")
found = weights.histogram_value
assert (weights.step, found.num, found.min, found.max) == (7, 1001, -2, 2), found
assert sum(found.bucket) == 1001 and len(found.bucket) == len(found.bucket_limit), found
assert abs(found.sum) < 1e-3 and math.isclose(found.sum_squares, 1001 * 4 / 3, rel_tol=0.01), found

(picture,) = events.Images("picture")
assert (picture.step, picture.width, picture.height) == (1, 4, 2), picture
assert picture.encoded_image_string.startswith(b"\x89PNG"), picture
(gray,) = events.Images("gray")
assert list(Image.open(io.BytesIO(gray.encoded_image_string)).tobytes()) == [7] * 12
pixels = Image.open(io.BytesIO(picture.encoded_image_string)).tobytes()
assert list(pixels[:4]) == [0, 88, 177, 11], list(pixels)

(notes,) = events.Tensors("notes/text_summary")
assert notes.step == 2 and notes.tensor_proto.string_val[0].decode() == "lr = **0.1**, größer", notes
assert events.SummaryMetadata("notes/text_summary").plugin_data.plugin_name == "text"

for name, value in [("train", 0.25), ("test", 0.75)]:
    (event,) = read(f"{run}/both_{name}").Scalars("both")
    assert (event.step, event.value) == (3, value), event
print("TensorBoard's reader found all scalars, histograms, images and texts")
