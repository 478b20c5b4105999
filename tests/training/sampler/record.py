"""Records some 200 orders of PyTorch's DistributedSampler: `python record.py > recorded.json`."""

import json
import random

import torch
from torch.utils.data import DistributedSampler

random.seed(0)
cases = []
for number in range(215):
    samples = random.choice([0, 1, 2, 3, 5, 7, 8, 16, 23, 40, 61])
    ranks = random.choice([1, 2, 3, 4, 7, 8])
    rank = random.randrange(ranks)
    shuffle, drop_last = bool(number % 4), bool(random.getrandbits(1))
    seed, epoch = random.choice([0, 1, 42, 2**32 - 1, 2**40 + 5]), random.choice([0, 1, 2, 9, 1000])
    # PyTorch cannot pad nothing.
    if samples == 0 and not drop_last:
        continue
    sampler = DistributedSampler(range(samples), ranks, rank, shuffle, seed, drop_last)
    sampler.set_epoch(epoch)
    cases.append([samples, ranks, rank, shuffle, drop_last, seed, epoch, list(sampler)])
# Long enough for several rounds of the generator.
for ranks in [2, 64]:
    sampler = DistributedSampler(range(2000), ranks, 1, True, 7, False)
    cases.append([2000, ranks, 1, True, False, 7, 0, list(sampler)])
print(json.dumps({"torch": torch.__version__, "cases": cases}, separators=(",", ":")))
